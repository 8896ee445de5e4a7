package keywork

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// Error is a call that failed: a refusal, a server that could not, or a connection that broke. Reach it by
// [errors.As]. That a key is busy is no error: see [Submitted].
//
// Where the caller's own context ended the call, [errors.Is] finds [context.Canceled] or [context.DeadlineExceeded].
type Error struct {
	code            codes.Code
	message         string
	reason          Reason
	violations      []Violation
	retryAfter      time.Duration
	nothingHappened bool
	broken          bool
	cause           error
}

// Violation is one field at fault.
type Violation struct {
	// Field is its path in the request, such as "items[3].key".
	Field string
	// Description says what is wrong with it, naming the limit.
	Description string
}

// Code is the gRPC code.
func (e *Error) Code() codes.Code { return e.code }

// Message is what the server said, for people.
func (e *Error) Message() string { return e.message }

// Reason is the stable name of what went wrong, or empty where none was given.
func (e *Error) Reason() Reason { return e.reason }

// Violations are the fields at fault, where the request was refused for them.
func (e *Error) Violations() []Violation { return e.violations }

// RetryAfter is when the server thinks that trying again can help; 0 where it did not say.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// IsRetryable says whether the same call may succeed later. Repeat a submit with the same RequestID.
func (e *Error) IsRetryable() bool {
	if e.isOutage() || e.retryAfter > 0 {
		return true
	}
	switch e.code {
	case codes.ResourceExhausted, codes.Aborted, codes.DeadlineExceeded:
		return e.reason != ReasonSessionSuperseded
	default:
		return false
	}
}

// HasNoSideEffects says whether it is sure that nothing was stored or changed by the call.
func (e *Error) HasNoSideEffects() bool { return e.nothingHappened }

// GRPCStatus makes the status package understand the error.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.code, e.Error()) }

// Unwrap gives the error of the caller's context, where that ended the call.
func (e *Error) Unwrap() error { return e.cause }

// Error says what went wrong, for people.
func (e *Error) Error() string {
	text := e.message
	if text == "" {
		text = e.code.String()
	}
	if e.reason != "" {
		text += " [" + string(e.reason) + "]"
	}
	for _, violation := range e.violations {
		if !strings.Contains(e.message, violation.Description) {
			text += "; " + violation.Field + ": " + violation.Description
		}
	}
	return text
}

// isOutage says that the server or the way to it is away: what this package retries by itself.
func (e *Error) isOutage() bool { return e.broken || e.code == codes.Unavailable }

// localError is one that this side found before anything was sent.
func localError(code codes.Code, format string, args ...any) *Error {
	return &Error{code: code, message: fmt.Sprintf(format, args...), nothingHappened: true}
}

// unanswered is a call that got no answer in time.
func unanswered(message string) *Error {
	return &Error{code: codes.DeadlineExceeded, message: message, broken: true}
}

// withDoubt is the same error, where an earlier try of the same call may have had an effect.
func (e *Error) withDoubt(doubt bool) *Error {
	if !doubt || !e.nothingHappened {
		return e
	}
	doubted := *e
	doubted.nothingHappened = false
	return &doubted
}

// ofContext is the end of a call by the caller's context.
func ofContext(ctx context.Context, sent bool) *Error {
	code := codes.Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = codes.DeadlineExceeded
	}
	return &Error{code: code, message: ctx.Err().Error(), nothingHappened: !sent, cause: ctx.Err()}
}

// itemError is the error of one item of a batch.
func itemError(item *keyworkv1.ItemError) *Error {
	e := &Error{
		code:            codes.Code(item.GetCode()),
		message:         item.GetMessage(),
		reason:          Reason(item.GetReason()),
		retryAfter:      toDuration(item.GetRetryAfter()),
		nothingHappened: !item.GetSideEffectsUnknown(),
	}
	if item.GetField() != "" {
		description := strings.TrimPrefix(item.GetMessage(), item.GetField()+": ")
		e.violations = []Violation{{Field: item.GetField(), Description: description}}
	}
	return e
}

// answer is what is known of a failed call beside its status.
type answer struct {
	// trailer of the answer, where the server says whether anything happened.
	trailer metadata.MD
	// sent: the request left this process.
	sent bool
	// told: the server said the status, or something before it.
	told bool
}

// errorOf reads the status with which a call failed.
func errorOf(err error, of answer) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	st := status.Convert(err)
	e := &Error{code: st.Code(), message: st.Message()}
	for _, detail := range st.Details() {
		e.readDetail(detail)
	}
	e.broken = isBroken(e, of)
	e.nothingHappened = nothingHappened(e, of)
	return e
}

func (e *Error) readDetail(detail any) {
	switch detail := detail.(type) {
	case *errdetails.ErrorInfo:
		e.reason = Reason(detail.GetReason())
	case *errdetails.RetryInfo:
		e.retryAfter = toDuration(detail.GetRetryDelay())
	case *errdetails.BadRequest:
		for _, violation := range detail.GetFieldViolations() {
			e.violations = append(e.violations, Violation{violation.GetField(), violation.GetDescription()})
		}
	}
}

// isBroken says whether the connection broke under the call, or never was. Errors of the server carry a reason; a status
// without one, of a server that has said nothing, was made on this side or by a proxy.
func isBroken(e *Error, of answer) bool {
	switch e.code {
	case codes.Unavailable:
		return true
	case codes.Unknown, codes.Canceled, codes.Internal, codes.DeadlineExceeded:
		return e.reason == "" && of.sent && !of.told
	default:
		return false
	}
}

// nothingHappened is the server's word where it gave one; otherwise what the code implies.
func nothingHappened(e *Error, of answer) bool {
	if said := of.trailer.Get("side_effects"); len(said) > 0 {
		return said[0] == "none"
	}
	return !of.sent || isRefusal(e.code)
}

// isRefusal says whether a server turns a request away with this code before it acts on it.
func isRefusal(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.ResourceExhausted, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return true
	default:
		return false
	}
}
