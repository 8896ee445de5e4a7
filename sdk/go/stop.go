package keywork

import (
	"sync"
	"time"
)

// flushWithin is how long releases and the last settlements may take to be confirmed.
const flushWithin = 2 * time.Second

// order is what was asked of a worker; it only grows.
type order int

const (
	orderWork order = iota
	orderDrain
	orderReleaseAll
)

// orders holds the strongest order that was given.
type orders struct {
	mu      sync.Mutex
	given   order
	signals int
	// bell rings when there is a stronger one.
	bell chan struct{}
}

// give gives an order, unless a stronger one was given.
func (o *orders) give(order order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if order > o.given {
		o.given = order
		ring(o.bell)
	}
}

// signalled gives the order of a signal: the first one drains, the second one releases everything. A drain that was
// ordered otherwise is no signal: the same SIGTERM may end the context of Run.
func (o *orders) signalled() {
	o.mu.Lock()
	o.signals++
	first := o.signals == 1
	o.mu.Unlock()
	if first {
		o.give(orderDrain)
	} else {
		o.give(orderReleaseAll)
	}
}

func (o *orders) now() order {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.given
}

// stopPhase is where a worker is on its way to the end.
type stopPhase int

const (
	// notStopping: it works.
	notStopping stopPhase = iota
	// draining: handlers run to their end; no job is started.
	draining
	// cancelling: handlers were told to stop, and may end by themselves.
	cancelling
	// releasing: what ends is released; what does not is left.
	releasing
)

// stop is the phase, and when the next one is due.
type stop struct {
	phase stopPhase
	until time.Time
}

func (s stop) isStopping() bool { return s.phase != notStopping }

func (s stop) isDue(now time.Time) bool { return s.isStopping() && !s.until.After(now) }
