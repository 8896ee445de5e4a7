package keywork_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
)

// A worker is understood from its log, which never holds it up; and so are submits that are tried again.

// line is an entry of a log.
type line struct {
	level slog.Level
	text  string
	with  map[string]string
}

// logbook is a handler that keeps what is written.
type logbook struct{ *record[line] }

func (l logbook) Enabled(context.Context, slog.Level) bool { return true }
func (l logbook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l logbook) WithGroup(string) slog.Handler            { return l }

func (l logbook) Handle(_ context.Context, entry slog.Record) error {
	with := make(map[string]string)
	entry.Attrs(func(attribute slog.Attr) bool {
		with[attribute.Key] = attribute.Value.String()
		return true
	})
	l.add(line{entry.Level, entry.Message, with})
	return nil
}

// logging is the options of a worker, and the log that it writes.
func (s *scene) logging() (keywork.WorkerOptions, logbook) {
	log := logbook{newRecord[line]()}
	options := s.options()
	options.Logger = slog.New(log)
	return options, log
}

// untilSaid waits for an entry that begins so, and gives it.
func (l logbook) untilSaid(t *testing.T, level slog.Level, text string) line {
	t.Helper()
	var found line
	l.until(t, text, func(lines []line) bool {
		for _, line := range lines {
			if line.level == level && strings.HasPrefix(line.text, "keywork: "+text) {
				found = line
				return true
			}
		}
		return false
	})
	return found
}

func (l logbook) count(text string) int {
	count := 0
	for _, line := range l.all() {
		if strings.HasPrefix(line.text, "keywork: "+text) {
			count++
		}
	}
	return count
}

func TestAWorkersLifeIsInItsLog(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	scene.openGate()
	options, log := scene.logging()
	options.WorkerID = "w1"
	running := scene.start(options)
	scene.untilCompleted("a")
	running.drain()
	// The log is whole when Run has returned.
	var said []string
	for _, line := range log.all() {
		equal(t, "the worker", line.with["worker_id"], "w1")
		said = append(said, line.level.String()+" "+line.text)
	}
	want := "DEBUG keywork: connecting, INFO keywork: ready, INFO keywork: draining, INFO keywork: stopped"
	equal(t, "the log", strings.Join(said, ", "), want)
	equal(t, "the endpoint", log.untilSaid(t, slog.LevelInfo, "ready").with["endpoint"], scene.server.Endpoint())
}

func TestAServerThatIsNotThereIsToldWithinASecondAndThenRarely(t *testing.T) {
	scene := longLeases(t)
	client := keywork.MustClient("http://127.0.0.1:1")
	options, log := scene.logging()
	begun := time.Now()
	running := scene.run(keywork.NewWorker(client, noHandler, options))
	said := log.untilSaid(t, slog.LevelWarn, "not connected, trying again")
	if took := time.Since(begun); took > time.Second {
		t.Fatalf("it took %v", took)
	}
	equal(t, "the endpoint", said.with["endpoint"], "http://127.0.0.1:1")
	equal(t, "the error", said.with["error"],
		"failed to connect to http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused")
	scene.events.until(t, "more tries", func(events []keywork.Event) bool { return len(events) > 6 })
	running.drain()
	equal(t, "warnings", log.count("not connected"), 1)
}

func TestAServerThatDoesNotAnswerIsToldWithinASecond(t *testing.T) {
	scene := longLeases(t)
	silent := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	options, log := scene.logging()
	begun := time.Now()
	running := scene.run(keywork.NewWorker(keywork.MustClient("http://"+silent.Addr().String()), noHandler, options))
	said := log.untilSaid(t, slog.LevelWarn, "not connected yet")
	if took := time.Since(begun); took > time.Second {
		t.Fatalf("it took %v", took)
	}
	equal(t, "the endpoint", said.with["endpoint"], "http://"+silent.Addr().String())
	running.drain()
}

