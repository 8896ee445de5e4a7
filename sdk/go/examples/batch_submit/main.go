// Offers many jobs on one stream, and tells what became of each.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	keywork "github.com/keywork/keywork/sdk/go"
)

func main() {
	client := keywork.MustClient(keywork.EndpointsFromEnv()...)
	submits := make([]keywork.Submit, 10_000)
	for number := range submits {
		submits[number] = keywork.Submit{Queue: "reindex", Key: fmt.Sprintf("document-%d", number)}
	}

	var accepted, busy, failed int
	for _, result := range client.SubmitMany(context.Background(), submits) {
		var refused *keywork.Error
		switch {
		case errors.As(result.Err, &refused):
			failed++
			log.Printf("%v (may be retried: %v)", refused, refused.IsRetryable())
		case result.Accepted():
			accepted++
		default:
			busy++
		}
	}
	log.Printf("accepted %d, busy %d, failed %d", accepted, busy, failed)
}
