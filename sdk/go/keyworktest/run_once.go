package keyworktest

import (
	"context"
	"time"

	"github.com/google/uuid"

	keywork "github.com/keywork/keywork/sdk/go"
)

// RunOnce runs a handler on one job, and tells what a worker would settle. No server is needed, and the handler runs in
// the caller's goroutine. It is like handler.Run, for functions that are not a [keywork.Handler] by name.
//
// The context may be cancelled as a worker does it, at any time, from the test or from the handler:
//
//	ctx, cancel := context.WithCancelCause(t.Context())
//	cancel(keywork.ErrLeaseLost)
//
// After [keywork.ErrLeaseLost] and [keywork.ErrJobCancelled] the outcome is [keywork.OutcomeDropped], whatever the
// handler returns; after [keywork.ErrWorkerShutdown] an ordinary error is [keywork.OutcomeRelease].
func RunOnce(
	ctx context.Context, handler func(context.Context, *keywork.Job) error, job *keywork.Job,
) keywork.Outcome {
	return keywork.Handler(handler).Run(ctx, job)
}

// Job is a job for [RunOnce]: its first attempt, without a payload, and with an hour until its Deadline.
func Job(queue, key string) *keywork.Job {
	return &keywork.Job{
		ID:            uuid.NewString(),
		Queue:         queue,
		Key:           key,
		State:         keywork.JobStateLeased,
		Attempt:       1,
		MaxAttempts:   10,
		FencingNumber: 1,
		LeaseDeadline: time.Now().Add(time.Hour),
	}
}
