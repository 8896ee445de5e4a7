package keywork

import (
	"context"
	"runtime"
	"time"
)

const (
	// takenAtOnce is how many ended handlers are taken at once: what one message can settle.
	takenAtOnce = 1_000
	// noticeAfter is when a server that does not answer is told of in the log, before that is an error.
	noticeAfter = 800 * time.Millisecond
	// stubbornAfter is when a handler that goes on after its cancellation is told of.
	stubbornAfter = 5 * time.Second
	// far is a wait that never ends.
	far = 24 * time.Hour
)

// driver is the worker's loop: one goroutine that holds all state of the session. Handlers run in goroutines of their
// own. Every arm of the loop calls something that never waits; messages are sent when there is room for them.
type driver struct {
	worker  *Worker
	handler Handler
	// base is what the handlers' contexts are made from.
	base    context.Context
	link    *link
	leases  *leaseTable
	beats   beats
	outbox  outbox
	terms   []terms
	session session
	stop    stop
	err     error
	// unconfirmed results were given up when the session could not go on.
	unconfirmed int
	backoff     backoff
	// waiting leases have no handler slot yet.
	waiting []*held
	// finished has room for as many as there are slots, so that no handler waits at its end, whoever listens.
	finished chan finished
	// nextSweep is when the leases' fences are to be looked at next.
	nextSweep time.Time
	journal   *journal
	courier   *courier
	// noticeAt is when to tell that the server in turn does not answer; zero: it did, or that was told.
	noticeAt time.Time
}

// finished is a handler's end.
type finished struct {
	lease   *held
	outcome Outcome
	// stack is where it panicked.
	stack []byte
}

// session is what is known of the one that is open, or was last.
type session struct {
	// live: the server has said Welcome, and the stream has not ended since.
	live      bool
	helloSent time.Time
	// broke is when the stream of the last live session did; zero while one is live.
	broke             time.Time
	ticket            []byte
	heartbeatInterval time.Duration
	liveness          time.Duration
	nextHeartbeat     time.Time
	// capacity is what the server was told last.
	capacity          int
	drainSent         bool
	drainAcknowledged bool
	// moveAt is when to reconnect, where the server wants us gone.
	moveAt time.Time
}

func newDriver(ctx context.Context, worker *Worker) *driver {
	now := time.Now()
	base := context.WithoutCancel(ctx)
	return &driver{
		worker:    worker,
		handler:   chain(worker.options.Interceptors, worker.handler),
		base:      base,
		journal:   openJournal(base, &worker.options),
		courier:   openCourier(worker.options.OnEvent),
		link:      newLink(worker.client, now),
		leases:    newLeaseTable(),
		finished:  make(chan finished, worker.options.Concurrency),
		nextSweep: now.Add(far),
	}
}

// run works until it is stopped.
func (d *driver) run() error {
	timer := time.NewTimer(far)
	defer timer.Stop()
	for {
		now := time.Now()
		d.onTime(now)
		d.obey(d.worker.orders.now(), now)
		if d.isOver(now) {
			break
		}
		d.flush(now)
		timer.Reset(d.wake(now).Sub(now))
		select {
		case <-d.worker.orders.bell:
		case <-timer.C:
		case <-d.wantedRoom():
		case event := <-d.link.events():
			d.onLink(event, time.Now())
		case end := <-d.finished:
			d.onFinished(end)
		}
	}
	return d.end()
}

// wantedRoom rings when there is room again; it never does while there is.
func (d *driver) wantedRoom() <-chan struct{} {
	if d.link.hasRoom() {
		return nil
	}
	return d.link.room()
}

func (d *driver) end() error {
	d.link.close()
	stopped := StoppedEvent{Abandoned: d.leases.occupied(), Unconfirmed: d.unconfirmed + d.leases.unconfirmed()}
	d.leases.abandon()
	d.worker.healthy.Store(false)
	if d.err != nil {
		d.tell(FailedEvent{d.err})
	}
	d.tell(stopped)
	d.courier.close()
	d.journal.close()
	return d.err
}

