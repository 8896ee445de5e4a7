// Stops cleanly: the first signal drains, the second gives everything back and exits non-zero.
package main

import (
	"context"
	"log"
	"time"

	keywork "github.com/keywork/keywork/sdk/go"
)

func sync(ctx context.Context, job *keywork.Job) error {
	log.Printf("started %s", job.Key)
	select {
	case <-time.After(10 * time.Second):
		log.Printf("finished %s", job.Key)
		return nil
	case <-ctx.Done():
		// After the grace: the job goes back, at no attempt's cost.
		return context.Cause(ctx)
	}
}

func main() {
	worker := keywork.NewWorker(keywork.MustClient(keywork.EndpointsFromEnv()...), sync, keywork.WorkerOptions{
		Queues:      keywork.Queues("sync"),
		Concurrency: 8,
		// Less than what the orchestrator waits before it kills.
		ShutdownGrace: 25 * time.Second,
	})
	if err := worker.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
