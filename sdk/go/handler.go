package keywork

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// Handler runs one job. Returning nil completes it; [Retry], [Fail], [Release] and [Rerun] have a meaning of their own;
// every other error, and a panic, means: try again after the job's backoff.
//
// The context is cancelled when the handler must stop its effects, and [context.Cause] says why: [ErrLeaseLost],
// [ErrJobCancelled] or [ErrWorkerShutdown].
type Handler func(ctx context.Context, job *Job) error

// Interceptor wraps every handler call: for tracing, metrics, resources. It does what is to be done around next, and
// returns its result or another.
type Interceptor func(ctx context.Context, job *Job, next Handler) error

// Why a handler is to stop, as [context.Cause] of its context says.
var (
	// ErrLeaseLost: the lease is lost, or can no longer be known to hold. What the handler returns is dropped.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrJobCancelled: the job was cancelled, or its queue purged or deleted. What the handler returns is dropped.
	ErrJobCancelled = errors.New("the job was cancelled")
	// ErrWorkerShutdown: the worker is stopping and its grace is over. What the handler returns counts; an ordinary
	// error gives the job back without costing an attempt.
	ErrWorkerShutdown = errors.New("the worker is stopping")
)

// RetryError is what [Retry] makes.
type RetryError struct {
	delay time.Duration
	cause error
}

// Retry tries the job again after this long; a time that is over counts as none.
func Retry(delay time.Duration) *RetryError { return &RetryError{delay: delay} }

// Because adds what went wrong.
func (e *RetryError) Because(cause error) *RetryError { return &RetryError{e.delay, cause} }

// Error says what went wrong, or, where that was not said, what is to happen.
func (e *RetryError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("to be tried again after %v", max(e.delay, 0))
	}
	return e.cause.Error()
}

// Unwrap gives the cause.
func (e *RetryError) Unwrap() error { return e.cause }

// FailError is what [Fail] makes.
type FailError struct{ reason string }

// Fail makes the job a dead letter now: trying again would not help, for this reason.
func Fail(reason string) error { return &FailError{reason} }

// Error is the reason.
func (e *FailError) Error() string { return e.reason }

type releaseError struct{}

func (releaseError) Error() string { return "given back" }

// Release gives the job back at once; it costs no attempt.
var Release error = releaseError{}

// RerunError is what [Rerun] makes.
type RerunError struct {
	delay   time.Duration
	payload []byte
	changed bool
}

// Rerun completes the job, and runs its key again after this long.
func Rerun(delay time.Duration) *RerunError { return &RerunError{delay: delay} }

// Payload is that of the next job. Default: the same.
func (e *RerunError) Payload(payload []byte) *RerunError { return &RerunError{e.delay, payload, true} }

// Error says what is to happen.
func (e *RerunError) Error() string { return "to run again" }

// OutcomeKind is a way in which a handler's run ends.
type OutcomeKind int

// The ways in which runs end.
const (
	// OutcomeComplete: the job is done.
	OutcomeComplete OutcomeKind = iota
	// OutcomeRetry: the attempt failed.
	OutcomeRetry
	// OutcomeRelease: the job goes back to the queue.
	OutcomeRelease
	// OutcomeFail: the job becomes a dead letter.
	OutcomeFail
	// OutcomeRerun: the job is done and its key runs again.
	OutcomeRerun
	// OutcomeDropped: nothing is settled, since the lease was lost or the job cancelled before the handler ended.
	OutcomeDropped
)

// String is the contract's word, such as "complete"; or "dropped".
func (k OutcomeKind) String() string {
	words := [...]string{"complete", "retry", "release", "fail", "rerun", "dropped"}
	if k < 0 || int(k) >= len(words) {
		return strconv.Itoa(int(k))
	}
	return words[k]
}

// Outcome is how a handler's run ended.
type Outcome struct {
	// Kind is the way.
	Kind OutcomeKind
	// Delay is the wait before the next run, of a retry that is chosen, or of a rerun.
	Delay time.Duration
	// Chosen, of a retry: the handler returned [Retry]. False: an ordinary error or a panic, and the job's backoff is
	// waited.
	Chosen bool
	// Error is what went wrong, of a retry or a fail.
	Error string
	// Payload, of a rerun: that of the next job, where PayloadChanged.
	Payload        []byte
	PayloadChanged bool
}

// String is such as "fail: no such user", for people.
func (o Outcome) String() string {
	text := o.Kind.String()
	if o.Chosen || o.Kind == OutcomeRerun {
		text += fmt.Sprintf(" after %v", o.Delay)
	}
	if o.Error != "" {
		text += ": " + o.Error
	}
	return text
}

