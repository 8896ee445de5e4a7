package keywork_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/google/uuid"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// Submitting is safe to retry, and each answer says what happened.

func (s *scene) faults(faults ...keyworktest.SubmitFault) {
	s.server.Script(func(script *keyworktest.Script) { script.SubmitFaults = faults })
}

// impatient is a client that gives up soon.
func impatient(t *testing.T, endpoints ...string) *keywork.Client {
	t.Helper()
	client := must(keywork.NewClient(keywork.ClientOptions{
		Endpoints: endpoints, SubmitDeadline: 2 * time.Second,
	}))(t)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func numbered(count int) []keywork.Submit {
	submits := make([]keywork.Submit, count)
	for i := range submits {
		submits[i] = keywork.Submit{Queue: "q", Key: fmt.Sprint("key-", i)}
	}
	return submits
}

func unique(ids []string) int {
	slices.Sort(ids)
	return len(slices.Compact(ids))
}

func TestABusyKeyIsAnOutcomeThatNamesItsJob(t *testing.T) {
	scene := longLeases(t)
	ctx := t.Context()
	created := must(scene.client.Submit(ctx, keywork.Submit{Queue: "q", Key: "a", Payload: []byte("v1")}))(t)
	equal(t, "the first", created.Outcome, keywork.Created)
	busy := must(scene.client.Submit(ctx, keywork.Submit{Queue: "q", Key: "a", Payload: []byte("v2")}))(t)
	equal(t, "the second", busy.Outcome, keywork.AlreadyOutstanding)
	equal(t, "accepted", busy.Accepted(), false)
	equal(t, "the job", busy.Job.ID, created.Job.ID)
	equal(t, "its state", busy.Job.State, keywork.JobStateQueued)
	found := must(scene.client.GetJob(ctx, "q", "a"))(t)
	equal(t, "the payload", string(found.Payload), "v1")
	none := must(scene.client.GetJob(ctx, "q", "nothing"))(t)
	equal(t, "a free key", none, nil)
}

func TestASubmitWhoseAnswerIsLostIsTriedAgainWithTheSameID(t *testing.T) {
	scene := longLeases(t)
	scene.faults(keyworktest.Unavailable(), keyworktest.AnswerLost())
	submitted := must(scene.client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a"}))(t)
	equal(t, "it is this call's own job", submitted.Outcome, keywork.Created)
	submits := scene.server.Seen().Submits
	equal(t, "tries", len(submits), 3)
	equal(t, "ids", unique(submits), 1)
}

func TestTheCallersRequestIDIsKeptAndFoundAgain(t *testing.T) {
	scene := longLeases(t)
	submit := keywork.Submit{Queue: "q", Key: "a", RequestID: uuid.NewString()}
	created := must(scene.client.Submit(t.Context(), submit))(t)
	equal(t, "the job's id", created.Job.ID, submit.RequestID)
	again := must(scene.client.Submit(t.Context(), submit))(t)
	equal(t, "again", again.Outcome, keywork.Duplicate)
	equal(t, "the job's id", again.Job.ID, submit.RequestID)
}

func TestASubmitGivesUpAtItsDeadlineAndSaysThatItMayHaveCounted(t *testing.T) {
	scene := longLeases(t)
	scene.faults(keyworktest.AnswerLost(), keyworktest.Refused(awayForLong(t, keywork.ReasonNATSUnavailable)))
	_, err := scene.client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a"})
	failed := errorOf(t, err)
	equal(t, "the reason", failed.Reason(), keywork.ReasonNATSUnavailable)
	equal(t, "retryable", failed.IsRetryable(), true)
	equal(t, "no side effects: the first try may have stored it", failed.HasNoSideEffects(), false)
	equal(t, "tries", len(scene.server.Seen().Submits), 2)
}

// nobodyAnswers are the ways to submit, where there is no server.
var nobodyAnswers = map[string]func(context.Context, *keywork.Client) error{
	"Submit": func(ctx context.Context, client *keywork.Client) error {
		_, err := client.Submit(ctx, numbered(1)[0])
		return err
	},
	"SubmitBatch": func(ctx context.Context, client *keywork.Client) error {
		_, err := client.SubmitBatch(ctx, numbered(2))
		return err
	},
	"SubmitMany": func(ctx context.Context, client *keywork.Client) error {
		return client.SubmitMany(ctx, numbered(2))[1].Err
	},
}

func TestASubmitUsesItsDeadlineUpWhereNobodyIsThere(t *testing.T) {
	t.Parallel()
	for name, submit := range nobodyAnswers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := impatient(t, "http://127.0.0.1:1")
			begun := time.Now()
			err := submit(t.Context(), client)
			took := time.Since(begun)
			equal(t, "the code", errorOf(t, err).Code(), codes.Unavailable)
			if took < 1_900*time.Millisecond || took > 2_300*time.Millisecond {
				t.Fatalf("with a deadline of 2 s it took %v", took)
			}
		})
	}
}

