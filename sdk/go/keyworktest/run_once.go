package keyworktest

import (
	"context"

	"github.com/google/uuid"

	keywork "github.com/keywork/keywork/sdk/go"
)

// RunOnce runs a handler on one job, with a lease that lasts, and tells how it ended. No server is needed. It is like
// handler.Run, for functions that are not a [keywork.Handler] by name.
func RunOnce(
	ctx context.Context, handler func(context.Context, *keywork.Job) error, job *keywork.Job,
) keywork.Outcome {
	return keywork.Handler(handler).Run(ctx, job)
}

// Job is a job for [RunOnce]: its first attempt, without a payload.
func Job(queue, key string) *keywork.Job {
	return &keywork.Job{
		ID:            uuid.NewString(),
		Queue:         queue,
		Key:           key,
		State:         keywork.JobStateLeased,
		Attempt:       1,
		MaxAttempts:   10,
		FencingNumber: 1,
	}
}
