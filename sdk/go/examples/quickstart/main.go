package main

import (
	"context"
	"log"

	keywork "github.com/keywork/keywork/sdk/go"
)

func main() {
	ctx, client := context.Background(), keywork.MustClient(keywork.EndpointsFromEnv()...)
	if _, err := client.Submit(ctx, keywork.Submit{Queue: "reconcile", Key: "cluster-eu-1"}); err != nil {
		log.Fatal(err)
	}
	handle := func(_ context.Context, job *keywork.Job) error { log.Println(job.Key, job.Attempt); return nil }
	worker := keywork.NewWorker(client, handle, keywork.WorkerOptions{Queues: keywork.Queues("reconcile")})
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