func TestALastTryThatNobodyAnswersHidesNothing(t *testing.T) {
	scene := longLeases(t)
	// The first server tells what is wrong, and the second one is never heard of.
	silent := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	client := must(keywork.NewClient(keywork.ClientOptions{
		Endpoints:      []string{scene.server.Endpoint(), "http://" + silent.Addr().String()},
		SubmitDeadline: 140 * time.Millisecond,
	}))(t)
	defer client.Close()
	// Connected, the first try is answered in time.
	must(client.GetJob(t.Context(), "q", "a"))(t)
	scene.faults(keyworktest.Unavailable())
	_, err := client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a"})
	equal(t, "the reason", errorOf(t, err).Reason(), keywork.ReasonNATSUnavailable)
}

func TestASubmitEndsWithItsContext(t *testing.T) {
	scene := longLeases(t)
	scene.faults(slices.Repeat([]keyworktest.SubmitFault{keyworktest.Unavailable()}, 100)...)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := scene.client.Submit(ctx, keywork.Submit{Queue: "q", Key: "a"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	errorOf(t, err)
}

func TestAnOutageOfOneServerTurnsToTheNext(t *testing.T) {
	scene := longLeases(t)
	client := must(keywork.NewClient(keywork.ClientOptions{
		Endpoints: []string{"http://127.0.0.1:1", scene.server.Endpoint()},
	}))(t)
	defer client.Close()
	submitted := must(client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a"}))(t)
	equal(t, "the outcome", submitted.Outcome, keywork.Created)
	// From now on it is the server in use.
	must(client.GetJob(t.Context(), "q", "a"))(t)
}

func TestARefusalNamesTheFieldAndIsNotRetried(t *testing.T) {
	scene := longLeases(t)
	_, err := scene.client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: strings.Repeat("k", 513)})
	refused := errorOf(t, err)
	equal(t, "the code", refused.Code(), codes.InvalidArgument)
	equal(t, "the reason", refused.Reason(), keywork.ReasonInvalidField)
	equal(t, "the field", refused.Violations()[0].Field, "key")
	equal(t, "retryable", refused.IsRetryable(), false)
	equal(t, "no side effects", refused.HasNoSideEffects(), true)
	equal(t, "tries", len(scene.server.Seen().Submits), 1)
}

func TestATextThatIsNoUTF8IsRefusedHere(t *testing.T) {
	scene := longLeases(t)
	bad := keywork.Submit{Queue: "q", Key: "\xff"}
	_, err := scene.client.Submit(t.Context(), bad)
	equal(t, "the field", errorOf(t, err).Violations()[0].Field, "key")
	good := keywork.Submit{Queue: "q", Key: "a"}
	batch := must(scene.client.SubmitBatch(t.Context(), []keywork.Submit{bad, good}))(t)
	equal(t, "in a batch", errorOf(t, batch[0].Err).Reason(), keywork.ReasonInvalidField)
	equal(t, "the other one", batch[1].Outcome, keywork.Created)
	many := scene.client.SubmitMany(t.Context(), []keywork.Submit{bad, good})
	equal(t, "on a stream", errorOf(t, many[0].Err).Reason(), keywork.ReasonInvalidField)
	equal(t, "the other one", many[1].Outcome, keywork.AlreadyOutstanding)
	_, err = scene.client.GetJob(t.Context(), "\xff", "k")
	equal(t, "in a call: retryable", errorOf(t, err).IsRetryable(), false)
}

func TestOnConflictFailMakesABusyKeyAnError(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	_, err := scene.client.Submit(t.Context(), keywork.Submit{
		Queue: "q", Key: "a", OnConflict: keywork.OnConflictFail,
	})
	busy := errorOf(t, err)
	equal(t, "the code", busy.Code(), codes.AlreadyExists)
	equal(t, "the reason", busy.Reason(), keywork.ReasonKeyBusy)
	equal(t, "no side effects", busy.HasNoSideEffects(), true)
}

func TestNoServerAtAllIsRetryableAndWithoutEffect(t *testing.T) {
	t.Parallel()
	_, err := impatient(t, "http://127.0.0.1:1").Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a"})
	away := errorOf(t, err)
	equal(t, "the text", away.Error(),
		"failed to connect to http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused")
	if !away.IsRetryable() || !away.HasNoSideEffects() {
		t.Fatalf("%v: retryable %v, no side effects %v", err, away.IsRetryable(), away.HasNoSideEffects())
	}
}

func TestAServerThatGoesUnderACallMayHaveActed(t *testing.T) {
	t.Parallel()
	server := must(keyworktest.Start(keyworktest.Options{}))(t)
	client := impatient(t, server.Endpoint())
	ended := make(chan error, 1)
	go func() {
		_, err := client.Pull(context.Background(), keywork.Pull{Queue: "q", Wait: time.Minute})
		ended <- err
	}()
	// It waits at the server: then the server goes.
	server.Until(t, "the call", func(seen keyworktest.Seen) bool { return seen.Metadata != nil })
	server.Close()
	broken := errorOf(t, <-ended)
	equal(t, "retryable", broken.IsRetryable(), true)
	equal(t, "no side effects", broken.HasNoSideEffects(), false)
}

func TestAQueueThatIsFullIsToldAndLeftToTheCaller(t *testing.T) {
	scene := longLeases(t)
	full := keyworktest.RefusalOf(codes.ResourceExhausted, keywork.ReasonQueueFull, "the queue is full")
	scene.faults(keyworktest.Refused(full))
	_, err := scene.client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a"})
	told := errorOf(t, err)
	equal(t, "the reason", told.Reason(), keywork.ReasonQueueFull)
	if !told.IsRetryable() || !told.HasNoSideEffects() {
		t.Fatalf("%v", err)
	}
	equal(t, "tries", len(scene.server.Seen().Submits), 1)
}

func TestManySubmitsAreAnsweredInTheirOrder(t *testing.T) {
	scene := longLeases(t)
	for i, result := range scene.client.SubmitMany(t.Context(), numbered(10_000)) {
		if result.Err != nil || result.Job.Key != fmt.Sprint("key-", i) {
			t.Fatalf("%d: %+v", i, result)
		}
	}
	equal(t, "none at all", len(scene.client.SubmitMany(t.Context(), nil)), 0)
}

func TestAStreamOfSubmitsIsMendedWhenItBreaks(t *testing.T) {
	scene := longLeases(t)
	faults := make([]keyworktest.SubmitFault, 700)
	faults[3], faults[300], faults[301], faults[650] =
		keyworktest.Broken(), keyworktest.Broken(), keyworktest.Unavailable(), keyworktest.AnswerLost()
	scene.faults(faults...)
	for i, result := range scene.client.SubmitMany(t.Context(), numbered(1_000)) {
		if result.Err != nil || result.Outcome != keywork.Created || result.Job.Key != fmt.Sprint("key-", i) {
			t.Fatalf("%d: %+v", i, result)
		}
	}
	equal(t, "ids: each was offered again under its own", unique(scene.server.Seen().Submits), 1_000)
}

func TestAStreamOfSubmitsIsAnsweredAsItGoesAndCanBeLeft(t *testing.T) {
	scene := longLeases(t)
	endless := func(yield func(keywork.Submit) bool) {
		for i := 0; yield(keywork.Submit{Queue: "q", Key: fmt.Sprint("key-", i)}); i++ {
		}
	}
	answers := 0
	for _, result := range scene.client.SubmitStream(t.Context(), endless) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		if answers++; answers == 5_000 {
			break
		}
	}
	equal(t, "answers", answers, 5_000)
}

