package keywork_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
)

// patience is how long anything may take.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// record is something that grows, and can be waited for.
type record[T any] struct {
	mu      sync.Mutex
	entries []T
	changed chan struct{}
}

func newRecord[T any]() *record[T] { return &record[T]{changed: make(chan struct{})} }

func (l *record[T]) add(entry T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *record[T]) all() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

func (l *record[T]) until(t *testing.T, what string, isSo func([]T) bool) []T {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		entries, changed := slices.Clone(l.entries), l.changed
		l.mu.Unlock()
		if isSo(entries) {
			return entries
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited in vain: %s; record: %+v", what, entries)
		}
	}
}

// step is what a handler of a scene went through.
type step struct {
	what  string
	key   string
	cause error
}

// scene is a server, and a worker whose handlers wait at a gate until they are let through or cancelled.
type scene struct {
	*testing.T
	server *keyworktest.Server
	client *keywork.Client
	steps  *record[step]
	events *record[keywork.Event]
	gate   chan struct{}
	open   sync.Once
}

func newScene(t *testing.T, options keyworktest.Options) *scene {
	server := keyworktest.NewServer(t, options)
	s := &scene{
		T:      t,
		server: server,
		client: server.Client(),
		steps:  newRecord[step](),
		events: newRecord[keywork.Event](),
		gate:   make(chan struct{}),
	}
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

// longLeases is a scene whose leases outlast its test.
func longLeases(t *testing.T) *scene {
	t.Parallel()
	return newScene(t, keyworktest.Options{})
}

// shortLeases is one whose leases are the shortest that a busy machine keeps to.
func shortLeases(t *testing.T) *scene {
	t.Parallel()
	return newScene(t, keyworktest.Options{LeaseDuration: 1500 * time.Millisecond})
}

func (s *scene) submit(keys ...string) {
	s.Helper()
	for _, key := range keys {
		submitted, err := s.client.Submit(s.Context(), keywork.Submit{Queue: "q", Key: key})
		if err != nil || !submitted.Accepted() {
			s.Fatalf("submit of %s: %+v, %v", key, submitted, err)
		}
	}
}

func (s *scene) options() keywork.WorkerOptions {
	return keywork.WorkerOptions{
		Queues:       keywork.Queues("q"),
		Concurrency:  4,
		OnEvent:      s.events.add,
		LeaveSignals: true,
	}
}

// atTheGate is the handler that waits.
func (s *scene) atTheGate(ctx context.Context, job *keywork.Job) error {
	s.steps.add(step{"started", job.Key, nil})
	select {
	case <-s.gate:
		s.steps.add(step{"ended", job.Key, nil})
		return nil
	case <-ctx.Done():
		s.steps.add(step{"cancelled", job.Key, context.Cause(ctx)})
		return errors.New("stopped before the end")
	}
}

func (s *scene) openGate() { s.open.Do(func() { close(s.gate) }) }

// start starts a worker whose handlers wait at the gate.
func (s *scene) start(options keywork.WorkerOptions) *running {
	return s.run(keywork.NewWorker(s.client, s.atTheGate, options))
}

// handle starts a worker with a handler of the test's own.
func (s *scene) handle(handler keywork.Handler) *running {
	return s.run(keywork.NewWorker(s.client, handler, s.options()))
}

func (s *scene) untilStarted(count int) {
	s.Helper()
	s.steps.until(s.T, "handlers to start", func(steps []step) bool {
		started := 0
		for _, step := range steps {
			if step.what == "started" {
				started++
			}
		}
		return started >= count
	})
}

func (s *scene) untilCancelled(key string, cause error) {
	s.Helper()
	s.steps.until(s.T, fmt.Sprintf("%s to be cancelled: %v", key, cause), func(steps []step) bool {
		return slices.ContainsFunc(steps, func(step step) bool {
			return step.what == "cancelled" && step.key == key && errors.Is(step.cause, cause)
		})
	})
}

func (s *scene) until(what string, isSo func(keyworktest.Seen) bool) keyworktest.Seen {
	s.Helper()
	return s.server.Until(s.T, what, isSo)
}

func (s *scene) untilCompleted(keys ...string) keyworktest.Seen {
	s.Helper()
	return s.until("completion", func(seen keyworktest.Seen) bool {
		return slices.Equal(seen.Settled(keywork.OutcomeComplete), keys)
	})
}

func (s *scene) untilSessions(count int) {
	s.Helper()
	s.until("sessions", func(seen keyworktest.Seen) bool { return seen.Sessions == count })
}

// untilEvent waits for an event of this type.
func untilEvent[E keywork.Event](s *scene, what string) E {
	s.Helper()
	var found E
	s.events.until(s.T, what, func(events []keywork.Event) bool {
		for _, event := range events {
			if one, is := event.(E); is {
				found = one
				return true
			}
		}
		return false
	})
	return found
}

// running is a worker that runs.
type running struct {
	scene  *scene
	worker *keywork.Worker
	stop   context.CancelFunc
	ended  chan error
}

func (s *scene) run(worker *keywork.Worker) *running {
	ctx, stop := context.WithCancel(context.Background())
	r := &running{s, worker, stop, make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- worker.Run(ctx)
	}()
	s.Cleanup(func() {
		s.openGate()
		stop()
		worker.ReleaseAll()
		<-done
	})
	return r
}

// end waits for the end that something else has caused.
func (r *running) end() error {
	r.scene.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		r.scene.Fatal("waited in vain: the worker to end")
		return nil
	}
}

func (r *running) drain() {
	r.scene.Helper()
	r.worker.Drain()
	if err := r.end(); err != nil {
		r.scene.Fatalf("the drain ended with: %v", err)
	}
}

// errorOf gives the package's error, which it must be.
func errorOf(t *testing.T, err error) *keywork.Error {
	t.Helper()
	var own *keywork.Error
	if !errors.As(err, &own) {
		t.Fatalf("not a *keywork.Error: %v", err)
	}
	return own
}

// must fails the test on an error.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatalf("failed: %v", err)
		}
		return value
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
