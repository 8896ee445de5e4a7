package keywork_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
)

// A worker extends what it holds, and stops a handler before its lease can be somebody else's.

func TestAJobThatTakesManyLeaseDurationsRunsOnce(t *testing.T) {
	scene := shortLeases(t)
	scene.submit("long")
	running := scene.start(scene.options())
	scene.until("many heartbeats", func(seen keyworktest.Seen) bool { return seen.Heartbeats >= 10 })
	scene.openGate()
	seen := scene.untilCompleted("long")
	equal(t, "deliveries", len(seen.Delivered), 1)
	equal(t, "expired", seen.Expired, 0)
	running.drain()
}

func TestHandlersThatBurnCPUCostNoLease(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	scene := newScene(t, keyworktest.Options{LeaseDuration: lease})
	scene.submit("a", "b")
	running := scene.handle(func(ctx context.Context, _ *keywork.Job) error {
		for start := time.Now(); time.Since(start) < 2*lease; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		return nil
	})
	seen := scene.until("completion", func(seen keyworktest.Seen) bool {
		return len(seen.Settled(keywork.OutcomeComplete)) == 2
	})
	equal(t, "deliveries", len(seen.Delivered), 2)
	running.drain()
}

func TestAWorkerWhoseHeartbeatsAreNotAnsweredStopsItsHandlersBeforeTheDeadline(t *testing.T) {
	scene := shortLeases(t)
	scene.submit("a")
	scene.server.Script(func(script *keyworktest.Script) { script.IgnoreHeartbeats = true })
	running := scene.start(scene.options())
	scene.untilCancelled("a", keywork.ErrLeaseLost)
	equal(t, "expired: the lease had not run out yet", scene.server.Seen().Expired, 0)
	scene.server.Script(func(script *keyworktest.Script) { script.IgnoreHeartbeats = false })
	scene.until("another delivery", func(seen keyworktest.Seen) bool { return len(seen.Delivered) == 2 })
	scene.openGate()
	seen := scene.untilCompleted("a")
	equal(t, "settlements: the first handler's result was dropped", len(seen.Settlements), 1)
	equal(t, "dropped results", running.worker.Counts().DroppedResults, 1)
	running.drain()
}

func TestALeaseThatTheServerTakesAwayCancelsItsHandlerAtOnce(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a", "b")
	running := scene.start(scene.options())
	scene.untilStarted(2)
	before := time.Now()
	scene.server.LoseLease("q", "a", keywork.LostReasonExpired, true)
	scene.untilCancelled("a", keywork.ErrLeaseLost)
	if took := time.Since(before); took > time.Second {
		t.Fatalf("cancelled after %v", took)
	}
	event := untilEvent[keywork.LeaseLostEvent](scene, "the event")
	equal(t, "its key", event.Key, "a")
	equal(t, "its reason", event.Reason, keywork.LostReasonExpired)
	scene.openGate()
	running.drain()
}

func TestAJobThatIsCancelledTellsItsHandlerSo(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	running := scene.start(scene.options())
	scene.untilStarted(1)
	must(scene.client.PurgeQueue(t.Context(), "q"))(t)
	scene.untilCancelled("a", keywork.ErrJobCancelled)
	running.drain()
}

func TestALossThatOnlyAHeartbeatTellsCancelsToo(t *testing.T) {
	scene := shortLeases(t)
	scene.submit("a")
	running := scene.start(scene.options())
	scene.untilStarted(1)
	must(scene.client.PauseQueue(t.Context(), "q"))(t)
	scene.server.LoseLease("q", "a", keywork.LostReasonExpired, false)
	scene.untilCancelled("a", keywork.ErrLeaseLost)
	running.drain()
}

func TestWithADisconnectGraceHandlersStopThatLongAfterTheStreamBroke(t *testing.T) {
	t.Parallel()
	scene := newScene(t, keyworktest.Options{LeaseDuration: time.Minute, DisconnectGrace: 500 * time.Millisecond})
	scene.submit("a")
	running := scene.start(scene.options())
	scene.untilStarted(1)
	scene.server.Script(func(script *keyworktest.Script) {
		script.RefuseSessions = slices.Repeat([]*status.Status{status.New(codes.Unavailable, "away")}, 20)
	})
	before := time.Now()
	scene.server.EndSessions(nil)
	scene.untilCancelled("a", keywork.ErrLeaseLost)
	if took := time.Since(before); took > 5*time.Second {
		t.Fatalf("cancelled after %v", took)
	}
	scene.server.Script(func(script *keyworktest.Script) { script.RefuseSessions = nil })
	scene.openGate()
	scene.untilCompleted("a")
	running.drain()
}

func TestAHandlerThatLostItsLeaseKeepsItsSlotUntilItEnds(t *testing.T) {
	scene := longLeases(t)
	scene.submit("stubborn")
	started, release := newRecord[string](), make(chan struct{})
	options := scene.options()
	options.Concurrency = 2
	running := scene.run(keywork.NewWorker(scene.client, func(_ context.Context, job *keywork.Job) error {
		started.add(job.Key)
		<-release
		return nil
	}, options))
	started.until(t, "the handler", func(keys []string) bool { return len(keys) == 1 })
	must(scene.client.PurgeQueue(t.Context(), "q"))(t)
	scene.until("a lower capacity", func(seen keyworktest.Seen) bool { return seen.Capacity == 1 })
	event := untilEvent[keywork.HandlerIgnoresCancellationEvent](scene, "the report")
	equal(t, "its key", event.Key, "stubborn")
	close(release)
	scene.until("the full capacity", func(seen keyworktest.Seen) bool { return seen.Capacity == 2 })
	running.drain()
}

func TestNoMoreHandlersRunAtOnceThanTheConcurrencySays(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a", "b", "c", "d", "e")
	options := scene.options()
	options.Concurrency = 2
	running := scene.start(options)
	scene.untilStarted(2)
	equal(t, "deliveries: what has no slot stays in the queue", len(scene.server.Seen().Delivered), 2)
	scene.openGate()
	scene.until("all to complete", func(seen keyworktest.Seen) bool {
		return len(seen.Settled(keywork.OutcomeComplete)) == 5
	})
	running.drain()
}

func TestTheDeadlineOfAJobMovesWithTheHeartbeats(t *testing.T) {
	scene := shortLeases(t)
	scene.submit("a")
	moved := newRecord[bool]()
	running := scene.handle(func(ctx context.Context, job *keywork.Job) error {
		first := job.Deadline()
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for job.Deadline().Equal(first) {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		moved.add(job.Deadline().After(first))
		return nil
	})
	later := moved.until(t, "a deadline that moves", func(moved []bool) bool { return len(moved) > 0 })
	equal(t, "it moves on", later[0], true)
	running.drain()
}

func TestAHeartbeatThatCouldNotBeConfirmedExtendsNothing(t *testing.T) {
	scene := shortLeases(t)
	scene.submit("a")
	scene.server.Script(func(script *keyworktest.Script) { script.UnconfirmedHeartbeats = true })
	running := scene.start(scene.options())
	scene.untilCancelled("a", keywork.ErrLeaseLost)
	seen := scene.server.Seen()
	equal(t, "expired: it was in time", seen.Expired, 0)
	equal(t, "sessions: it went on", len(seen.Hellos), 1)
	scene.server.Script(func(script *keyworktest.Script) { script.UnconfirmedHeartbeats = false })
	scene.openGate()
	running.drain()
}