func TestASourceMayUseItsBufferAgain(t *testing.T) {
	scene := longLeases(t)
	source := func(yield func(keywork.Submit) bool) {
		buffer := make([]byte, 1)
		for i := range byte(200) {
			buffer[0] = i
			if !yield(keywork.Submit{Queue: "q", Key: fmt.Sprint(i), Payload: buffer}) {
				return
			}
		}
	}
	for place, result := range scene.client.SubmitStream(t.Context(), source) {
		equal(t, "the error", result.Err, nil)
		equal(t, "the payload", scene.server.Outstanding("q", fmt.Sprint(place)).GetPayload()[0], byte(place))
	}
}

func TestAnInterceptorCanChooseTheRequestIDAndNotDoWithout(t *testing.T) {
	scene := longLeases(t)
	chosen := uuid.NewString()
	client := must(keywork.NewClient(keywork.ClientOptions{
		Endpoints: []string{scene.server.Endpoint()},
		SubmitInterceptors: []keywork.SubmitInterceptor{
			func(_ context.Context, submit *keywork.Submit) func(keywork.Submitted, error) {
				equal(t, "an id is there", submit.RequestID != "", true)
				submit.RequestID = map[string]string{"chosen": chosen}[submit.Key]
				return nil
			},
		},
	}))(t)
	defer client.Close()
	for _, outcome := range []keywork.SubmitOutcome{keywork.Created, keywork.Duplicate} {
		submitted := must(client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "chosen"}))(t)
		equal(t, "the outcome", submitted.Outcome, outcome)
		equal(t, "the id", submitted.Job.ID, chosen)
	}
	scene.faults(keyworktest.AnswerLost())
	submitted := must(client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "none"}))(t)
	equal(t, "it is this call's own job", submitted.Outcome, keywork.Created)
}

