// How a program that uses Keywork is tested: a handler by itself, and the whole against a server in the process.
package main

import (
	"context"
	"errors"
	"log"
	"slices"
	"time"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
)

func handle(_ context.Context, job *keywork.Job) error {
	if len(job.Payload) == 0 {
		return keywork.Fail("the payload is empty")
	}
	return nil
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(theHandlerAlone(ctx), theWhole(ctx)); err != nil {
		log.Fatal(err)
	}
	log.Print("all is well")
}

func theHandlerAlone(ctx context.Context) error {
	outcome := keyworktest.RunOnce(ctx, handle, keyworktest.Job("mail", "user-7"))
	if outcome.Kind != keywork.OutcomeFail || outcome.Error != "the payload is empty" {
		return errors.New("an empty payload must fail")
	}
	return nil
}

func theWhole(ctx context.Context) error {
	// In a test: server := keyworktest.NewServer(t, keyworktest.Options{}).
	server, err := keyworktest.Start(keyworktest.Options{})
	if err != nil {
		return err
	}
	defer server.Close()
	client := server.Client()
	submit := keywork.Submit{Queue: "mail", Key: "user-7", Payload: []byte("hello")}
	if _, err := client.Submit(ctx, submit); err != nil {
		return err
	}
	worker := keywork.NewWorker(client, handle, keywork.WorkerOptions{Queues: keywork.Queues("mail")})
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	_, waited := server.WaitUntil(ctx, func(seen keyworktest.Seen) bool {
		return slices.Equal(seen.Settled(keywork.OutcomeComplete), []string{"user-7"})
	})
	worker.Drain()
	return errors.Join(waited, <-ended, client.Close())
}
