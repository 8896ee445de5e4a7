package keywork_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// A worker keeps its session whatever the server does, and stops only when it must.

func TestAStreamThatEndsOKIsOpenedAgainAndItsLeasesAreClaimed(t *testing.T) {
	t.Parallel()
	// So long that no heartbeat is due by itself while the test waits.
	scene := newScene(t, keyworktest.Options{LeaseDuration: 2 * time.Minute})
	scene.submit("a")
	running := scene.start(scene.options())
	scene.untilStarted(1)
	scene.server.EndSessions(nil)
	seen := scene.until("a second session", func(seen keyworktest.Seen) bool { return len(seen.Hellos) == 2 })
	equal(t, "leases claimed at first", len(seen.Hellos[0].GetHeldLeases()), 0)
	equal(t, "leases claimed then", len(seen.Hellos[1].GetHeldLeases()), 1)
	equal(t, "the newest ticket", string(seen.Hellos[1].GetSessionTicket()), "ticket-1")
	equal(t, "the worker's id", seen.Hellos[1].GetWorkerId(), seen.Hellos[0].GetWorkerId())
	// It was extended last through the first session: how much time it has left is not to be counted on.
	scene.until("a heartbeat at once", func(seen keyworktest.Seen) bool { return seen.Heartbeats > 0 })
	scene.openGate()
	seen = scene.untilCompleted("a")
	equal(t, "deliveries", len(seen.Delivered), 1)
	running.drain()
}

func TestEveryStatusThatIsNoRefusalMeansReconnect(t *testing.T) {
	scene := longLeases(t)
	running := scene.start(scene.options())
	all := []codes.Code{
		codes.Unavailable, codes.Unknown, codes.Canceled, codes.Internal, codes.ResourceExhausted, codes.Aborted,
		codes.DeadlineExceeded, codes.FailedPrecondition, codes.OutOfRange, codes.DataLoss, codes.AlreadyExists,
	}
	for i, code := range all {
		scene.until(code.String(), func(seen keyworktest.Seen) bool {
			return len(seen.Hellos) == i+1 && seen.Sessions == 1
		})
		scene.server.EndSessions(status.New(code, "unasked"))
	}
	scene.until("the last", func(seen keyworktest.Seen) bool { return len(seen.Hellos) == len(all)+1 })
	scene.untilSessions(1)
	running.drain()
}

func TestOnlyARefusalStopsTheWorkerWithItsError(t *testing.T) {
	for _, code := range []codes.Code{
		codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.NotFound, codes.Unimplemented,
	} {
		t.Run(code.String(), func(t *testing.T) {
			scene := longLeases(t)
			scene.server.Script(func(script *keyworktest.Script) {
				script.RefuseSessions = []*status.Status{status.New(code, "no")}
			})
			running := scene.start(scene.options())
			equal(t, "the code", errorOf(t, running.end()).Code(), code)
			failed := untilEvent[keywork.FailedEvent](scene, "the event")
			equal(t, "its code", errorOf(t, failed.Err).Code(), code)
			untilEvent[keywork.StoppedEvent](scene, "the end")
		})
	}
}

func TestARefusalInTheMiddleCancelsTheHandlers(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	running := scene.start(scene.options())
	scene.untilStarted(1)
	scene.server.EndSessions(status.New(codes.PermissionDenied, "no more"))
	scene.untilCancelled("a", keywork.ErrLeaseLost)
	equal(t, "the code", errorOf(t, running.end()).Code(), codes.PermissionDenied)
}

func TestAServerThatNeverSaysWelcomeIsLeft(t *testing.T) {
	scene := longLeases(t)
	scene.server.Script(func(script *keyworktest.Script) { script.UnwelcomeSessions = 1 })
	scene.submit("a")
	running := scene.start(scene.options())
	scene.untilStarted(1)
	untilEvent[keywork.DegradedEvent](scene, "the first server to be left")
	scene.openGate()
	running.drain()
}

func TestAServerThatFallsSilentIsLeftWithinItsLivenessTimeout(t *testing.T) {
	scene := shortLeases(t)
	running := scene.start(scene.options())
	untilEvent[keywork.ReadyEvent](scene, "readiness")
	before := time.Now()
	scene.server.Script(func(script *keyworktest.Script) { script.Silent = true })
	untilEvent[keywork.DegradedEvent](scene, "the silence")
	if took := time.Since(before); took > 3*time.Second {
		t.Fatalf("noticed after %v", took)
	}
	equal(t, "healthy", running.worker.Healthy(), false)
	scene.server.Script(func(script *keyworktest.Script) { script.Silent = false })
	scene.submit("a")
	scene.openGate()
	scene.untilCompleted("a")
	running.drain()
}

