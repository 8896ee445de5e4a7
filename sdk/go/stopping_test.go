package keywork_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
)

// A worker that is told to stop finishes, releases, and leaves nothing to run out.

func TestADrainFinishesWhatRunsAndStartsNothingNew(t *testing.T) {
	scene := shortLeases(t)
	scene.submit("a", "b", "c")
	options := scene.options()
	options.Concurrency = 2
	running := scene.start(options)
	scene.untilStarted(2)
	running.worker.Drain()
	before := scene.until("the drain", func(seen keyworktest.Seen) bool { return seen.Drains == 1 }).Heartbeats
	// Several lease durations: heartbeats go on until the last settlement.
	scene.until("heartbeats", func(seen keyworktest.Seen) bool { return seen.Heartbeats >= before+6 })
	scene.openGate()
	running.drain()
	seen := scene.server.Seen()
	equal(t, "completed", len(seen.Settled(keywork.OutcomeComplete)), 2)
	equal(t, "deliveries", len(seen.Delivered), 2)
	equal(t, "expired", seen.Expired, 0)
	equal(t, "the third one's attempt", scene.server.Outstanding("q", "c").GetAttempt(), 1)
}

func TestAnIdleWorkerDrainsAtOnce(t *testing.T) {
	scene := longLeases(t)
	running := scene.start(scene.options())
	scene.untilSessions(1)
	before := time.Now()
	running.drain()
	if took := time.Since(before); took > 5*time.Second {
		t.Fatalf("it took %v", took)
	}
	scene.untilSessions(0)
}

func TestAWorkerThatNeverReachedAServerDrainsAtOnce(t *testing.T) {
	scene := longLeases(t)
	scene.server.Script(func(script *keyworktest.Script) { script.UnwelcomeSessions = 10 })
	running := scene.start(scene.options())
	scene.until("a try", func(seen keyworktest.Seen) bool { return len(seen.Hellos) > 0 })
	running.drain()
}

func TestAfterTheGraceHandlersAreCancelledAndTheirJobsReleased(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	options := scene.options()
	options.ShutdownGrace = 100 * time.Millisecond
	running := scene.start(options)
	scene.untilStarted(1)
	running.drain()
	scene.untilCancelled("a", keywork.ErrWorkerShutdown)
	released := scene.server.Seen().Settled(keywork.OutcomeRelease)
	if !slices.Equal(released, []string{"a"}) {
		t.Fatalf("released: %v", released)
	}
	equal(t, "the attempt: none is lost", scene.server.Outstanding("q", "a").GetAttempt(), 1)
}

func TestAHandlerThatDoesNotEndWhenItIsCancelledKeepsItsLeaseAndIsLeftBehind(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	release, ended := make(chan struct{}), make(chan struct{})
	options := scene.options()
	options.ShutdownGrace, options.CancelGrace = keywork.NoGrace, keywork.NoGrace
	running := scene.run(keywork.NewWorker(scene.client, func(_ context.Context, job *keywork.Job) error {
		defer close(ended)
		scene.steps.add(step{"started", job.Key, nil})
		<-release
		return nil
	}, options))
	scene.untilStarted(1)
	running.drain()
	stopped := untilEvent[keywork.StoppedEvent](scene, "the end")
	equal(t, "abandoned", stopped.Abandoned, 1)
	// Its job may still be worked on: it is nobody else's before its lease has run out.
	equal(t, "settlements", len(scene.server.Seen().Settlements), 0)
	close(release)
	<-ended
}

// unanswered is a scene whose server confirms no settlement, after a handler has ended.
func unanswered(t *testing.T) (*scene, *running, logbook) {
	scene := longLeases(t)
	scene.server.Script(func(script *keyworktest.Script) { script.UnansweredSettlements = 1_000 })
	scene.submit("a")
	scene.openGate()
	options, log := scene.logging()
	options.ShutdownGrace, options.CancelGrace = keywork.NoGrace, keywork.NoGrace
	running := scene.start(options)
	scene.until("the settlement", func(seen keyworktest.Seen) bool { return len(seen.Settlements) == 1 })
	return scene, running, log
}

func TestADrainWhoseResultsNobodyConfirmedSaysSo(t *testing.T) {
	scene, running, log := unanswered(t)
	running.drain()
	equal(t, "the event", untilEvent[keywork.StoppedEvent](scene, "the end"), keywork.StoppedEvent{Unconfirmed: 1})
	said := log.untilSaid(t, slog.LevelWarn, "stopped, results were not confirmed: their jobs run again")
	equal(t, "their number", said.with["unconfirmed"], "1")
}

