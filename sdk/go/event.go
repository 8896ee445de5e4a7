package keywork

import (
	"sync/atomic"
	"time"
)

// Event is something that a worker's owner may want to count or alarm on: one of the types below. Most of them are in
// the worker's log too; see [WorkerOptions.Logger].
type Event interface{ isEvent() }

// ConnectingEvent: the worker is about to connect to this server.
type ConnectingEvent struct{ Endpoint string }

// ReadyEvent: its session with this server is open; it is served.
type ReadyEvent struct{ Endpoint string }

// DegradedEvent: its session with this server broke, or could not be opened. Running handlers go on while their leases
// hold, and it reconnects.
type DegradedEvent struct {
	Endpoint string
	Err      error
}

// DrainingEvent: it takes no more jobs and finishes what runs.
type DrainingEvent struct{}

// StoppedEvent: it has stopped.
type StoppedEvent struct {
	// Abandoned is how many handlers were still running and were left behind. Their leases run out by themselves.
	Abandoned int
	// Unconfirmed is how many results of handlers no server has confirmed. Their jobs run again when their leases are over,
	// unless a server has taken the results all the same. Releases are not counted: those jobs are to run again.
	Unconfirmed int
}

// LeaseLostEvent: a lease was lost before its handler ended; what the handler returns is dropped.
type LeaseLostEvent struct {
	Queue, Key    string
	FencingNumber uint64
	// Reason is [LostReasonUnknown] where the worker itself could no longer be sure of the lease.
	Reason LostReason
}

// SettledEvent: a settlement was answered: [Settled], [AlreadySettled], or, where it came too late, [LeaseLost] or
// [InvalidLease].
type SettledEvent struct {
	Queue, Key    string
	JobID         string
	FencingNumber uint64
	Outcome       SettlementOutcome
}

// HandlerIgnoresCancellationEvent: a handler still runs although it was cancelled so long ago. It keeps its slot.
type HandlerIgnoresCancellationEvent struct {
	Queue, Key    string
	FencingNumber uint64
	CancelledFor  time.Duration
}

// SettlementRejectedEvent: a settlement was refused; the job is tried again instead.
type SettlementRejectedEvent struct {
	Queue, Key    string
	FencingNumber uint64
	Err           error
}

// FailedEvent: the worker ends with this error, as Run returns it.
type FailedEvent struct{ Err error }

func (ConnectingEvent) isEvent()                 {}
func (ReadyEvent) isEvent()                      {}
func (DegradedEvent) isEvent()                   {}
func (DrainingEvent) isEvent()                   {}
func (StoppedEvent) isEvent()                    {}
func (LeaseLostEvent) isEvent()                  {}
func (SettledEvent) isEvent()                    {}
func (HandlerIgnoresCancellationEvent) isEvent() {}
func (SettlementRejectedEvent) isEvent()         {}
func (FailedEvent) isEvent()                     {}

// Counts are what a worker has done since it was made.
type Counts struct {
	// Started handlers.
	Started uint64
	// Settled leases: those whose settlement was confirmed.
	Settled uint64
	// LeasesLost before they were settled.
	LeasesLost uint64
	// DroppedResults of handlers that came after their lease was lost.
	DroppedResults uint64
	// Sessions that were opened.
	Sessions uint64
}

type counters struct{ started, settled, leasesLost, droppedResults, sessions atomic.Uint64 }

func (c *counters) read() Counts {
	return Counts{
		Started:        c.started.Load(),
		Settled:        c.settled.Load(),
		LeasesLost:     c.leasesLost.Load(),
		DroppedResults: c.droppedResults.Load(),
		Sessions:       c.sessions.Load(),
	}
}
