package keyworktest

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// RefusalOf is a status with a stable reason, as Keywork's servers write it.
func RefusalOf(code codes.Code, reason keywork.Reason, message string) *status.Status {
	return detailed(code, message, &errdetails.ErrorInfo{Domain: "keywork.dev", Reason: string(reason)})
}

func detailed(code codes.Code, message string, details ...protoadapt.MessageV1) *status.Status {
	plain := status.New(code, message)
	// Only the code OK can have no details.
	if with, err := plain.WithDetails(details...); err == nil {
		return with
	}
	return plain
}

// badField is a refusal that names a field.
func badField(field, description string) *status.Status {
	return detailed(codes.InvalidArgument, field+": "+description,
		&errdetails.ErrorInfo{Domain: "keywork.dev", Reason: string(keywork.ReasonInvalidField)},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: field, Description: description},
		}},
	)
}

// outage is one of NATS: side effects are "none" or "unknown".
func outage(sideEffects string) *status.Status {
	reason := keywork.ReasonNATSUnavailable
	if sideEffects == "unknown" {
		reason = keywork.ReasonNATSNoAnswer
	}
	return RefusalOf(codes.Unavailable, reason, "NATS is away")
}

// sideEffects is what the metadata of a status says of them.
func sideEffects(st *status.Status) string {
	if st.Code() != codes.Unavailable {
		return ""
	}
	for _, detail := range st.Details() {
		if info, is := detail.(*errdetails.ErrorInfo); is && info.GetReason() == string(keywork.ReasonNATSNoAnswer) {
			return "unknown"
		}
	}
	return "none"
}

// refuse ends a unary call with a status, and the metadata that belongs to it.
func refuse(ctx context.Context, st *status.Status) error {
	if said := sideEffects(st); said != "" {
		// Only a call that is over already has no trailer.
		_ = grpc.SetTrailer(ctx, metadata.Pairs("side_effects", said))
	}
	return st.Err()
}

func notServed() error {
	return RefusalOf(codes.Unimplemented, keywork.ReasonNotServedYet, "not served yet").Err()
}

// itemOf is what the status of a unary call says, for one item of a batch.
func itemOf(st *status.Status) *keyworkv1.ItemError {
	item := &keyworkv1.ItemError{
		Code: int32(st.Code()), Message: st.Message(), SideEffectsUnknown: sideEffects(st) == "unknown",
	}
	for _, detail := range st.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			item.Reason = detail.GetReason()
		case *errdetails.BadRequest:
			item.Field = detail.GetFieldViolations()[0].GetField()
		}
	}
	if st.Code() == codes.Unavailable {
		item.RetryAfter = durationpb.New(10 * time.Millisecond)
	}
	return item
}

// left is how long until then.
func left(deadline, now time.Time) *durationpb.Duration {
	return durationpb.New(max(deadline.Sub(now), 0))
}