// tell tells the log, and the worker's owner.
func (d *driver) tell(event Event) {
	d.journal.note(event)
	d.courier.tell(event)
}

// wake is the earliest time at which something is due.
func (d *driver) wake(now time.Time) time.Time {
	at := earlier(d.nextSweep, d.link.wake())
	// Without room for it, the room is waited for instead.
	if d.session.live && d.link.hasRoom() {
		at = earlier(at, d.session.nextHeartbeat)
	}
	at = earlier(at, d.session.moveAt)
	at = earlier(at, d.noticeAt)
	at = earlier(at, d.outbox.wake())
	at = earlier(at, d.stop.until)
	return earlier(at, now.Add(far))
}

// onTime does what is due.
func (d *driver) onTime(now time.Time) {
	if !d.nextSweep.After(now) {
		d.sweep(now)
	}
	if d.link.isTooSilent(now) {
		d.onSilence(now)
	}
	if !d.session.moveAt.IsZero() && !d.session.moveAt.After(now) {
		d.moveOn(now)
	}
	if d.link.isDueToConnect(now) {
		d.tell(ConnectingEvent{d.link.endpoint().uri})
		d.link.connect(now)
		d.noticeAt = now.Add(noticeAfter)
	}
	if !d.noticeAt.IsZero() && !d.noticeAt.After(now) {
		d.noticeAt = time.Time{}
		d.journal.noteWaiting(d.link.endpoint().uri, noticeAfter)
	}
	if d.stop.isDue(now) {
		d.stopFurther(now)
	}
}

// sweep stops every handler whose lease may end before it is extended.
func (d *driver) sweep(now time.Time) {
	due, next := d.leases.fenced(d.terms, d.session.broke, now)
	for _, lease := range due {
		d.lose(lease, ErrLeaseLost, LostReasonUnknown, now)
	}
	for _, lease := range d.leases.stubborn(stubbornAfter, now) {
		d.tell(HandlerIgnoresCancellationEvent{
			Queue: lease.job.Queue, Key: lease.job.Key, FencingNumber: lease.job.FencingNumber,
			CancelledFor: now.Sub(lease.lostAt),
		})
	}
	if len(d.leases.lost) > 0 {
		next = earlier(next, now.Add(stubbornAfter))
	}
	d.nextSweep = earlier(next, now.Add(far))
}

// sweepBy: a fence may have come nearer; look at it in time.
func (d *driver) sweepBy(at time.Time) { d.nextSweep = earlier(d.nextSweep, at) }

func (d *driver) onLink(event linkEvent, now time.Time) {
	switch {
	case event.connected:
		d.sayHello(now)
	case event.ended:
		d.onEnd(event.err, now)
	default:
		d.onMessage(event.message, now)
	}
}

// onFinished takes a handler's end, and those that come with it: one message settles them all.
func (d *driver) onFinished(end finished) {
	now := time.Now()
	d.onEnded(end, now)
	// Handlers that are about to end do so first.
	runtime.Gosched()
	for range takenAtOnce {
		select {
		case end = <-d.finished:
			d.onEnded(end, now)
			continue
		default:
		}
		break
	}
	d.startWaiting()
}

func (d *driver) onEnded(end finished, now time.Time) {
	lease := end.lease
	if !fenceOf(lease, d.terms, d.session.broke).After(now) {
		d.lose(lease, ErrLeaseLost, LostReasonUnknown, now)
	}
	outcome := end.outcome
	if lease.stopped {
		outcome = outcome.afterShutdown()
	}
	if !d.leases.finish(lease, outcome) {
		d.worker.counters.droppedResults.Add(1)
		return
	}
	d.journal.noteEnd(lease.job, outcome, end.stack)
	d.outbox.push(lease)
}

