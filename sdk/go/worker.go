package keywork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

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
	mostWeight           = 100
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

// NoGrace is a grace of no time, since a zero one is the default.
const NoGrace time.Duration = -1

// WorkerOptions are the options of a [Worker]. What is out of its bounds is refused by [Worker.Run], never changed.
type WorkerOptions struct {
	// Queues to serve: 1 to 64. [Queues] makes them of names.
	Queues []Subscription
	// Concurrency is how many handlers run at once, which is how many leases the worker holds: 1 to 100,000.
	// Default: 16.
	Concurrency int
	// ShutdownGrace is how long running handlers may take to end after the worker was told to stop, before they are
	// cancelled. Default: 25 s; [NoGrace]: they are cancelled at once.
	ShutdownGrace time.Duration
	// CancelGrace is how long a handler may take to end after it was cancelled because the worker stops. Default: 1 s;
	// [NoGrace]: it is left behind at once.
	CancelGrace time.Duration
	// WorkerID names this process at the servers. A newer worker of the same name takes over from an older one, so no
	// two that run at once may share it. Default: the host, the process, and chance.
	WorkerID string
	// Interceptors wrap every handler call; the first one is the outermost.
	Interceptors []Interceptor
	// Logger is where the worker logs, whatever OnEvent does: connecting at the level debug; ready, draining and stopped
	// at info; at warn that it is not connected, at most every 30 s of an outage, a lost lease, a handler's ordinary
	// error or panic. It is written to by a goroutine of its own, which may be slow. Default: [slog.Default].
	Logger *slog.Logger
	// OnEvent is told of everything that happens, one event after another, by a goroutine of its own. It may be slow:
	// events wait for it. Run returns when it has been told of all, or a second later.
	OnEvent func(Event)
	// LeaveSignals leaves SIGTERM and SIGINT to the caller. Default: Run drains at the first and releases everything at
	// the second.
	LeaveSignals bool
}

func (o WorkerOptions) withDefaults() WorkerOptions {
	o.Concurrency = cmp.Or(o.Concurrency, defaultConcurrency)
	o.ShutdownGrace = cmp.Or(o.ShutdownGrace, defaultShutdownGrace)
	o.CancelGrace = cmp.Or(o.CancelGrace, defaultCancelGrace)
	if o.WorkerID == "" {
		o.WorkerID = newWorkerID()
	}
	return o
}

// newWorkerID says where the worker runs, for people who look at who holds a job, and is that of no other.
func newWorkerID() string {
	// Without a name of the host, the rest is still unique.
	host, _ := os.Hostname()
	chance := strings.ReplaceAll(uuid.NewString(), "-", "")
	return fmt.Sprintf("%.64s-%d-%s", cmp.Or(host, "go"), os.Getpid(), chance[:12])
}

func (o *WorkerOptions) check(wrong *faults) {
	if len(o.Queues) == 0 {
		wrong.add("Queues", "must name at least one queue")
	}
	names := make(map[string]bool)
	for i, queue := range o.Queues {
		wrong.text(fmt.Sprintf("Queues[%d].Queue", i), queue.Queue)
		if names[queue.Queue] {
			wrong.add(fmt.Sprintf("Queues[%d].Queue", i), "must not name %q twice", queue.Queue)
		}
		names[queue.Queue] = true
		wrong.count(fmt.Sprintf("Queues[%d].Weight", i), queue.Weight, mostWeight, "1")
	}
	wrong.count("Concurrency", o.Concurrency, mostConcurrency, fmt.Sprint(defaultConcurrency))
	wrong.grace("ShutdownGrace", o.ShutdownGrace)
	wrong.grace("CancelGrace", o.CancelGrace)
	wrong.text("WorkerID", o.WorkerID)
	for i, interceptor := range o.Interceptors {
		if interceptor == nil {
			wrong.add(fmt.Sprintf("Interceptors[%d]", i), "must not be nil")
		}
	}
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

// NewWorker makes a worker, at the servers that the client knows. Nothing is connected yet. What the options have wrong
// is told by [Worker.Run].
func NewWorker(client *Client, handler Handler, options WorkerOptions) *Worker {
	options = options.withDefaults()
	return &Worker{
		client:  client,
		options: options,
		handler: handler,
		orders:  orders{bell: make(chan struct{}, 1)},
	}
}

// Run works until SIGTERM or SIGINT, or until the context ends, then drains. A second signal releases everything and
// makes Run return [ErrForced]: exit non-zero.
//
// A lost connection is no error: the worker reconnects. Handlers get the context's values, but not its end. An option
// that is wrong ends it at once, with an [*Error] that names it.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.check(); err != nil {
		return err
	}
	if w.started.Swap(true) {
		return ErrStartedBefore
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

func (w *Worker) check() *Error {
	var wrong faults
	if w.client == nil {
		wrong.add("client", "must not be nil")
	}
	if w.handler == nil {
		wrong.add("handler", "must not be nil")
	}
	w.options.check(&wrong)
	return wrong.err()
}

// listen turns signals and the end of the context into orders.
func (w *Worker) listen(ctx context.Context, signals <-chan os.Signal, stopped <-chan struct{}) {
	ended := ctx.Done()
	for {
		select {
		case <-signals:
			w.orders.signalled()
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
