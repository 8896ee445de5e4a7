package keyworktest_test

import (
	"context"
	"fmt"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
)

// The context is cancelled as a worker does it, while the handler runs.
func ExampleRunOnce() {
	for _, cause := range []error{keywork.ErrWorkerShutdown, keywork.ErrLeaseLost} {
		ctx, cancel := context.WithCancelCause(context.Background())
		started := make(chan struct{})
		handle := func(ctx context.Context, _ *keywork.Job) error {
			close(started)
			<-ctx.Done()
			return ctx.Err()
		}
		go func() {
			<-started
			cancel(cause)
		}()
		fmt.Println(keyworktest.RunOnce(ctx, handle, keyworktest.Job("mail", "user-7")))
	}
	// Output:
	// release
	// dropped
}
