package keywork_test

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
)

// What is out of its bounds is refused before anything is sent, by an error like the server's; it is never changed.

// refused checks that an error is a refusal made here, of exactly these fields, whose text says each thing once.
func refused(t *testing.T, err error, fields ...string) *keywork.Error {
	t.Helper()
	own := errorOf(t, err)
	equal(t, "the code", own.Code(), codes.InvalidArgument)
	equal(t, "the reason", own.Reason(), keywork.ReasonInvalidField)
	equal(t, "no side effects", own.HasNoSideEffects(), true)
	equal(t, "retryable", own.IsRetryable(), false)
	var found []string
	for _, violation := range own.Violations() {
		found = append(found, violation.Field)
		equal(t, "how often it is said: "+own.Error(), strings.Count(own.Error(), violation.Field+": "), 1)
	}
	if !slices.Equal(found, fields) {
		t.Fatalf("the fields are %v, not %v: %v", found, fields, err)
	}
	return own
}

func noHandler(context.Context, *keywork.Job) error { return nil }

func TestAWorkersOptionsAreCheckedWhenItRuns(t *testing.T) {
	t.Parallel()
	client := keywork.MustClient("http://127.0.0.1:1")
	one := keywork.Queues("q")
	cases := map[string]keywork.WorkerOptions{
		"Queues":           {},
		"Queues[1].Queue":  {Queues: keywork.Queues("q", "q")},
		"Queues[0].Queue":  {Queues: keywork.Queues("\xff")},
		"Queues[0].Weight": {Queues: []keywork.Subscription{{Queue: "q", Weight: 101}}},
		"Concurrency":      {Queues: one, Concurrency: 100_001},
		"ShutdownGrace":    {Queues: one, ShutdownGrace: -time.Second},
		"CancelGrace":      {Queues: one, CancelGrace: -time.Second},
		"WorkerID":         {Queues: one, WorkerID: "\xff"},
		"Interceptors[0]":  {Queues: one, Interceptors: []keywork.Interceptor{nil}},
	}
	for field, options := range cases {
		refused(t, keywork.NewWorker(client, noHandler, options).Run(t.Context()), field)
	}
	several := keywork.WorkerOptions{Queues: one, Concurrency: -1, ShutdownGrace: -time.Second}
	refused(t, keywork.NewWorker(client, noHandler, several).Run(t.Context()), "Concurrency", "ShutdownGrace")
	refused(t, keywork.NewWorker(nil, nil, keywork.WorkerOptions{Queues: one}).Run(t.Context()), "client", "handler")
}

func TestARefusedOptionNamesItsLimitAndWhatWasGiven(t *testing.T) {
	t.Parallel()
	options := keywork.WorkerOptions{Queues: keywork.Queues("q"), Concurrency: 200_000}
	err := keywork.NewWorker(keywork.MustClient(), noHandler, options).Run(t.Context())
	equal(t, "the text", err.Error(),
		"Concurrency: must be from 1 to 100,000, or 0 for 16, not 200,000 [INVALID_FIELD]")
	_, err = keywork.NewClient(keywork.ClientOptions{CallTimeout: -time.Second})
	equal(t, "the text", err.Error(), "CallTimeout: must be positive, or 0 for the default of 10s, not -1s [INVALID_FIELD]")
}

func TestTheBoundsThemselvesAreTaken(t *testing.T) {
	scene := longLeases(t)
	scene.openGate()
	options := scene.options()
	options.Concurrency = 100_000
	options.Queues = []keywork.Subscription{{Queue: "q", Weight: 100}, {Queue: "r", Weight: 1}}
	options.ShutdownGrace, options.CancelGrace = keywork.NoGrace, keywork.NoGrace
	running := scene.start(options)
	scene.submit("a")
	scene.untilCompleted("a")
	equal(t, "the capacity", scene.server.Seen().Hellos[0].GetCapacity(), 100_000)
	running.drain()
}

func TestAClientsOptionsAreCheckedWhenItIsMade(t *testing.T) {
	t.Parallel()
	cases := map[string]keywork.ClientOptions{
		"Endpoints":             {Endpoints: []string{}},
		"Endpoints[1]":          {Endpoints: []string{"http://127.0.0.1:1", "127.0.0.1:1"}},
		"SubmitDeadline":        {SubmitDeadline: -1},
		"CallTimeout":           {CallTimeout: -1},
		"TLS":                   {TLS: new(tls.Config)},
		"Metadata":              {Metadata: map[string]string{"authorization": "a\nb"}},
		"SubmitInterceptors[0]": {SubmitInterceptors: []keywork.SubmitInterceptor{nil}},
	}
	for field, options := range cases {
		_, err := keywork.NewClient(options)
		refused(t, err, field)
	}
	for _, uri := range []string{"http://h:0", "http://h:65536", "http://h/path", "http://h?q=1", "http://h#f"} {
		_, err := keywork.NewClient(keywork.ClientOptions{Endpoints: []string{uri}})
		refused(t, err, "Endpoints[0]")
	}
	for _, uri := range []string{"http://h", "https://h/", "http://[::1]:50051"} {
		must(keywork.NewClient(keywork.ClientOptions{Endpoints: []string{uri}}))(t)
	}
}

func TestASecretInAnOptionIsNotRepeated(t *testing.T) {
	t.Parallel()
	_, err := keywork.NewClient(keywork.ClientOptions{
		Endpoints: []string{"http://me:hunter2@h:1"}, Metadata: map[string]string{"authorization": "hunter2\n"},
	})
	if text := refused(t, err, "Endpoints[0]", "Metadata").Error(); strings.Contains(text, "hunter2") {
		t.Fatalf("%s", text)
	}
}