func TestEachOutageIsToldOf(t *testing.T) {
	scene := longLeases(t)
	options, log := scene.logging()
	running := scene.start(options)
	for outage := range 3 {
		log.until(t, "ready", func([]line) bool { return log.count("ready") == outage+1 })
		scene.server.EndSessions(nil)
		log.until(t, "the outage", func([]line) bool { return log.count("not connected") == outage+1 })
	}
	running.drain()
}

func TestAHandlersOrdinaryErrorsAreInTheLog(t *testing.T) {
	scene := longLeases(t)
	scene.submit("complete", "retry", "error", "fail", "panic")
	options, log := scene.logging()
	running := scene.run(keywork.NewWorker(scene.client, byKey, options))
	scene.until("all to end", func(seen keyworktest.Seen) bool {
		return len(seen.Settled(keywork.OutcomeComplete)) == 4
	})
	running.drain()
	failures := make(map[string]line)
	for _, line := range log.all() {
		if line.level == slog.LevelWarn {
			failures[line.with["key"]] = line
		}
	}
	delete(failures, "fail")
	equal(t, "failures", len(failures), 2)
	broke, panicked := failures["error"].with, failures["panic"].with
	equal(t, "the queue", broke["queue"], "q")
	equal(t, "the attempt", broke["attempt"], "1")
	equal(t, "the error", broke["error"], "broke")
	equal(t, "the panic", panicked["error"], "the handler panicked: oh no")
	if !strings.Contains(panicked["stack"], "byKey") {
		t.Fatalf("the stack: %s", panicked["stack"])
	}
}

func TestAnErrorInTheLastAttemptIsToldAsADeadLetter(t *testing.T) {
	scene := longLeases(t)
	for key, attempts := range map[string]int{"last": 1, "more": 2} {
		must(scene.client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: key, MaxAttempts: attempts}))(t)
	}
	options, log := scene.logging()
	running := scene.run(keywork.NewWorker(scene.client, func(_ context.Context, job *keywork.Job) error {
		if job.Key == "last" || job.Attempt == 1 {
			return errors.New("broke")
		}
		return nil
	}, options))
	dead := log.untilSaid(t, slog.LevelWarn, "handler failed in the job's last attempt: it is a dead letter")
	again := log.untilSaid(t, slog.LevelWarn, "handler failed: the job is tried again")
	scene.untilCompleted("more")
	running.drain()
	equal(t, "the dead letter", dead.with["key"], "last")
	equal(t, "the other", again.with["key"], "more")
	equal(t, "failures", log.count("handler failed"), 2)
}

func TestTypedResultsAreToldWhereTheyMakeDeadLetters(t *testing.T) {
	scene := longLeases(t)
	for _, key := range []string{"fail", "retry", "release"} {
		must(scene.client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: key, MaxAttempts: 2}))(t)
	}
	options, log := scene.logging()
	var released atomic.Bool
	running := scene.run(keywork.NewWorker(scene.client, func(_ context.Context, job *keywork.Job) error {
		switch {
		case job.Key == "fail":
			return keywork.Fail("no use")
		case job.Key == "retry":
			return keywork.Retry(0).Because(errors.New("not yet"))
		case released.CompareAndSwap(false, true):
			return keywork.Release
		default:
			return nil
		}
	}, options))
	failed := log.untilSaid(t, slog.LevelWarn, "handler failed the job for good: it is a dead letter").with
	retried := log.untilSaid(t, slog.LevelWarn, "handler asked for a retry in the job's last attempt: it is a dead letter").with
	scene.untilCompleted("release")
	running.drain()
	equal(t, "the first", failed["queue"]+"/"+failed["key"]+" "+failed["attempt"]+" "+failed["error"], "q/fail 1 no use")
	equal(t, "the second", retried["queue"]+"/"+retried["key"]+" "+retried["attempt"]+" "+retried["error"],
		"q/retry 2 not yet")
	equal(t, "warnings", log.count("handler"), 2)
	equal(t, "dead letters", len(scene.server.Dead("q")), 2)
}

