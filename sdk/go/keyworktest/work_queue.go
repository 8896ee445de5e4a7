package keyworktest

import (
	"context"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// Pull leases jobs without a stream.
func (s *Server) Pull(ctx context.Context, request *keyworkv1.PullRequest) (*keyworkv1.PullResponse, error) {
	wait := 20 * time.Second
	if request.GetWait() != nil {
		wait = request.GetWait().AsDuration()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	most := max(int(request.GetMaxJobs()), 1)
	for {
		s.mu.Lock()
		deliveries := s.state.lease([]string{request.GetQueue()}, most, 0, request.GetWorkerId())
		changed := s.changed
		s.mu.Unlock()
		if len(deliveries) > 0 {
			return &keyworkv1.PullResponse{Deliveries: deliveries}, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return &keyworkv1.PullResponse{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Heartbeat extends leases.
func (s *Server) Heartbeat(
	_ context.Context, request *keyworkv1.HeartbeatRequest,
) (*keyworkv1.HeartbeatResponse, error) {
	response := new(keyworkv1.HeartbeatResponse)
	s.change(func(state *state) {
		for _, token := range request.GetLeaseTokens() {
			result := &keyworkv1.HeartbeatResult{LeaseToken: token}
			if deadline, held := state.extend(string(token)); held {
				result.TimeLeft = left(deadline, time.Now())
			} else {
				result.Lost = keyworkv1.LostReason_LOST_REASON_EXPIRED
			}
			response.Results = append(response.Results, result)
		}
	})
	return response, nil
}

// Ack settles leases.
func (s *Server) Ack(_ context.Context, request *keyworkv1.AckRequest) (*keyworkv1.AckResponse, error) {
	response := new(keyworkv1.AckResponse)
	s.change(func(state *state) {
		for _, settlement := range request.GetSettlements() {
			response.Results = append(response.Results, state.settle(settlement))
		}
	})
	return response, nil
}

// GetJob gives the outstanding job of a key.
func (s *Server) GetJob(_ context.Context, request *keyworkv1.GetJobRequest) (*keyworkv1.GetJobResponse, error) {
	job := s.Outstanding(request.GetQueue(), request.GetKey())
	if job == nil {
		return nil, RefusalOf(codes.NotFound, keywork.ReasonJobNotFound, "the key has no outstanding job").Err()
	}
	return &keyworkv1.GetJobResponse{Job: job}, nil
}

// ListJobs is not served yet.
func (s *Server) ListJobs(context.Context, *keyworkv1.ListJobsRequest) (*keyworkv1.ListJobsResponse, error) {
	return nil, notServed()
}

// CancelJob is not served yet.
func (s *Server) CancelJob(context.Context, *keyworkv1.CancelJobRequest) (*keyworkv1.CancelJobResponse, error) {
	return nil, notServed()
}

// WatchJobs is not served yet.
func (s *Server) WatchJobs(
	*keyworkv1.WatchJobsRequest, grpc.ServerStreamingServer[keyworkv1.WatchJobsResponse],
) error {
	return notServed()
}

// ListDeadJobs gives dead letters. A page token is the id of the last one that was given.
func (s *Server) ListDeadJobs(
	_ context.Context, request *keyworkv1.ListDeadJobsRequest,
) (*keyworkv1.ListDeadJobsResponse, error) {
	// A token that is none of ours begins anew.
	last, _ := strconv.ParseUint(request.GetPageToken(), 10, 64)
	jobs := slices.DeleteFunc(s.Dead(request.GetQueue()), func(dead *keyworkv1.DeadJob) bool {
		isOther := request.GetKey() != "" && dead.GetJob().GetKey() != request.GetKey()
		return isOther || dead.GetDeadId() <= last
	})
	page, more := pageOf(jobs, request.GetPageSize(), "")
	response := &keyworkv1.ListDeadJobsResponse{Jobs: page}
	if more != "" {
		response.NextPageToken = strconv.FormatUint(page[len(page)-1].GetDeadId(), 10)
	}
	return response, nil
}

// RedriveDeadJobs submits dead letters again.
func (s *Server) RedriveDeadJobs(
	_ context.Context, request *keyworkv1.RedriveDeadJobsRequest,
) (*keyworkv1.RedriveDeadJobsResponse, error) {
	results := changedWith(s, func(state *state) []*keyworkv1.RedriveResult { return state.redrive(request) })
	return &keyworkv1.RedriveDeadJobsResponse{Results: results}, nil
}

func (s *state) redrive(request *keyworkv1.RedriveDeadJobsRequest) []*keyworkv1.RedriveResult {
	ids := request.GetDeadIds()
	if len(ids) == 0 {
		most := int(request.GetMaxJobs())
		if most == 0 {
			most = 100
		}
		for _, dead := range s.deadOf(request.GetQueue()) {
			if len(ids) < most {
				ids = append(ids, dead.GetDeadId())
			}
		}
	}
	var results []*keyworkv1.RedriveResult
	for _, id := range ids {
		results = append(results, s.redriveOne(request.GetQueue(), id))
	}
	return results
}

func (s *state) redriveOne(name string, id uint64) *keyworkv1.RedriveResult {
	dead := s.queue(name).dead[id]
	if dead == nil {
		refusal := RefusalOf(codes.NotFound, keywork.ReasonDeadJobNotFound, "there is no such dead letter")
		return &keyworkv1.RedriveResult{DeadId: id, Result: verdict{refusal: refusal}.ofMany()}
	}
	job := dead.GetJob()
	verdict := s.submit(&keyworkv1.SubmitRequest{
		Queue:       job.GetQueue(),
		Key:         job.GetKey(),
		Payload:     job.GetPayload(),
		ContentType: job.GetContentType(),
		Attributes:  job.GetAttributes(),
		MaxAttempts: job.GetMaxAttempts(),
	})
	if verdict.response.GetOutcome() == keyworkv1.SubmitOutcome_SUBMIT_OUTCOME_CREATED {
		delete(s.queues[name].dead, id)
	}
	return &keyworkv1.RedriveResult{DeadId: id, Result: verdict.ofMany()}
}

// DeleteDeadJobs deletes dead letters.
func (s *Server) DeleteDeadJobs(
	_ context.Context, request *keyworkv1.DeleteDeadJobsRequest,
) (*keyworkv1.DeleteDeadJobsResponse, error) {
	response := new(keyworkv1.DeleteDeadJobsResponse)
	s.change(func(state *state) {
		queue := state.queue(request.GetQueue())
		for id := range queue.dead {
			if request.GetAll() || slices.Contains(request.GetDeadIds(), id) {
				delete(queue.dead, id)
				response.Deleted++
			}
		}
	})
	return response, nil
}