func TestADialOptionThatCannotBeIsToldByTheFirstCall(t *testing.T) {
	t.Parallel()
	client := must(keywork.NewClient(keywork.ClientOptions{
		DialOptions: []grpc.DialOption{grpc.WithDefaultServiceConfig("no JSON")},
	}))(t)
	_, err := client.GetJob(t.Context(), "q", "k")
	refused(t, err, "DialOptions")
	options := keywork.WorkerOptions{Queues: keywork.Queues("q")}
	refused(t, keywork.NewWorker(client, noHandler, options).Run(t.Context()), "DialOptions")
}

func TestASubmitWithADelayAndAStartIsRefusedHere(t *testing.T) {
	scene := longLeases(t)
	both := keywork.Submit{Queue: "q", Key: "a", Delay: time.Second, StartAt: time.Now().Add(time.Hour)}
	_, err := scene.client.Submit(t.Context(), both)
	refused(t, err, "start_at")
	refused(t, must(scene.client.SubmitBatch(t.Context(), []keywork.Submit{both}))(t)[0].Err, "start_at")
	refused(t, scene.client.SubmitMany(t.Context(), []keywork.Submit{both})[0].Err, "start_at")
	_, err = scene.client.PutSchedule(t.Context(), keywork.Schedule{Name: "s", Submit: both})
	refused(t, err, "start_at")
	equal(t, "what was sent", len(scene.server.Seen().Submits), 0)
}

func TestEverythingThatASubmitHasWrongIsTold(t *testing.T) {
	scene := longLeases(t)
	_, err := scene.client.Submit(t.Context(), keywork.Submit{
		Queue: "\xff", Key: "\xff", Attributes: map[string]string{"a": "\xff"}, MaxAttempts: -1, OnConflict: 4,
	})
	refused(t, err, "queue", "key", "attributes", "on_conflict", "max_attempts")
}

func TestACallOutOfItsBoundsIsRefusedHere(t *testing.T) {
	scene := longLeases(t)
	ctx, client := t.Context(), scene.client
	_, err := client.Pull(ctx, keywork.Pull{Queue: "q", MaxJobs: -1, Wait: -time.Second})
	refused(t, err, "max_jobs", "wait")
	_, _, err = client.ListDeadJobs(ctx, "q", keywork.DeadFilter{}, keywork.Page{Size: -1})
	refused(t, err, "page_size")
	for _, most := range []int{-1, 0} {
		_, err = client.RedriveOldestDeadJobs(ctx, "q", most)
		refused(t, err, "max_jobs")
	}
	_, err = client.GetJob(ctx, "q", "\xff")
	refused(t, err, "key")
	_, err = client.Ack(ctx, keywork.Settlement{Outcome: keywork.Outcome{Kind: keywork.OutcomeDropped}})
	refused(t, err, "settlements[0].outcome")
	equal(t, "nothing was sent", scene.server.Seen().Metadata == nil, true)
}

func TestARedriveOfNoneAsksNobody(t *testing.T) {
	t.Parallel()
	redriven, err := keywork.MustClient("http://127.0.0.1:1").RedriveDeadJobs(t.Context(), "q", []uint64{}...)
	equal(t, "redriven", len(redriven), 0)
	equal(t, "the error", err, nil)
}

func TestAnItemsErrorSaysEachThingOnce(t *testing.T) {
	scene := longLeases(t)
	results := scene.client.SubmitMany(t.Context(), []keywork.Submit{{Queue: "q", Key: strings.Repeat("k", 513)}})
	refused(t, results[0].Err, "key")
	violation := errorOf(t, results[0].Err).Violations()[0]
	if strings.Contains(violation.Description, "key:") {
		t.Fatalf("%+v", violation)
	}
}

func TestASourceThatPanicsDoesSoWhereItsStreamIsRead(t *testing.T) {
	scene := longLeases(t)
	source := func(yield func(keywork.Submit) bool) {
		yield(keywork.Submit{Queue: "q", Key: "a"})
		panic("in the source")
	}
	defer func() { equal(t, "the panic", recover(), any("in the source")) }()
	for range scene.client.SubmitStream(t.Context(), source) {
	}
	t.Fatal("it did not panic")
}

func TestRunOnceTellsWhatAWorkerWouldSettle(t *testing.T) {
	t.Parallel()
	cases := []struct {
		key   string
		cause error
		want  keywork.OutcomeKind
	}{
		{"complete", keywork.ErrLeaseLost, keywork.OutcomeDropped},
		{"fail", keywork.ErrJobCancelled, keywork.OutcomeDropped},
		{"error", keywork.ErrWorkerShutdown, keywork.OutcomeRelease},
		{"panic", keywork.ErrWorkerShutdown, keywork.OutcomeRelease},
		{"retry", keywork.ErrWorkerShutdown, keywork.OutcomeRetry},
		{"complete", keywork.ErrWorkerShutdown, keywork.OutcomeComplete},
		{"error", context.Canceled, keywork.OutcomeRetry},
	}
	for _, one := range cases {
		ctx, cancel := context.WithCancelCause(t.Context())
		outcome := keyworktest.RunOnce(ctx, func(ctx context.Context, job *keywork.Job) error {
			equal(t, "time is left", time.Until(job.Deadline()) > time.Minute, true)
			// The test may cancel from anywhere, as the handler runs.
			go cancel(one.cause)
			<-ctx.Done()
			return byKey(ctx, job)
		}, keyworktest.Job("q", one.key))
		equal(t, one.key+" after "+one.cause.Error(), outcome.Kind, one.want)
	}
	equal(t, "the word", keywork.OutcomeDropped.String(), "dropped")
}
