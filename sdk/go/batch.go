package keywork

import (
	"context"
	"time"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// SubmitBatch offers up to 1,000 jobs in one call, and answers in their order. A bad one spoils no other. While
// servers are away the call is repeated, with the same RequestIDs. The error is of the call as a whole.
//
// For more of them, or without waiting for the slowest: [Client.SubmitMany].
func (c *Client) SubmitBatch(ctx context.Context, submits []Submit) ([]SubmitResult, error) {
	offers := make([]*offer, len(submits))
	request := new(keyworkv1.SubmitBatchRequest)
	for i, submit := range submits {
		offers[i] = c.offer(ctx, submit)
		if offers[i].wrong == nil {
			request.Items = append(request.Items, offers[i].request)
		}
	}
	if len(request.Items) == 0 {
		return readBatch(offers, nil), nil
	}
	response, err := untilAnswered(ctx, c, func(limit time.Duration) (*keyworkv1.SubmitBatchResponse, *Error) {
		return call(ctx, limit, request, c.work.SubmitBatch)
	})
	if err != nil {
		for _, offer := range offers {
			_, _ = offer.end(Submitted{}, err)
		}
		return nil, err
	}
	return readBatch(offers, response.GetResults()), nil
}

// readBatch pairs the offers that were sent with their results.
func readBatch(offers []*offer, wire []*keyworkv1.SubmitResult) []SubmitResult {
	results := make([]SubmitResult, len(offers))
	for i, offer := range offers {
		if offer.wrong != nil {
			results[i] = offer.endAsResult(Submitted{}, offer.wrong)
			continue
		}
		var result *keyworkv1.SubmitResult
		if len(wire) > 0 {
			result, wire = wire[0], wire[1:]
		}
		results[i] = offer.endAsResult(offer.readItem(result))
	}
	return results
}