// OutcomeOf says what a handler's result means for its job. It may be wrapped.
func OutcomeOf(err error) Outcome {
	var (
		retry *RetryError
		fail  *FailError
		rerun *RerunError
	)
	switch {
	case err == nil:
		return Outcome{Kind: OutcomeComplete}
	case errors.As(err, &retry):
		outcome := Outcome{Kind: OutcomeRetry, Delay: max(retry.delay, 0), Chosen: true}
		// Without a cause there is nothing to keep as the job's last error.
		if retry.cause != nil || err != error(retry) {
			outcome.Error = cut(err.Error())
		}
		return outcome
	case errors.As(err, &fail):
		return Outcome{Kind: OutcomeFail, Error: cut(err.Error())}
	case errors.As(err, &rerun):
		return Outcome{
			Kind: OutcomeRerun, Delay: max(rerun.delay, 0), Payload: rerun.payload, PayloadChanged: rerun.changed,
		}
	case errors.Is(err, Release):
		return Outcome{Kind: OutcomeRelease}
	default:
		return Outcome{Kind: OutcomeRetry, Error: cut(err.Error())}
	}
}

// OutcomeWithin says what a worker makes of a handler's result when the handler ends in this context: once that is
// cancelled with [ErrLeaseLost] or [ErrJobCancelled], the result is dropped; with [ErrWorkerShutdown], an ordinary error
// gives the job back.
func OutcomeWithin(ctx context.Context, err error) Outcome { return OutcomeOf(err).within(ctx) }

func (o Outcome) within(ctx context.Context) Outcome {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrLeaseLost), errors.Is(cause, ErrJobCancelled):
		return Outcome{Kind: OutcomeDropped}
	case errors.Is(cause, ErrWorkerShutdown):
		return o.afterShutdown()
	default:
		return o
	}
}

// afterShutdown: an ordinary error of a handler that was told to stop is no failure of the job.
func (o Outcome) afterShutdown() Outcome {
	if o.isFailure() {
		return Outcome{Kind: OutcomeRelease}
	}
	return o
}

// isFailure: an ordinary error, or a panic.
func (o Outcome) isFailure() bool { return o.Kind == OutcomeRetry && !o.Chosen }

// Run runs the handler on one job, and tells how that ended, also when it panics. The context may be cancelled with the
// causes that a worker has, at any time: the outcome is what the worker would settle.
func (h Handler) Run(ctx context.Context, job *Job) Outcome {
	outcome, _ := h.run(ctx, job)
	return outcome.within(ctx)
}

// run gives the outcome of what the handler returned, and where it panicked.
func (h Handler) run(ctx context.Context, job *Job) (outcome Outcome, stack []byte) {
	defer func() {
		if panicked := recover(); panicked != nil {
			outcome = Outcome{Kind: OutcomeRetry, Error: cut(fmt.Sprintf("the handler panicked: %v", panicked))}
			stack = debug.Stack()
		}
	}()
	return OutcomeOf(h(ctx, job)), nil
}

// chain wraps a handler into interceptors; the first one is the outermost.
func chain(interceptors []Interceptor, handler Handler) Handler {
	for i := len(interceptors) - 1; i >= 0; i-- {
		intercept, next := interceptors[i], handler
		handler = func(ctx context.Context, job *Job) error { return intercept(ctx, job, next) }
	}
	return handler
}

// errorBytes is the longest error text that is sent; servers keep no more.
const errorBytes = 2_048

// cut makes a text fit for the wire.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= errorBytes {
		return text
	}
	end := errorBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// settle writes the settlement of a lease.
func (o Outcome) settle(token []byte) *keyworkv1.Settlement {
	settlement := &keyworkv1.Settlement{LeaseToken: token}
	switch o.Kind {
	case OutcomeComplete:
		settlement.Outcome = &keyworkv1.Settlement_Complete{Complete: &keyworkv1.Complete{}}
	case OutcomeRetry:
		retry := &keyworkv1.Retry{Error: o.Error}
		if o.Chosen {
			retry.Delay = durationpb.New(o.Delay)
		}
		settlement.Outcome = &keyworkv1.Settlement_Retry{Retry: retry}
	case OutcomeRelease:
		settlement.Outcome = &keyworkv1.Settlement_Release{Release: &keyworkv1.Release{}}
	case OutcomeFail:
		settlement.Outcome = &keyworkv1.Settlement_Fail{Fail: &keyworkv1.Fail{Error: o.Error}}
	case OutcomeRerun:
		rerun := &keyworkv1.Rerun{Delay: durationpb.New(o.Delay)}
		if o.PayloadChanged {
			rerun.Payload = append([]byte{}, o.Payload...)
		}
		settlement.Outcome = &keyworkv1.Settlement_Rerun{Rerun: rerun}
	}
	return settlement
}
