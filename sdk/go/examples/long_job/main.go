// A job that takes longer than its lease: heartbeats are sent for it, and it stops when the lease is lost.
package main

import (
	"context"
	"log"
	"strconv"
	"time"

	keywork "github.com/keywork/keywork/sdk/go"
)

func rebuild(ctx context.Context, job *keywork.Job) error {
	steps, err := strconv.Atoi(string(job.Payload))
	if err != nil {
		return keywork.Fail("the payload is no number of steps: " + err.Error())
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for step := range steps {
		select {
		case <-second.C:
		// Somebody else may be about to run this job: leave everything as it is.
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		// What is written carries the fencing number, so that a late write of an older lease can be refused.
		log.Printf("%s step %d, fencing number %d", job.Key, step, job.FencingNumber)
	}
	return nil
}

func main() {
	worker := keywork.NewWorker(keywork.MustClient(keywork.EndpointsFromEnv()...), rebuild, keywork.WorkerOptions{
		Queues: keywork.Queues("rebuild"),
	})
	if err := worker.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