// startWaiting starts what waits, as far as there are slots.
func (d *driver) startWaiting() {
	for len(d.waiting) > 0 && !d.stop.isStopping() && d.leases.occupied() < d.worker.options.Concurrency {
		lease := d.waiting[0]
		d.waiting = d.waiting[1:]
		if lease.phase == waiting {
			d.start(lease)
		}
	}
}

func (d *driver) start(lease *held) {
	ctx, cancel := context.WithCancelCause(d.base)
	d.leases.start(lease, cancel)
	d.worker.counters.started.Add(1)
	go runOne(ctx, d.handler, lease, d.finished)
}

// runOne is one handler's run, which tells its end whatever becomes of it.
func runOne(ctx context.Context, handler Handler, lease *held, to chan<- finished) {
	end := finished{lease: lease, outcome: Outcome{Kind: OutcomeRetry, Error: "the handler ended its goroutine"}}
	defer func() { to <- end }()
	// On a busy machine a goroutine may begin when its lease is over: the job may have begun elsewhere.
	if ctx.Err() != nil || !time.Now().Before(lease.job.Deadline()) {
		end.outcome = Outcome{Kind: OutcomeRetry, Error: "the lease was over before the handler began"}
		return
	}
	// Its own copy: what a handler changes is neither settled nor told.
	job := *lease.job
	end.outcome, end.stack = handler.run(ctx, &job)
}

// obey follows an order that has not been followed yet.
func (d *driver) obey(given order, now time.Time) {
	switch {
	case given == orderDrain && d.stop.phase == notStopping:
		d.drain(now)
	case given == orderReleaseAll && d.stop.phase != releasing:
		if d.err == nil {
			d.err = ErrForced
		}
		d.releaseAll(now)
	}
}

func (d *driver) drain(now time.Time) {
	d.tell(DrainingEvent{})
	d.stop = stop{draining, now.Add(d.worker.options.ShutdownGrace)}
	d.giveBackWaiting()
	if !d.session.live {
		d.link.hurry(now.Add(flushWithin))
	}
}

// giveBackWaiting gives back what was delivered and has not started.
func (d *driver) giveBackWaiting() {
	for _, lease := range d.waiting {
		if d.leases.giveBack(lease) {
			d.outbox.push(lease)
		}
	}
	d.waiting = nil
}

func (d *driver) stopFurther(now time.Time) {
	switch d.stop.phase {
	case draining:
		d.leases.stopAll()
		d.stop = stop{cancelling, now.Add(d.worker.options.CancelGrace)}
	case cancelling:
		d.releaseAll(now)
	}
}

// releaseAll tells every handler to stop; each lease is released when its handler has really ended. A goroutine cannot
// be ended from outside, and a job whose handler may still be at work must not be given to another.
func (d *driver) releaseAll(now time.Time) {
	d.leases.stopAll()
	d.giveBackWaiting()
	d.stop = stop{releasing, now.Add(flushWithin)}
}

// fail: the session can never go on. Handlers are stopped, since nothing extends their leases any more.
func (d *driver) fail(err error, now time.Time) {
	d.err = err
	d.session.live = false
	d.worker.healthy.Store(false)
	d.link.closeNow()
	d.unconfirmed = d.leases.unconfirmed()
	for _, lease := range d.leases.byToken {
		if !d.leases.settled(lease) {
			d.lose(lease, ErrLeaseLost, LostReasonUnknown, now)
		}
	}
	d.waiting = nil
	d.stop = stop{cancelling, now.Add(d.worker.options.CancelGrace)}
}

// isOver: stopping, and nothing is left to wait for.
func (d *driver) isOver(now time.Time) bool {
	// A session that is being opened may bring deliveries: they are to be released, not dropped.
	told := d.session.drainAcknowledged || !d.session.live && !d.link.isOpening()
	done := d.leases.isEmpty() && told
	switch d.stop.phase {
	case notStopping:
		return false
	case releasing:
		return done || !d.stop.until.After(now)
	default:
		return done
	}
}