func TestARefusedWorkerTellsWhatNobodyConfirmed(t *testing.T) {
	scene, running, log := unanswered(t)
	refusal := keyworktest.RefusalOf(codes.PermissionDenied, "", "not for you")
	scene.server.Script(func(script *keyworktest.Script) { script.RefuseSessions = append(script.RefuseSessions, refusal) })
	scene.server.EndSessions(nil)
	equal(t, "the code", errorOf(t, running.end()).Code(), codes.PermissionDenied)
	equal(t, "the event", untilEvent[keywork.StoppedEvent](scene, "the end"), keywork.StoppedEvent{Unconfirmed: 1})
	equal(t, "their number", log.untilSaid(t, slog.LevelWarn, "stopped").with["unconfirmed"], "1")
}

func TestASecondOrderReleasesEverythingAndIsAnError(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a", "b")
	running := scene.start(scene.options())
	scene.untilStarted(2)
	running.worker.Drain()
	untilEvent[keywork.DrainingEvent](scene, "the drain")
	running.worker.ReleaseAll()
	if err := running.end(); !errors.Is(err, keywork.ErrForced) {
		t.Fatalf("it ended with: %v", err)
	}
	released := scene.server.Seen().Settled(keywork.OutcomeRelease)
	slices.Sort(released)
	if !slices.Equal(released, []string{"a", "b"}) {
		t.Fatalf("released: %v", released)
	}
}

func TestTheEndOfTheContextDrains(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	running := scene.start(scene.options())
	scene.untilStarted(1)
	running.stop()
	untilEvent[keywork.DrainingEvent](scene, "the drain")
	scene.openGate()
	if err := running.end(); err != nil {
		t.Fatalf("it ended with: %v", err)
	}
	// The handler was not cancelled by it.
	scene.untilCompleted("a")
}

func TestAHandlerGetsTheValuesOfTheContextOfRun(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	type name struct{}
	values := newRecord[any]()
	worker := keywork.NewWorker(scene.client, func(ctx context.Context, _ *keywork.Job) error {
		values.add(ctx.Value(name{}))
		return nil
	}, scene.options())
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), name{}, "value"))
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	found := values.until(t, "the handler", func(values []any) bool { return len(values) == 1 })
	equal(t, "the value", found[0], any("value"))
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestSettlementsAreFlushedAlthoughTheStreamBreaksDuringTheDrain(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	running := scene.start(scene.options())
	scene.untilStarted(1)
	running.worker.Drain()
	scene.until("the drain", func(seen keyworktest.Seen) bool { return seen.Drains == 1 })
	scene.server.EndSessions(nil)
	scene.openGate()
	running.drain()
	scene.untilCompleted("a")
}

// The tests that send signals are not parallel: every worker that listens in this process gets them.
func TestTheFirstSignalDrainsAndTheSecondReleasesEverything(t *testing.T) {
	scene := newScene(t, keyworktest.Options{})
	scene.submit("a")
	options := scene.options()
	options.LeaveSignals = false
	running := scene.start(options)
	scene.untilStarted(1)
	signalThisProcess(t, syscall.SIGTERM)
	scene.until("the drain", func(seen keyworktest.Seen) bool { return seen.Drains == 1 })
	signalThisProcess(t, syscall.SIGINT)
	if err := running.end(); !errors.Is(err, keywork.ErrForced) {
		t.Fatalf("it ended with: %v", err)
	}
	released := scene.server.Seen().Settled(keywork.OutcomeRelease)
	if !slices.Equal(released, []string{"a"}) {
		t.Fatalf("released: %v", released)
	}
}

// It is the same signal that ends the context, as programs often have it.
func TestASignalThatEndsTheContextTooOnlyDrains(t *testing.T) {
	scene := newScene(t, keyworktest.Options{})
	scene.submit("a")
	options := scene.options()
	options.LeaveSignals = false
	worker := keywork.NewWorker(scene.client, scene.atTheGate, options)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	scene.untilStarted(1)
	signalThisProcess(t, syscall.SIGTERM)
	scene.until("the drain", func(seen keyworktest.Seen) bool { return seen.Drains == 1 })
	scene.openGate()
	if err := <-ended; err != nil {
		t.Fatalf("it ended with: %v", err)
	}
	scene.untilCompleted("a")
}

func signalThisProcess(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), signal); err != nil {
		t.Fatal(err)
	}
}

func TestADrainWhileTheSessionOpensLeavesNoDeliveryBehind(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a", "b", "c", "d")
	scene.openGate()
	for tries := range 30 {
		running := scene.start(scene.options())
		// Somewhere between the first packet and the first delivery.
		for range tries * 20 {
			runtime.Gosched()
		}
		running.drain()
	}
	seen := scene.server.Seen()
	ended := len(seen.Settled(keywork.OutcomeComplete)) + len(seen.Settled(keywork.OutcomeRelease))
	equal(t, "settled: every delivery", ended, len(seen.Delivered))
}

func TestAWorkerWhoseContextHasEndedDoesNotStart(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := keywork.NewWorker(scene.client, scene.atTheGate, scene.options()).Run(ctx); err != nil {
		t.Fatal(err)
	}
	equal(t, "handlers", len(scene.steps.all()), 0)
	untilEvent[keywork.StoppedEvent](scene, "the end")
}
