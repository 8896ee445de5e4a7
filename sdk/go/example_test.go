package keywork_test

import (
	"context"
	"fmt"
	"log"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworktest"
)

func ExampleClient_Submit() {
	server, err := keyworktest.Start(keyworktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := keywork.MustClient(server.Endpoint())
	defer client.Close()

	for range 2 {
		submitted, err := client.Submit(context.Background(), keywork.Submit{Queue: "reconcile", Key: "cluster-eu-1"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(submitted.Outcome, submitted.Job.State)
	}
	// Output:
	// CREATED QUEUED
	// ALREADY_OUTSTANDING QUEUED
}

func ExampleOutcomeOf() {
	handle := keywork.Handler(func(_ context.Context, job *keywork.Job) error {
		return fmt.Errorf("user %s: %w", job.Key, keywork.Fail("no such user"))
	})
	outcome := handle.Run(context.Background(), keyworktest.Job("mail", "7"))
	fmt.Println(outcome.Kind, "-", outcome.Error)
	// Output: fail - user 7: no such user
}
