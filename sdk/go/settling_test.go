package keywork_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
)

// How a handler ends is what its job becomes, once.

func byKey(_ context.Context, job *keywork.Job) error {
	first := job.Attempt == 1
	switch {
	case job.Key == "retry" && first:
		return keywork.Retry(20 * time.Millisecond).Because(errors.New("later"))
	case job.Key == "error" && first:
		return errors.New("broke")
	case job.Key == "fail":
		return keywork.Fail("no use")
	case job.Key == "release":
		return keywork.Release
	case job.Key == "panic" && first:
		panic("oh no")
	case job.Key == "exit" && first:
		runtime.Goexit()
	}
	return nil
}

func TestEachEndOfAHandlerSettlesItsJobInItsOwnWay(t *testing.T) {
	scene := longLeases(t)
	scene.submit("complete", "retry", "error", "fail", "panic", "exit")
	running := scene.handle(byKey)
	seen := scene.until("all to end", func(seen keyworktest.Seen) bool {
		return len(seen.Settled(keywork.OutcomeComplete)) == 5
	})
	retried := seen.Settled(keywork.OutcomeRetry)
	slices.Sort(retried)
	if !slices.Equal(retried, []string{"error", "exit", "panic", "retry"}) {
		t.Fatalf("retried: %v", retried)
	}
	texts := make(map[string]string)
	for _, settlement := range seen.Settlements {
		if settlement.Kind == keywork.OutcomeRetry {
			texts[settlement.Key] = settlement.Error
		}
	}
	equal(t, "the error of retry", texts["retry"], "later")
	equal(t, "the error of error", texts["error"], "broke")
	equal(t, "the error of panic", texts["panic"], "the handler panicked: oh no")
	dead := scene.server.Dead("q")
	equal(t, "dead letters", len(dead), 1)
	equal(t, "its key", dead[0].GetJob().GetKey(), "fail")
	equal(t, "its error", dead[0].GetJob().GetLastError(), "no use")
	running.drain()
}

func TestAReleasedJobCostsNoAttempt(t *testing.T) {
	scene := longLeases(t)
	attempts := newRecord[int]()
	scene.submit("a")
	running := scene.handle(func(_ context.Context, job *keywork.Job) error {
		attempts.add(job.Attempt)
		if len(attempts.all()) == 1 {
			return keywork.Release
		}
		return nil
	})
	attempts.until(t, "two runs", func(attempts []int) bool { return slices.Equal(attempts, []int{1, 1}) })
	running.drain()
}

func TestASettlementWithoutAnAnswerIsSentAgainAfterTheReconnect(t *testing.T) {
	scene := longLeases(t)
	scene.server.Script(func(script *keyworktest.Script) { script.UnansweredSettlements = 1 })
	scene.submit("a")
	scene.openGate()
	running := scene.start(scene.options())
	scene.until("the settlement", func(seen keyworktest.Seen) bool { return len(seen.Settlements) == 1 })
	scene.server.EndSessions(nil)
	seen := scene.until("it again", func(seen keyworktest.Seen) bool { return len(seen.Settlements) == 2 })
	equal(t, "the answer", seen.Settlements[1].Answer, keywork.AlreadySettled)
	equal(t, "deliveries", len(seen.Delivered), 1)
	running.drain()
	equal(t, "settled", running.worker.Counts().Settled, 1)
	equal(t, "dropped results", running.worker.Counts().DroppedResults, 0)
}

func TestASettlementThatCouldNotBeConfirmedIsTriedAgain(t *testing.T) {
	scene := longLeases(t)
	scene.server.Script(func(script *keyworktest.Script) {
		script.SettlementAnswers = []keywork.SettlementOutcome{keywork.TryAgain, keywork.TryAgain}
	})
	scene.submit("a")
	scene.openGate()
	running := scene.start(scene.options())
	seen := scene.untilCompleted("a")
	equal(t, "settlements", len(seen.Settlements), 3)
	running.drain()
}

func TestASettlementThatCameTooLateIsDroppedAndCounted(t *testing.T) {
	scene := longLeases(t)
	scene.server.Script(func(script *keyworktest.Script) {
		script.SettlementAnswers = []keywork.SettlementOutcome{keywork.LeaseLost}
	})
	scene.submit("a")
	scene.openGate()
	running := scene.start(scene.options())
	event := untilEvent[keywork.SettledEvent](scene, "the answer")
	equal(t, "the outcome", event.Outcome, keywork.LeaseLost)
	running.drain()
	equal(t, "dropped results", running.worker.Counts().DroppedResults, 1)
	equal(t, "settled", running.worker.Counts().Settled, 0)
}