func TestALostLeaseAndARefusedSettlementAreInTheLog(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	options, log := scene.logging()
	running := scene.start(options)
	scene.untilStarted(1)
	scene.server.LoseLease("q", "a", keywork.LostReasonCancelled, true)
	lost := log.untilSaid(t, slog.LevelWarn, "lease lost")
	equal(t, "what", lost.with["queue"]+"/"+lost.with["key"]+": "+lost.with["reason"], "q/a: CANCELLED")
	scene.server.Script(func(script *keyworktest.Script) {
		script.SettlementAnswers = []keywork.SettlementOutcome{keywork.Rejected}
	})
	// It is leased again.
	scene.openGate()
	rejected := log.untilSaid(t, slog.LevelWarn, "settlement rejected")
	equal(t, "what", rejected.with["queue"]+"/"+rejected.with["key"], "q/a")
	equal(t, "why", rejected.with["error"], "not served yet [NOT_SERVED_YET]")
	running.drain()
}

func TestHandlersThatAreLeftBehindAreInTheLog(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	release, ended := make(chan struct{}), make(chan struct{})
	options, log := scene.logging()
	options.ShutdownGrace, options.CancelGrace = keywork.NoGrace, keywork.NoGrace
	running := scene.run(keywork.NewWorker(scene.client, func(_ context.Context, job *keywork.Job) error {
		defer close(ended)
		scene.steps.add(step{"started", job.Key, nil})
		<-release
		return nil
	}, options))
	scene.untilStarted(1)
	running.drain()
	equal(t, "handlers", log.untilSaid(t, slog.LevelWarn, "stopped").with["handlers"], "1")
	close(release)
	<-ended
}

func TestTheErrorThatRunReturnsIsNotLoggedAsWell(t *testing.T) {
	scene := longLeases(t)
	scene.server.Script(func(script *keyworktest.Script) {
		refusal := keyworktest.RefusalOf(codes.PermissionDenied, "", "not for you")
		script.RefuseSessions = append(script.RefuseSessions, refusal)
	})
	options, log := scene.logging()
	running := scene.start(options)
	equal(t, "the code", errorOf(t, running.end()).Code(), codes.PermissionDenied)
	for _, line := range log.all() {
		if line.level > slog.LevelInfo || strings.Contains(line.with["error"], "not for you") {
			t.Fatalf("%+v", line)
		}
	}
}

// stuck is a log that does nothing until it is freed.
type stuck struct {
	logbook
	freed chan struct{}
}

func (s stuck) Handle(ctx context.Context, entry slog.Record) error {
	<-s.freed
	return s.logbook.Handle(ctx, entry)
}

func TestALogThatIsStuckHoldsNothingUp(t *testing.T) {
	scene := shortLeases(t)
	options, log := scene.logging()
	freed := make(chan struct{})
	options.Logger = slog.New(stuck{log, freed})
	options.Concurrency = 100
	scene.submit("kept")
	running := scene.run(keywork.NewWorker(scene.client, func(ctx context.Context, job *keywork.Job) error {
		if job.Key == "kept" {
			return scene.atTheGate(ctx, job)
		}
		return errors.New("broke")
	}, options))
	scene.untilStarted(1)
	// More failures than the log has room for, and several lease durations.
	scene.submit("fails")
	scene.until("failures", func(seen keyworktest.Seen) bool { return seen.Heartbeats >= 8 })
	for i, result := range scene.client.SubmitMany(t.Context(), failing(2_000)) {
		if result.Err != nil {
			t.Fatalf("%d: %v", i, result.Err)
		}
	}
	scene.until("failures", func(seen keyworktest.Seen) bool { return len(seen.Settled(keywork.OutcomeRetry)) > 2_000 })
	equal(t, "lost leases", running.worker.Counts().LeasesLost, 0)
	scene.openGate()
	scene.until("the end", func(seen keyworktest.Seen) bool { return len(seen.Settled(keywork.OutcomeComplete)) == 1 })
	close(freed)
	leftOut := log.untilSaid(t, slog.LevelWarn, "log entries were left out")
	equal(t, "their number is told", leftOut.with["entries"] != "", true)
	running.drain()
}

