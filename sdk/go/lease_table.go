package keywork

import (
	"context"
	"time"
)

// terms are what holds for the leases of one queue.
type terms struct {
	leaseDuration   time.Duration
	disconnectGrace time.Duration
}

// margin is how long before the server's deadline a handler is stopped: it needs time to notice.
func (t terms) margin() time.Duration {
	return min(max(t.leaseDuration/10, 100*time.Millisecond), time.Second)
}

// leasePhase is where a lease is in its life.
type leasePhase int

const (
	// waiting: delivered; no slot was free yet.
	waiting leasePhase = iota
	// running: its handler runs.
	running
	// settling: its handler has ended; the server has not confirmed the settlement.
	settling
	// lost: the lease is lost and the handler still runs, in its slot.
	lost
	// gone: nothing of it is left.
	gone
)

// held is one lease, from its delivery until nothing of it is left here.
type held struct {
	token string
	job   *Job
	// queue is which of the worker's.
	queue  int
	phase  leasePhase
	cancel context.CancelCauseFunc
	// fence is when its handler must have been told to stop; it only moves on an answer of the server, and counts from
	// when the question was sent.
	fence time.Time
	// outcome is what is to be settled, from settling on.
	outcome Outcome
	// lostAt and reported are of a lost one.
	lostAt   time.Time
	reported bool
	// stopped: it was cancelled because the worker stops.
	stopped bool
}

// leaseTable holds the leases of a worker, and until when it may act on each. Nothing here waits or sends; time is an
// argument.
type leaseTable struct {
	byToken map[string]*held
	// lost ones are no longer found by their token.
	lost map[*held]struct{}
	// running is how many handlers run whose lease is not lost.
	running int
}

func newLeaseTable() *leaseTable {
	return &leaseTable{byToken: make(map[string]*held), lost: make(map[*held]struct{})}
}

// insert adds a delivery that waits for a slot.
func (t *leaseTable) insert(token string, queue int, job *Job, fence time.Time) *held {
	job.fence = newFence(fence)
	lease := &held{token: token, queue: queue, job: job, fence: fence}
	t.byToken[token] = lease
	return lease
}

// find gives the lease of a token, as long as it is not lost.
func (t *leaseTable) find(token []byte) *held { return t.byToken[string(token)] }

// occupied is how many handler slots are.
func (t *leaseTable) occupied() int { return t.running + len(t.lost) }

func (t *leaseTable) isEmpty() bool { return len(t.byToken) == 0 && len(t.lost) == 0 }

// unconfirmed is how many results of handlers wait for a server's answer. A release is none: the job is to run again.
func (t *leaseTable) unconfirmed() int {
	count := 0
	for _, lease := range t.byToken {
		if lease.phase == settling && lease.outcome.Kind != OutcomeRelease {
			count++
		}
	}
	return count
}

// start: waiting → running.
func (t *leaseTable) start(lease *held, cancel context.CancelCauseFunc) {
	lease.phase = running
	lease.cancel = cancel
	t.running++
}

// finish: the handler has ended. It says whether its outcome is to be sent; otherwise it is dropped.
func (t *leaseTable) finish(lease *held, outcome Outcome) bool {
	lease.cancel(nil)
	switch lease.phase {
	case running:
		lease.phase = settling
		lease.outcome = outcome
		t.running--
		return true
	case lost:
		lease.phase = gone
		delete(t.lost, lease)
	}
	return false
}

// giveBack: waiting → settling. The job goes back without having been started.
func (t *leaseTable) giveBack(lease *held) bool {
	if lease.phase != waiting {
		return false
	}
	lease.phase = settling
	lease.outcome = Outcome{Kind: OutcomeRelease}
	return true
}

// settled: the server has confirmed a settlement, or has said that there is nothing to settle.
func (t *leaseTable) settled(lease *held) bool {
	if lease.phase != settling {
		return false
	}
	lease.phase = gone
	delete(t.byToken, lease.token)
	return true
}

// lose: a lease is lost, and its handler is told. A settlement under way goes on, since the server's answer to it is
// the truth. It says whether something was lost.
func (t *leaseTable) lose(lease *held, cause error, now time.Time) bool {
	switch lease.phase {
	case waiting:
		lease.phase = gone
	case running:
		lease.phase = lost
		lease.lostAt = now
		t.lost[lease] = struct{}{}
		t.running--
		lease.cancel(cause)
	default:
		return false
	}
	delete(t.byToken, lease.token)
	return true
}

// extend: the server answered something that was sent at `asked`, so the lease holds for `left` from then on at least.
func (t *leaseTable) extend(lease *held, asked time.Time, left, margin time.Duration) {
	fence := fenceAt(asked, left, margin)
	if fence.After(lease.fence) {
		lease.fence = fence
		lease.job.fence.at.Store(&fence)
	}
}

// fenceAt is when a handler is to be stopped: the deadline as far as it is known, less the margin.
func fenceAt(asked time.Time, left, margin time.Duration) time.Time {
	return asked.Add(max(left-margin, 0))
}

// fenceOf is until when a lease may be acted on. `broke` is when the stream did, zero while it is live.
func fenceOf(lease *held, all []terms, broke time.Time) time.Time {
	if broke.IsZero() || lease.queue >= len(all) || all[lease.queue].disconnectGrace <= 0 {
		return lease.fence
	}
	return earlier(lease.fence, broke.Add(all[lease.queue].disconnectGrace))
}

// fenced gives the leases whose fence has come, and when the next one comes: zero where there is none. Settlements under
// way have none: they can do no harm late.
func (t *leaseTable) fenced(all []terms, broke, now time.Time) (due []*held, next time.Time) {
	for _, lease := range t.byToken {
		if lease.phase == settling {
			continue
		}
		fence := fenceOf(lease, all, broke)
		if !fence.After(now) {
			due = append(due, lease)
		} else {
			next = earlier(next, fence)
		}
	}
	return due, next
}

// stubborn gives the handlers that run on although their lease was lost `patience` ago, each once.
func (t *leaseTable) stubborn(patience time.Duration, now time.Time) []*held {
	var found []*held
	for lease := range t.lost {
		if !lease.reported && now.Sub(lease.lostAt) >= patience {
			lease.reported = true
			found = append(found, lease)
		}
	}
	return found
}

// stopAll tells every running handler that the worker stops.
func (t *leaseTable) stopAll() {
	for _, lease := range t.byToken {
		if lease.phase == running && !lease.stopped {
			lease.stopped = true
			lease.cancel(ErrWorkerShutdown)
		}
	}
}

// abandon tells every handler that is left behind that nothing extends its lease any more.
func (t *leaseTable) abandon() {
	for _, lease := range t.byToken {
		if lease.phase == running {
			lease.cancel(ErrLeaseLost)
		}
	}
}

// earlier of two times, of which the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