func TestASettlementThatIsRefusedBecomesARetry(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	running := scene.handle(func(_ context.Context, job *keywork.Job) error {
		if job.Attempt == 1 {
			return keywork.Rerun(time.Second)
		}
		return nil
	})
	seen := scene.untilCompleted("a")
	if !slices.Equal(seen.Settled(keywork.OutcomeRetry), []string{"a"}) {
		t.Fatalf("settlements: %+v", seen.Settlements)
	}
	event := untilEvent[keywork.SettlementRejectedEvent](scene, "the refusal")
	equal(t, "its reason", errorOf(t, event.Err).Reason(), keywork.ReasonNotServedYet)
	running.drain()
}

func TestARetryWithADelayThatIsRefusedBecomesOneWithout(t *testing.T) {
	scene := longLeases(t)
	scene.server.Script(func(script *keyworktest.Script) {
		script.SettlementAnswers = []keywork.SettlementOutcome{keywork.Rejected}
	})
	scene.submit("a")
	running := scene.handle(func(_ context.Context, job *keywork.Job) error {
		if job.Attempt == 1 {
			return keywork.Retry(10_000 * time.Hour)
		}
		return nil
	})
	seen := scene.untilCompleted("a")
	if !slices.Equal(seen.Settled(keywork.OutcomeRetry), []string{"a"}) {
		t.Fatalf("settlements: %+v", seen.Settlements)
	}
	running.drain()
}

func TestASettlementThatCountsIsTold(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	scene.openGate()
	running := scene.start(scene.options())
	event := untilEvent[keywork.SettledEvent](scene, "the event")
	equal(t, "the queue", event.Queue, "q")
	equal(t, "the key", event.Key, "a")
	equal(t, "the outcome", event.Outcome, keywork.Settled)
	equal(t, "a fencing number", event.FencingNumber > 0, true)
	running.drain()
	equal(t, "counts", running.worker.Counts(), keywork.Counts{Started: 1, Settled: 1, Sessions: 1})
}

func TestWhatAHandlerDoesToItsJobIsNotTold(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	running := scene.handle(func(_ context.Context, job *keywork.Job) error {
		job.Key, job.Payload = "changed", nil
		return nil
	})
	event := untilEvent[keywork.SettledEvent](scene, "the event")
	equal(t, "the key", event.Key, "a")
	running.drain()
}

func TestWhatIsReadyTogetherIsSettledInOneMessage(t *testing.T) {
	scene := longLeases(t)
	submits := make([]keywork.Submit, 2_000)
	for i := range submits {
		submits[i] = keywork.Submit{Queue: "q", Key: fmt.Sprint("key-", i)}
	}
	for i, result := range scene.client.SubmitMany(t.Context(), submits) {
		if result.Err != nil || !result.Accepted() {
			t.Fatalf("%d: %+v", i, result)
		}
	}
	scene.openGate()
	options := scene.options()
	options.Concurrency = 500
	running := scene.start(options)
	seen := scene.until("all", func(seen keyworktest.Seen) bool {
		return len(seen.Settled(keywork.OutcomeComplete)) == 2_000
	})
	if seen.SettlementMessages > 1_000 {
		t.Fatalf("%d messages", seen.SettlementMessages)
	}
	running.drain()
}

func TestAPanickingEventCallbackEndsNothing(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	scene.openGate()
	options := scene.options()
	options.OnEvent = func(keywork.Event) { panic("in the callback") }
	running := scene.start(options)
	scene.untilCompleted("a")
	running.drain()
}

func TestAStuckEventCallbackHoldsNoLeaseUp(t *testing.T) {
	scene := shortLeases(t)
	scene.submit("a")
	options := scene.options()
	stuck := make(chan struct{})
	options.OnEvent = func(event keywork.Event) {
		<-stuck
		scene.events.add(event)
	}
	running := scene.start(options)
	scene.untilStarted(1)
	// Several lease durations.
	scene.until("heartbeats", func(seen keyworktest.Seen) bool { return seen.Heartbeats >= 8 })
	equal(t, "lost leases", running.worker.Counts().LeasesLost, 0)
	scene.server.LoseLease("q", "a", keywork.LostReasonExpired, true)
	scene.untilCancelled("a", keywork.ErrLeaseLost)
	scene.openGate()
	running.drain()
	close(stuck)
	// None is lost, and they come in their order.
	events := scene.events.until(t, "the last event", func(events []keywork.Event) bool {
		return len(events) > 0 && events[len(events)-1] == keywork.Event(keywork.StoppedEvent{})
	})
	equal(t, "the first event", events[0], keywork.Event(keywork.ConnectingEvent{Endpoint: scene.server.Endpoint()}))
	untilEvent[keywork.LeaseLostEvent](scene, "the lost lease")
}