func failing(count int) []keywork.Submit {
	submits := numbered(count)
	for i := range submits {
		submits[i].MaxAttempts = 1
	}
	return submits
}

func TestAJobCanBeLoggedWithoutWhatItCarries(t *testing.T) {
	t.Parallel()
	job := keyworktest.Job("mail", "user-7")
	job.Payload = []byte("secret")
	var text strings.Builder
	slog.New(slog.NewJSONHandler(&text, nil)).Info("started", "job", job)
	slog.New(slog.NewTextHandler(&text, nil)).Info(fmt.Sprint(job), "job", job)
	if said := text.String(); strings.Count(said, "user-7") != 3 || strings.Contains(said, "secret") {
		t.Fatalf("%s", said)
	}
}

// submitting is a client of this server that gives up soon, and the log that it writes.
func submitting(t *testing.T, endpoint string) (*keywork.Client, logbook) {
	t.Helper()
	log := logbook{newRecord[line]()}
	client := must(keywork.NewClient(keywork.ClientOptions{
		Endpoints: []string{endpoint}, SubmitDeadline: time.Second, Logger: slog.New(log),
	}))(t)
	t.Cleanup(func() { _ = client.Close() })
	return client, log
}

func TestSubmitsThatAreTriedAgainSaySoOnce(t *testing.T) {
	const nobody = "http://127.0.0.1:1"
	for name, submit := range nobodyAnswers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, log := submitting(t, nobody)
			for range 2 {
				equal(t, "the code", errorOf(t, submit(t.Context(), client)).Code(), codes.Unavailable)
			}
			said := log.all()
			equal(t, "entries", len(said), 1)
			equal(t, "the level", said[0].level, slog.LevelWarn)
			equal(t, "the text", said[0].text, "keywork: no answer to a submit, trying again")
			equal(t, "the endpoint", said[0].with["endpoint"], nobody)
			equal(t, "the error", said[0].with["error"],
				"failed to connect to http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused")
		})
	}
}

func TestAnOfferOfAStreamThatIsTriedAgainSaysSo(t *testing.T) {
	scene := longLeases(t)
	scene.faults(keyworktest.Unavailable())
	client, log := submitting(t, scene.server.Endpoint())
	equal(t, "the outcome", client.SubmitMany(t.Context(), numbered(1))[0].Outcome, keywork.Created)
	equal(t, "warnings", log.count("no answer to a submit"), 1)
}

func TestASubmitThatIsAnsweredOrRefusedLeavesNothingInTheLog(t *testing.T) {
	scene := longLeases(t)
	client, log := submitting(t, scene.server.Endpoint())
	must(client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a"}))(t)
	_, err := client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: strings.Repeat("k", 513)})
	equal(t, "the code", errorOf(t, err).Code(), codes.InvalidArgument)
	equal(t, "entries", len(log.all()), 0)
}

type panicking struct{ logbook }

func (panicking) Handle(context.Context, slog.Record) error { panic("in the log") }

func TestALogThatPanicsEndsNothing(t *testing.T) {
	scene := longLeases(t)
	scene.submit("a")
	scene.openGate()
	options, log := scene.logging()
	options.Logger = slog.New(panicking{log})
	running := scene.start(options)
	scene.untilCompleted("a")
	running.drain()
}

func TestALogThatPanicsEndsNoSubmit(t *testing.T) {
	scene := longLeases(t)
	scene.faults(keyworktest.Unavailable())
	client := must(keywork.NewClient(keywork.ClientOptions{
		Endpoints: []string{scene.server.Endpoint()}, Logger: slog.New(panicking{}),
	}))(t)
	defer client.Close()
	submitted := must(client.Submit(t.Context(), keywork.Submit{Queue: "q", Key: "a"}))(t)
	equal(t, "the outcome", submitted.Outcome, keywork.Created)
}
