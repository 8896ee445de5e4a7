package keywork

import (
	"sync"
	"time"
)

// endsWithin is how long the last events and log entries may take when the worker ends.
const endsWithin = time.Second

// courier tells a worker's owner what happens, one event after another, in a goroutine of its own: an OnEvent that is
// slow, stuck or panics never holds up the one that keeps the leases alive.
type courier struct {
	onEvent func(Event)
	bell    chan struct{}
	done    chan struct{}

	mu sync.Mutex
	// waiting has no bound: whoever counts events needs each of them, and there are at most a few for each job.
	waiting []Event
	closed  bool
}

// openCourier gives one that tells nobody where nobody listens.
func openCourier(onEvent func(Event)) *courier {
	c := &courier{onEvent: onEvent, bell: make(chan struct{}, 1), done: make(chan struct{})}
	if onEvent == nil {
		close(c.done)
	} else {
		go c.run()
	}
	return c
}

func (c *courier) tell(event Event) {
	if c.onEvent == nil {
		return
	}
	c.mu.Lock()
	c.waiting = append(c.waiting, event)
	c.mu.Unlock()
	ring(c.bell)
}

// close tells what is left, unless that takes too long; it goes on all the same.
func (c *courier) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	ring(c.bell)
	waitFor(c.done, endsWithin)
}

func (c *courier) run() {
	defer close(c.done)
	for range c.bell {
		c.mu.Lock()
		events, closed := c.waiting, c.closed
		c.waiting = nil
		c.mu.Unlock()
		for _, event := range events {
			c.hand(event)
		}
		if closed {
			return
		}
	}
}

// hand hands one event over. What a callback does wrong must not end the program.
func (c *courier) hand(event Event) {
	defer func() { _ = recover() }()
	c.onEvent(event)
}

// waitFor waits until something is done, but no longer than this.
func waitFor(done <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
