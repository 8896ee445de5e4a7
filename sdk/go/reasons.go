package keywork

import "errors"

// Reason is the stable name of what went wrong, as [Error.Reason] gives it. A server may know more than the ones here:
// treat one that is not here by its [Error.Code].
type Reason string

// ReasonOf is the reason of an error that is, or wraps, an [*Error]; empty for any other, and for nil.
func ReasonOf(err error) Reason {
	var own *Error
	if errors.As(err, &own) {
		return own.reason
	}
	return ""
}

// What can go wrong.
const (
	// ReasonInvalidField: a field is malformed or breaks a limit; see [Error.Violations].
	ReasonInvalidField Reason = "INVALID_FIELD"
	// ReasonQueueNotFound: there is no queue of that name.
	ReasonQueueNotFound Reason = "QUEUE_NOT_FOUND"
	// ReasonJobNotFound: the key has no outstanding job.
	ReasonJobNotFound Reason = "JOB_NOT_FOUND"
	// ReasonDeadJobNotFound: there is no such dead letter.
	ReasonDeadJobNotFound Reason = "DEAD_JOB_NOT_FOUND"
	// ReasonKeyBusy: the key has an outstanding job, and the submit asked for an error in that case.
	ReasonKeyBusy Reason = "KEY_BUSY"
	// ReasonQueueExists: there is a queue of that name with another configuration.
	ReasonQueueExists Reason = "QUEUE_EXISTS"
	// ReasonQueueNotEmpty: the queue still holds jobs or dead letters.
	ReasonQueueNotEmpty Reason = "QUEUE_NOT_EMPTY"
	// ReasonQueueDrifted: the queue's stream or consumer was changed in NATS so that a promise would break.
	ReasonQueueDrifted Reason = "QUEUE_DRIFTED"
	// ReasonQueueFull: the queue is at its limit of outstanding jobs.
	ReasonQueueFull Reason = "QUEUE_FULL"
	// ReasonStorageFull: NATS has no room.
	ReasonStorageFull Reason = "STORAGE_FULL"
	// ReasonNATSUnavailable: NATS is away; nothing was sent to it.
	ReasonNATSUnavailable Reason = "NATS_UNAVAILABLE"
	// ReasonNATSNoAnswer: NATS did not answer; what was sent to it may have been stored.
	ReasonNATSNoAnswer Reason = "NATS_NO_ANSWER"
	// ReasonNATSRefused: NATS refused for a reason that the server does not know.
	ReasonNATSRefused Reason = "NATS_REFUSED"
	// ReasonServerDraining: the server is stopping.
	ReasonServerDraining Reason = "SERVER_DRAINING"
	// ReasonNotServedYet: the contract has it, the server does not yet.
	ReasonNotServedYet Reason = "NOT_SERVED_YET"
	// ReasonHelloMissing: the stream did not begin with Hello.
	ReasonHelloMissing Reason = "HELLO_MISSING"
	// ReasonHelloLate: no Hello came in time, or the stream broke before it.
	ReasonHelloLate Reason = "HELLO_LATE"
	// ReasonSessionSilent: the worker was silent for the liveness timeout.
	ReasonSessionSilent Reason = "SESSION_SILENT"
	// ReasonSessionNotReading: the worker did not read what it was sent.
	ReasonSessionNotReading Reason = "SESSION_NOT_READING"
	// ReasonSessionSuperseded: a newer session has the worker's id.
	ReasonSessionSuperseded Reason = "SESSION_SUPERSEDED"
	// ReasonSessionSentAway: the session was asked to reconnect, and its grace is over.
	ReasonSessionSentAway Reason = "SESSION_SENT_AWAY"
)