func TestAStreamThatReachesNoServerFailsEverySubmit(t *testing.T) {
	t.Parallel()
	client := impatient(t, "http://127.0.0.1:1")
	for i, result := range client.SubmitMany(t.Context(), numbered(5_000)) {
		failed := errorOf(t, result.Err)
		if !failed.IsRetryable() || !failed.HasNoSideEffects() {
			t.Fatalf("%d: %v", i, failed)
		}
	}
}

func TestAStreamOfSubmitsEndsWithItsContext(t *testing.T) {
	scene := longLeases(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, result := range scene.client.SubmitMany(ctx, numbered(500)) {
		if !errors.Is(result.Err, context.Canceled) {
			t.Fatalf("%d: %+v", i, result)
		}
	}
}

func TestABatchGivesOneVerdictEach(t *testing.T) {
	scene := longLeases(t)
	id := uuid.NewString()
	results := must(scene.client.SubmitBatch(t.Context(), []keywork.Submit{
		{Queue: "q", Key: "a", RequestID: id},
		{Queue: "q", Key: "a"},
		{Queue: "q", Key: ""},
		{Queue: "q", Key: "a", RequestID: id},
	}))(t)
	equal(t, "the first", results[0].Outcome, keywork.Created)
	equal(t, "the busy one", results[1].Outcome, keywork.AlreadyOutstanding)
	equal(t, "the bad one", errorOf(t, results[2].Err).Code(), codes.InvalidArgument)
	equal(t, "the duplicate", results[3].Outcome, keywork.Duplicate)
	equal(t, "none at all", len(must(scene.client.SubmitBatch(t.Context(), nil))(t)), 0)
}

func TestSubmitInterceptorsSeeEverySubmitAndItsOutcome(t *testing.T) {
	scene := longLeases(t)
	calls := newRecord[string]()
	intercept := func(_ context.Context, submit *keywork.Submit) func(keywork.Submitted, error) {
		if submit.Attributes == nil {
			submit.Attributes = make(map[string]string)
		}
		submit.Attributes["by"] = "interceptor"
		key := submit.Key
		calls.add("before " + key)
		return func(submitted keywork.Submitted, err error) {
			calls.add(fmt.Sprintf("after %s %v %v", key, submitted.Outcome, err))
		}
	}
	client := must(keywork.NewClient(keywork.ClientOptions{
		Endpoints:          []string{scene.server.Endpoint()},
		SubmitInterceptors: []keywork.SubmitInterceptor{intercept},
	}))(t)
	defer client.Close()
	attributes := map[string]string{"mine": "yes"}
	must(client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a", Attributes: attributes}))(t)
	must(client.SubmitBatch(t.Context(), []keywork.Submit{{Queue: "q", Key: "b"}}))(t)
	client.SubmitMany(t.Context(), []keywork.Submit{{Queue: "q", Key: "c"}})
	want := []string{
		"before a", "after a CREATED <nil>", "before b", "after b CREATED <nil>", "before c", "after c CREATED <nil>",
	}
	if all := calls.all(); !slices.Equal(all, want) {
		t.Fatalf("%v", all)
	}
	equal(t, "the caller's map", len(attributes), 1)
	for _, key := range []string{"a", "b", "c"} {
		equal(t, key, scene.server.Outstanding("q", key).GetAttributes()["by"], "interceptor")
	}
}

func TestADelayedJobHoldsItsKeyAndStartsLater(t *testing.T) {
	scene := longLeases(t)
	ctx := t.Context()
	must(scene.client.Submit(ctx, keywork.Submit{Queue: "q", Key: "a", Delay: 300 * time.Millisecond}))(t)
	must(scene.client.Submit(ctx, keywork.Submit{Queue: "q", Key: "b", StartAt: time.Now().Add(time.Hour)}))(t)
	busy := must(scene.client.Submit(ctx, keywork.Submit{Queue: "q", Key: "a"}))(t)
	equal(t, "accepted", busy.Accepted(), false)
	scene.openGate()
	running := scene.start(scene.options())
	scene.untilCompleted("a")
	running.drain()
}

func TestDeadLettersCanBeSeenRedrivenAndDeleted(t *testing.T) {
	scene := longLeases(t)
	ctx, client := t.Context(), scene.client
	for _, key := range []string{"a", "b", "c"} {
		must(client.Submit(ctx, keywork.Submit{Queue: "q", Key: key, MaxAttempts: 1, Payload: []byte("p")}))(t)
	}
	running := scene.handle(func(context.Context, *keywork.Job) error { return errors.New("never works") })
	scene.until("three ends", func(seen keyworktest.Seen) bool {
		return len(seen.Settled(keywork.OutcomeRetry)) == 3
	})
	running.drain()
	page, next, err := client.ListDeadJobs(ctx, "q", keywork.DeadFilter{}, keywork.Page{Size: 2})
	if err != nil || len(page) != 2 || next == "" {
		t.Fatalf("%v, %q, %v", page, next, err)
	}
	equal(t, "the reason", page[0].Reason, keywork.DeadReasonAttemptsExhausted)
	equal(t, "the payload", string(page[0].Job.Payload), "p")
	all := 0
	for dead, err := range client.DeadJobs(ctx, "q", keywork.DeadFilter{}) {
		if err != nil || dead.DeadID == 0 {
			t.Fatalf("%+v, %v", dead, err)
		}
		all++
	}
	equal(t, "all of them", all, 3)
	redriven := must(client.RedriveDeadJobs(ctx, "q", page[0].DeadID))(t)
	equal(t, "redriven", redriven[0].Outcome, keywork.Created)
	redriven = must(client.RedriveOldestDeadJobs(ctx, "q", 1))(t)
	equal(t, "the oldest one left", redriven[0].DeadID, page[1].DeadID)
	equal(t, "deleted by no id", must(client.DeleteDeadJobs(ctx, "q"))(t), 0)
	equal(t, "deleted", must(client.DeleteAllDeadJobs(ctx, "q"))(t), 1)
}

func TestDeadLettersCanBeRedrivenWhileTheyAreListed(t *testing.T) {
	scene := longLeases(t)
	ctx, client := t.Context(), scene.client
	for _, result := range client.SubmitMany(ctx, failing(250)) {
		equal(t, "the outcome", result.Outcome, keywork.Created)
	}
	running := scene.handle(func(context.Context, *keywork.Job) error { return errors.New("never works") })
	scene.until("the ends", func(seen keyworktest.Seen) bool { return len(seen.Settled(keywork.OutcomeRetry)) == 250 })
	running.drain()
	listed := 0
	for dead, err := range client.DeadJobs(ctx, "q", keywork.DeadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		redriven := must(client.RedriveDeadJobs(ctx, "q", dead.DeadID))(t)
		equal(t, "the outcome", redriven[0].Outcome, keywork.Created)
		listed++
	}
	equal(t, "listed", listed, 250)
}

func TestAFakeServerClosesItsClients(t *testing.T) {
	t.Parallel()
	server := must(keyworktest.Start(keyworktest.Options{}))(t)
	client := server.Client()
	server.Close()
	server.Close()
	_, err := client.GetJob(t.Context(), "q", "k")
	equal(t, "the code", errorOf(t, err).Code(), codes.Canceled)
}

func TestQueuesCanBeLookedAfter(t *testing.T) {
	scene := longLeases(t)
	ctx, client := t.Context(), scene.client
	config := keywork.QueueConfig{MaxAttempts: keywork.Set(uint32(3))}
	made := must(client.CreateQueue(ctx, "q", config))(t)
	equal(t, "attempts", *made.Config.MaxAttempts, 3)
	must(client.CreateQueue(ctx, "q", config))(t)
	_, err := client.CreateQueue(ctx, "q", keywork.QueueConfig{})
	equal(t, "another configuration", errorOf(t, err).Reason(), keywork.ReasonQueueExists)
	updated := must(client.UpdateQueue(ctx, "q", keywork.QueueConfig{
		LeaseDuration: keywork.Set(30 * time.Second),
	}))(t)
	equal(t, "the lease", *updated.Config.LeaseDuration, 30*time.Second)
	equal(t, "attempts", *updated.Config.MaxAttempts, 3)
	equal(t, "paused", must(client.PauseQueue(ctx, "q"))(t).Paused, true)
	equal(t, "resumed", must(client.ResumeQueue(ctx, "q"))(t).Paused, false)
	scene.submit("a")
	equal(t, "outstanding", must(client.GetQueue(ctx, "q"))(t).Stats.Outstanding, 1)
	equal(t, "not empty", errorOf(t, client.DeleteQueue(ctx, "q", false)).Reason(), keywork.ReasonQueueNotEmpty)
	equal(t, "purged", must(client.PurgeQueue(ctx, "q"))(t), 1)
	names := 0
	for queue, err := range client.Queues(ctx) {
		if err != nil || queue.Name != "q" {
			t.Fatalf("%+v, %v", queue, err)
		}
		names++
	}
	equal(t, "queues", names, 1)
	if err := client.DeleteQueue(ctx, "q", false); err != nil {
		t.Fatal(err)
	}
	_, err = client.GetQueue(ctx, "q")
	equal(t, "gone", errorOf(t, err).Reason(), keywork.ReasonQueueNotFound)
}

func TestWhatIsNotServedYetSaysSo(t *testing.T) {
	scene := longLeases(t)
	ctx, client := t.Context(), scene.client
	_, cancelled := client.CancelJob(ctx, "q", "a", "")
	_, _, listed := client.ListJobs(ctx, "q", keywork.JobFilter{}, keywork.Page{})
	_, put := client.PutSchedule(ctx, keywork.Schedule{Name: "s", Expression: "@every 30s"})
	_, got := client.GetSchedule(ctx, "s")
	_, _, schedules := client.ListSchedules(ctx, keywork.Page{})
	deleted := client.DeleteSchedule(ctx, "s")
	var watched, iterated error
	for _, err := range client.WatchJobs(ctx, "q", "") {
		watched = err
	}
	for _, err := range client.Schedules(ctx) {
		iterated = err
	}
	for _, err := range []error{cancelled, listed, put, got, schedules, deleted, watched, iterated} {
		refused := errorOf(t, err)
		equal(t, "the code", refused.Code(), codes.Unimplemented)
		equal(t, "the reason", refused.Reason(), keywork.ReasonNotServedYet)
	}
}

func TestEveryRPCCanBeReachedRaw(t *testing.T) {
	scene := longLeases(t)
	raw := keyworkv1.NewWorkQueueClient(scene.client.Raw())
	response := must(raw.Submit(t.Context(), &keyworkv1.SubmitRequest{Queue: "q", Key: "a"}))(t)
	equal(t, "the outcome", response.GetOutcome(), keyworkv1.SubmitOutcome_SUBMIT_OUTCOME_CREATED)
}

func TestAClientThatIsClosedSaysSo(t *testing.T) {
	t.Parallel()
	client := keywork.MustClient("http://127.0.0.1:1")
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := client.GetJob(t.Context(), "q", "k")
	equal(t, "the code", errorOf(t, err).Code(), codes.Canceled)
}

func TestAnEndpointThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{"127.0.0.1:50051", "ftp://host:1", "http://", ":"} {
		_, err := keywork.NewClient(keywork.ClientOptions{Endpoints: []string{uri}})
		equal(t, uri, errorOf(t, err).Code(), codes.InvalidArgument)
		if text := err.Error(); !strings.Contains(text, "must be such as http://") {
			t.Errorf("%q is refused without a word of what is wanted: %s", uri, text)
		}
	}
}

func TestAnErrorCanBeReadAsAStatus(t *testing.T) {
	scene := longLeases(t)
	_, err := scene.client.GetQueue(t.Context(), "none")
	equal(t, "the code", status.Code(err), codes.NotFound)
}

func TestAnErrorThatTheServerMadeIsNotTakenForAConnectionThatBroke(t *testing.T) {
	scene := longLeases(t)
	for _, code := range []codes.Code{codes.Internal, codes.Unknown, codes.DataLoss} {
		scene.faults(keyworktest.Refused(status.New(code, "no reason is given")))
		_, err := scene.client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a"})
		told := errorOf(t, err)
		equal(t, "the code", told.Code(), code)
		equal(t, "retryable", told.IsRetryable(), false)
		equal(t, "no side effects", told.HasNoSideEffects(), false)
	}
}
