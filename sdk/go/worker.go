package keywork

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/google/uuid"
)

// Why a worker stopped, other than because it was asked to. A server that refuses what the worker asks for, and would
// again, is an [*Error] instead.
var (
	// ErrSuperseded: a newer worker has the same worker id; going on would only take turns with it.
	ErrSuperseded = errors.New("failed to go on: a newer worker has the same worker id")
	// ErrForced: it was told to stop at once; handlers were cancelled and their jobs released.
	ErrForced = errors.New("failed to finish the running jobs: stopped at once")
	// ErrStartedBefore: it runs already, or has run: make another.
	ErrStartedBefore = errors.New("failed to start: this worker has been started before")
)

const (
	defaultConcurrency   = 16
	mostConcurrency      = 100_000
	defaultShutdownGrace = 25 * time.Second
	defaultCancelGrace   = time.Second
)

// Subscription is a queue that a worker serves.
type Subscription struct {
	// Queue is its name.
	Queue string
	// Weight is its share of the worker against its other queues: 1 to 100. Default: 1.
	Weight int
}

// Queues are subscriptions of equal weight.
func Queues(names ...string) []Subscription {
	return each(names, func(name string) Subscription { return Subscription{Queue: name} })
}

// WorkerOptions are the options of a [Worker].
type WorkerOptions struct {
	// Queues to serve: 1 to 64. [Queues] makes them of names.
	Queues []Subscription
	// Concurrency is how many handlers run at once, which is how many leases the worker holds: 1 to 100,000.
	// Default: 16.
	Concurrency int
	// ShutdownGrace is how long running handlers may take to end after the worker was told to stop, before they are
	// cancelled. Default: 25 s; negative: none.
	ShutdownGrace time.Duration
	// CancelGrace is how long a handler may take to end after it was cancelled because the worker stops. Default: 1 s;
	// negative: none.
	CancelGrace time.Duration
	// WorkerID names this process at the servers. A newer worker of the same name takes over from an older one, so no
	// two that run at once may share it. Default: a random one.
	WorkerID string
	// Interceptors wrap every handler call; the first one is the outermost.
	Interceptors []Interceptor
	// OnEvent is told of everything that happens, one event after another, by the goroutine that keeps the leases
	// alive: it must not block.
	OnEvent func(Event)
	// LeaveSignals leaves SIGTERM and SIGINT to the caller. Default: Run drains at the first and releases everything at
	// the second.
	LeaveSignals bool
}

func (o WorkerOptions) withDefaults() WorkerOptions {
	if o.Concurrency <= 0 {
		o.Concurrency = defaultConcurrency
	}
	o.Concurrency = min(o.Concurrency, mostConcurrency)
	o.ShutdownGrace = grace(o.ShutdownGrace, defaultShutdownGrace)
	o.CancelGrace = grace(o.CancelGrace, defaultCancelGrace)
	if o.WorkerID == "" {
		o.WorkerID = "go-" + uuid.NewString()
	}
	return o
}

func grace(set, otherwise time.Duration) time.Duration {
	if set == 0 {
		return otherwise
	}
	return max(set, 0)
}

// Worker runs the jobs of one or more queues: one session with a server, a goroutine for each job, and the fences around
// them. It keeps its leases alive from a goroutine of its own, cancels a handler before its lease can have been given to
// somebody else, reconnects by itself, and stops without losing an attempt. It never settles what a handler returned
// after its lease was lost.
type Worker struct {
	client  *Client
	options WorkerOptions
	handler Handler

	orders   orders
	healthy  atomic.Bool
	started  atomic.Bool
	counters counters
}

// NewWorker makes a worker, at the servers that the client knows. Nothing is connected yet.
func NewWorker(client *Client, handler Handler, options WorkerOptions) *Worker {
	options = options.withDefaults()
	return &Worker{
		client:  client,
		options: options,
		handler: chain(options.Interceptors, handler),
		orders:  orders{bell: make(chan struct{}, 1)},
	}
}

// Run works until SIGTERM or SIGINT, or until the context ends, then drains. A second signal releases everything and
// makes Run return [ErrForced]: exit non-zero.
//
// A lost connection is no error: the worker reconnects. Handlers get the context's values, but not its end.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return ErrStartedBefore
	}
	if err := w.check(); err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	if !w.options.LeaveSignals {
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
		defer signal.Stop(signals)
	}
	stopped := make(chan struct{})
	var listening sync.WaitGroup
	listening.Go(func() { w.listen(ctx, signals, stopped) })
	err := newDriver(ctx, w).run()
	close(stopped)
	listening.Wait()
	return err
}

func (w *Worker) check() error {
	if len(w.options.Queues) == 0 {
		return localError(codes.InvalidArgument, "failed to start: the worker has no queue to serve")
	}
	return nil
}

// listen turns signals and the end of the context into orders.
func (w *Worker) listen(ctx context.Context, signals <-chan os.Signal, stopped <-chan struct{}) {
	ended := ctx.Done()
	for {
		select {
		case <-signals:
			w.orders.next()
		case <-ended:
			ended = nil
			w.Drain()
		case <-stopped:
			return
		}
	}
}

// Drain takes no more jobs, finishes what runs within the ShutdownGrace, and ends Run. It does not wait.
func (w *Worker) Drain() { w.orders.give(orderDrain) }

// ReleaseAll cancels every handler, releases its job, and ends Run with [ErrForced]: what a second signal does. It does
// not wait.
func (w *Worker) ReleaseAll() { w.orders.give(orderReleaseAll) }

// Healthy is true while the session with a server is live.
func (w *Worker) Healthy() bool { return w.healthy.Load() }

// Counts are what it has done so far.
func (w *Worker) Counts() Counts { return w.counters.read() }

// WorkerID is its name, as servers know it.
func (w *Worker) WorkerID() string { return w.options.WorkerID }

// tell tells the owner. What a callback does wrong must not end the worker.
func (w *Worker) tell(event Event) {
	if w.options.OnEvent == nil {
		return
	}
	defer func() { _ = recover() }()
	w.options.OnEvent(event)
}
