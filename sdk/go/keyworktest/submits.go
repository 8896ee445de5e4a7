package keyworktest

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// verdict is how a submit is to be answered.
type verdict struct {
	response *keyworkv1.SubmitResponse
	refusal  *status.Status
	// breaks: the stream breaks.
	breaks bool
}

func (v verdict) ofMany() *keyworkv1.SubmitResult {
	if v.refusal != nil {
		return &keyworkv1.SubmitResult{Result: &keyworkv1.SubmitResult_Error{Error: itemOf(v.refusal)}}
	}
	return &keyworkv1.SubmitResult{Result: &keyworkv1.SubmitResult_Response{Response: v.response}}
}

// submit offers one job, with the fault that the script has for it.
func (s *state) submit(request *keyworkv1.SubmitRequest) verdict {
	s.seen.Submits = append(s.seen.Submits, request.GetRequestId())
	var fault SubmitFault
	if faults := s.script.SubmitFaults; len(faults) > 0 {
		fault, s.script.SubmitFaults = faults[0], faults[1:]
	}
	switch fault.kind {
	case unavailable:
		return verdict{refusal: outage("none")}
	case refused:
		return verdict{refusal: fault.refusal}
	case answerLost, broken:
		s.submitTruly(request)
		return verdict{refusal: outage("unknown"), breaks: fault.kind == broken}
	default:
		return s.submitTruly(request)
	}
}

func (s *state) submitTruly(request *keyworkv1.SubmitRequest) verdict {
	if refusal := check(request); refusal != nil {
		return verdict{refusal: refusal}
	}
	queue := s.queue(request.GetQueue())
	if job := queue.accepted[request.GetRequestId()]; job != nil {
		return answered(keyworkv1.SubmitOutcome_SUBMIT_OUTCOME_DUPLICATE, job)
	}
	if entry := queue.jobs[request.GetKey()]; entry != nil {
		if request.GetOnConflict() == keyworkv1.OnConflict_ON_CONFLICT_FAIL {
			return verdict{refusal: RefusalOf(codes.AlreadyExists, keywork.ReasonKeyBusy, "the key is busy")}
		}
		return answered(keyworkv1.SubmitOutcome_SUBMIT_OUTCOME_ALREADY_OUTSTANDING, entry.job)
	}
	job := s.accept(request, delayOf(request))
	return answered(keyworkv1.SubmitOutcome_SUBMIT_OUTCOME_CREATED, job)
}

func check(request *keyworkv1.SubmitRequest) *status.Status {
	if request.GetQueue() == "" {
		return badField("queue", "must not be empty")
	}
	if length := len(request.GetKey()); length == 0 || length > 512 {
		return badField("key", "must have 1 to 512 bytes")
	}
	return nil
}

func delayOf(request *keyworkv1.SubmitRequest) time.Duration {
	if request.GetStartAt() != nil {
		return until(request.GetStartAt().AsTime())
	}
	return request.GetDelay().AsDuration()
}

// answered names the job without its payload.
func answered(outcome keyworkv1.SubmitOutcome, job *keyworkv1.Job) verdict {
	named := proto.CloneOf(job)
	named.Payload = nil
	return verdict{response: &keyworkv1.SubmitResponse{Outcome: outcome, Job: named}}
}

// Submit offers one job.
func (s *Server) Submit(ctx context.Context, request *keyworkv1.SubmitRequest) (*keyworkv1.SubmitResponse, error) {
	verdict := changedWith(s, func(state *state) verdict { return state.submit(request) })
	if verdict.refusal != nil {
		return nil, refuse(ctx, verdict.refusal)
	}
	return verdict.response, nil
}

// SubmitBatch offers several.
func (s *Server) SubmitBatch(
	_ context.Context, request *keyworkv1.SubmitBatchRequest,
) (*keyworkv1.SubmitBatchResponse, error) {
	response := new(keyworkv1.SubmitBatchResponse)
	s.change(func(state *state) {
		for _, item := range request.GetItems() {
			response.Results = append(response.Results, state.submit(item).ofMany())
		}
	})
	return response, nil
}

// SubmitStream offers as many as come.
func (s *Server) SubmitStream(
	stream grpc.BidiStreamingServer[keyworkv1.SubmitStreamRequest, keyworkv1.SubmitStreamResponse],
) error {
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			// The client's half has ended.
			return nil
		}
		response, breaks := s.offers(message.GetOffers())
		if err := stream.Send(response); err != nil {
			return err
		}
		if breaks {
			return status.Error(codes.Unavailable, "the connection broke")
		}
	}
}

// offers gives the results up to the first offer that breaks the stream.
func (s *Server) offers(offers []*keyworkv1.SubmitOffer) (response *keyworkv1.SubmitStreamResponse, breaks bool) {
	response = new(keyworkv1.SubmitStreamResponse)
	s.change(func(state *state) {
		for _, offer := range offers {
			verdict := state.submit(offer.GetSubmit())
			if verdict.breaks {
				breaks = true
				return
			}
			response.Results = append(response.Results, &keyworkv1.SubmitOfferResult{
				CorrelationId: offer.GetCorrelationId(), Result: verdict.ofMany(),
			})
		}
	})
	return response, breaks
}