func TestRunOnceTellsHowAHandlerEnds(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	ends := map[string]keywork.OutcomeKind{
		"complete": keywork.OutcomeComplete,
		"retry":    keywork.OutcomeRetry,
		"error":    keywork.OutcomeRetry,
		"panic":    keywork.OutcomeRetry,
		"fail":     keywork.OutcomeFail,
		"release":  keywork.OutcomeRelease,
	}
	for key, kind := range ends {
		outcome := keyworktest.RunOnce(ctx, byKey, keyworktest.Job("q", key))
		equal(t, key, outcome.Kind, kind)
	}
	chosen := keyworktest.RunOnce(ctx, byKey, keyworktest.Job("q", "retry"))
	equal(t, "the delay", chosen.Delay, 20*time.Millisecond)
	equal(t, "chosen", chosen.Chosen, true)
	equal(t, "not chosen", keyworktest.RunOnce(ctx, byKey, keyworktest.Job("q", "panic")).Chosen, false)
}

func TestATypedResultKeepsItsMeaningWhenItIsWrapped(t *testing.T) {
	t.Parallel()
	outcome := keywork.OutcomeOf(fmt.Errorf("user 7: %w", keywork.Fail("no such user")))
	equal(t, "the kind", outcome.Kind, keywork.OutcomeFail)
	equal(t, "the text", outcome.Error, "user 7: no such user")
	equal(t, "release", keywork.OutcomeOf(fmt.Errorf("busy: %w", keywork.Release)).Kind, keywork.OutcomeRelease)
	again := keywork.OutcomeOf(keywork.Retry(time.Second))
	equal(t, "retry for no reason", again.Error, "")
	equal(t, "in a word", fmt.Sprint(again, " - ", outcome), "retry after 1s - fail: user 7: no such user")
	rerun := keywork.OutcomeOf(keywork.Rerun(time.Second).Payload([]byte("next")))
	equal(t, "rerun", rerun.Kind, keywork.OutcomeRerun)
	equal(t, "its payload", string(rerun.Payload), "next")
}

func TestAnErrorTextIsMadeFitForTheWire(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	long := strings.Repeat("ü", 2_000) + "\xff"
	running := scene.handle(func(_ context.Context, job *keywork.Job) error {
		if job.Attempt == 1 {
			return errors.New("\xff" + long)
		}
		return nil
	})
	seen := scene.untilCompleted("a")
	text := seen.Settlements[0].Error
	if len(text) > 2_048 || len(text) < 2_040 || !strings.HasPrefix(text, "\uFFFDü") {
		t.Fatalf("%d bytes: %.20q", len(text), text)
	}
	running.drain()
}

func TestInterceptorsAreCalledFromTheOutermostInwards(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	scene.openGate()
	calls := newRecord[string]()
	named := func(name string) keywork.Interceptor {
		return func(ctx context.Context, job *keywork.Job, next keywork.Handler) error {
			calls.add(name + " in")
			defer calls.add(name + " out")
			return next(ctx, job)
		}
	}
	options := scene.options()
	options.Interceptors = []keywork.Interceptor{named("outer"), named("inner")}
	running := scene.start(options)
	all := calls.until(t, "both", func(calls []string) bool { return len(calls) == 4 })
	if !slices.Equal(all, []string{"outer in", "inner in", "inner out", "outer out"}) {
		t.Fatalf("%v", all)
	}
	running.drain()
}

func TestLeasesCanBePulledExtendedAndSettledWithoutAStream(t *testing.T) {
	scene := longLeases(t)
	ctx, client := t.Context(), scene.client
	scene.submit("a")
	leased := must(client.Pull(ctx, keywork.Pull{Queue: "q", Wait: 5 * time.Second}))(t)
	equal(t, "leased", len(leased), 1)
	equal(t, "time left", leased[0].TimeLeft > 0, true)
	token := leased[0].Token
	extended := must(client.Heartbeat(ctx, token))(t)
	equal(t, "extended", extended[0].TimeLeft > 0, true)
	complete := keywork.Settlement{Token: token, Outcome: keywork.OutcomeOf(nil)}
	equal(t, "first", must(client.Ack(ctx, complete))(t)[0].Outcome, keywork.Settled)
	equal(t, "again", must(client.Ack(ctx, complete))(t)[0].Outcome, keywork.AlreadySettled)
	lost := must(client.Heartbeat(ctx, []byte("no such lease")))(t)
	equal(t, "lost", lost[0].Lost, keywork.LostReasonExpired)
	none := must(client.Pull(ctx, keywork.Pull{Queue: "q", Wait: keywork.NoWait}))(t)
	equal(t, "nothing left", len(none), 0)
}