func TestASupersededWorkerStopsAndDoesNotComeBack(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	options := scene.options()
	options.WorkerID = "same"
	older := scene.start(options)
	scene.untilStarted(1)
	newer := scene.start(options)
	if err := older.end(); !errors.Is(err, keywork.ErrSuperseded) {
		t.Fatalf("the older one ended with: %v", err)
	}
	scene.untilCancelled("a", keywork.ErrLeaseLost)
	seen := scene.until("the job to be handed on", func(seen keyworktest.Seen) bool { return len(seen.Delivered) == 2 })
	equal(t, "sessions: no ping-pong", len(seen.Hellos), 2)
	scene.openGate()
	newer.drain()
}

func TestAStreamThatEndsAsSupersededStopsTheWorkerToo(t *testing.T) {
	scene := longLeases(t)
	running := scene.start(scene.options())
	scene.untilSessions(1)
	scene.server.EndSessions(keyworktest.RefusalOf(codes.Aborted, keywork.ReasonSessionSuperseded, "newer"))
	if err := running.end(); !errors.Is(err, keywork.ErrSuperseded) {
		t.Fatalf("it ended with: %v", err)
	}
}

func TestAHelloThatWasTooSlowIsSaidAgain(t *testing.T) {
	scene := longLeases(t)
	late := keyworktest.RefusalOf(codes.Unavailable, keywork.ReasonHelloLate, "no Hello within 10 s")
	scene.server.Script(func(script *keyworktest.Script) { script.RefuseSessions = []*status.Status{late} })
	running := scene.start(scene.options())
	scene.untilSessions(1)
	running.drain()
}

func TestAServerThatDrainsIsLeftWithTheLeasesKept(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	running := scene.start(scene.options())
	scene.untilStarted(1)
	scene.server.GoAway(keyworkv1.GoAwayReason_GO_AWAY_REASON_DRAINING, 50*time.Millisecond)
	seen := scene.until("a second session", func(seen keyworktest.Seen) bool { return len(seen.Hellos) == 2 })
	equal(t, "leases claimed", len(seen.Hellos[1].GetHeldLeases()), 1)
	scene.openGate()
	scene.untilCompleted("a")
	running.drain()
}

func TestAWorkerIsHealthyWhileItsSessionIsLive(t *testing.T) {
	scene := longLeases(t)
	scene.server.Script(func(script *keyworktest.Script) {
		script.RefuseSessions = []*status.Status{status.New(codes.Unavailable, "not yet")}
	})
	running := scene.start(scene.options())
	untilEvent[keywork.DegradedEvent](scene, "the first failure")
	equal(t, "healthy before", running.worker.Healthy(), false)
	untilEvent[keywork.ReadyEvent](scene, "readiness")
	equal(t, "healthy", running.worker.Healthy(), true)
	running.drain()
	equal(t, "healthy after", running.worker.Healthy(), false)
	if err := running.worker.Run(t.Context()); !errors.Is(err, keywork.ErrStartedBefore) {
		t.Fatalf("a second run: %v", err)
	}
}

func TestAWorkerGoesToTheServerThatIsThere(t *testing.T) {
	scene := longLeases(t)
	client := must(keywork.NewClient(keywork.ClientOptions{
		Endpoints: []string{"http://127.0.0.1:1", scene.server.Endpoint()},
		Metadata:  map[string]string{"Authorization": "Bearer x"},
	}))(t)
	defer client.Close()
	running := scene.run(keywork.NewWorker(client, scene.atTheGate, scene.options()))
	scene.untilSessions(1)
	if !slices.Equal(scene.server.Seen().Metadata["authorization"], []string{"Bearer x"}) {
		t.Fatalf("the metadata: %v", scene.server.Seen().Metadata)
	}
	running.drain()
}

func TestAWorkerWithoutAQueueDoesNotStart(t *testing.T) {
	t.Parallel()
	client := keywork.MustClient()
	defer client.Close()
	err := keywork.NewWorker(client, nil, keywork.WorkerOptions{}).Run(t.Context())
	equal(t, "the code", errorOf(t, err).Code(), codes.InvalidArgument)
}

func TestADeliveryBeforeTheWelcomeIsNotTakenUp(t *testing.T) {
	scene := shortLeases(t)
	scene.server.Script(func(script *keyworktest.Script) { script.Silent = true })
	running := scene.start(scene.options())
	scene.until("a session", func(seen keyworktest.Seen) bool { return len(seen.Hellos) == 1 })
	// The first thing that the session hears is a delivery: its Welcome was swallowed.
	scene.server.Script(func(script *keyworktest.Script) { script.Silent = false })
	scene.submit("a")
	scene.until("the delivery", func(seen keyworktest.Seen) bool { return len(seen.Delivered) == 1 })
	scene.server.EndSessions(nil)
	scene.openGate()
	seen := scene.untilCompleted("a")
	equal(t, "the lease was handed back by the next Hello", len(seen.Hellos[1].GetHeldLeases()), 0)
	equal(t, "leases lost", running.worker.Counts().LeasesLost, 0)
	running.drain()
}
