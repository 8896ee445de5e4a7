package keyworktest

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

func describe(name string, queue *queue) *keyworkv1.Queue {
	return &keyworkv1.Queue{
		Name:     name,
		Config:   proto.CloneOf(queue.config),
		Paused:   queue.paused,
		Replicas: 1,
		Stats: &keyworkv1.QueueStats{
			Outstanding: uint64(len(queue.jobs)), Ready: uint64(len(queue.ready)), Dead: uint64(len(queue.dead)),
		},
	}
}

// with does something to a queue that is there, and describes it.
func (s *Server) with(name string, do func(*state, *queue)) (described *keyworkv1.Queue, err error) {
	s.change(func(state *state) {
		queue := state.queues[name]
		if queue == nil {
			err = RefusalOf(codes.NotFound, keywork.ReasonQueueNotFound, "there is no such queue").Err()
			return
		}
		do(state, queue)
		described = describe(name, queue)
	})
	return described, err
}

// CreateQueue makes a queue.
func (s *Server) CreateQueue(
	_ context.Context, request *keyworkv1.CreateQueueRequest,
) (*keyworkv1.CreateQueueResponse, error) {
	config := request.GetConfig()
	if config == nil {
		config = new(keyworkv1.QueueConfig)
	}
	same := changedWith(s, func(state *state) bool {
		if state.queues[request.GetName()] == nil {
			state.queue(request.GetName()).config = config
		}
		return proto.Equal(state.queues[request.GetName()].config, config)
	})
	if !same {
		const text = "the queue is there with another configuration"
		return nil, RefusalOf(codes.AlreadyExists, keywork.ReasonQueueExists, text).Err()
	}
	queue, err := s.with(request.GetName(), func(*state, *queue) {})
	return &keyworkv1.CreateQueueResponse{Queue: queue}, err
}

// UpdateQueue changes the fields that the mask names.
func (s *Server) UpdateQueue(
	_ context.Context, request *keyworkv1.UpdateQueueRequest,
) (*keyworkv1.UpdateQueueResponse, error) {
	queue, err := s.with(request.GetName(), func(_ *state, queue *queue) {
		from, to := request.GetConfig().ProtoReflect(), queue.config.ProtoReflect()
		for _, path := range request.GetUpdateMask().GetPaths() {
			for i := range to.Descriptor().Fields().Len() {
				if field := to.Descriptor().Fields().Get(i); string(field.Name()) == path {
					to.Set(field, from.Get(field))
				}
			}
		}
	})
	return &keyworkv1.UpdateQueueResponse{Queue: queue}, err
}

// GetQueue gives one queue.
func (s *Server) GetQueue(
	_ context.Context, request *keyworkv1.GetQueueRequest,
) (*keyworkv1.GetQueueResponse, error) {
	queue, err := s.with(request.GetName(), func(*state, *queue) {})
	return &keyworkv1.GetQueueResponse{Queue: queue}, err
}

// ListQueues gives all queues, by name.
func (s *Server) ListQueues(
	_ context.Context, request *keyworkv1.ListQueuesRequest,
) (*keyworkv1.ListQueuesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*keyworkv1.Queue
	for _, name := range slices.Sorted(maps.Keys(s.state.queues)) {
		all = append(all, describe(name, s.state.queues[name]))
	}
	page, next := pageOf(all, request.GetPageSize(), request.GetPageToken())
	return &keyworkv1.ListQueuesResponse{Queues: page, NextPageToken: next}, nil
}

// DeleteQueue deletes a queue.
func (s *Server) DeleteQueue(
	_ context.Context, request *keyworkv1.DeleteQueueRequest,
) (*keyworkv1.DeleteQueueResponse, error) {
	var refusal error
	_, err := s.with(request.GetName(), func(state *state, queue *queue) {
		if len(queue.jobs)+len(queue.dead) > 0 && !request.GetForce() {
			const text = "the queue holds jobs or dead letters"
			refusal = RefusalOf(codes.FailedPrecondition, keywork.ReasonQueueNotEmpty, text).Err()
			return
		}
		state.purge(request.GetName())
		delete(state.queues, request.GetName())
	})
	if err == nil {
		err = refusal
	}
	return &keyworkv1.DeleteQueueResponse{}, err
}

// PauseQueue stops deliveries.
func (s *Server) PauseQueue(
	_ context.Context, request *keyworkv1.PauseQueueRequest,
) (*keyworkv1.PauseQueueResponse, error) {
	queue, err := s.with(request.GetName(), func(_ *state, queue *queue) { queue.paused = true })
	return &keyworkv1.PauseQueueResponse{Queue: queue}, err
}

// ResumeQueue goes on with deliveries.
func (s *Server) ResumeQueue(
	_ context.Context, request *keyworkv1.ResumeQueueRequest,
) (*keyworkv1.ResumeQueueResponse, error) {
	queue, err := s.with(request.GetName(), func(_ *state, queue *queue) { queue.paused = false })
	return &keyworkv1.ResumeQueueResponse{Queue: queue}, err
}

// PurgeQueue ends all outstanding jobs.
func (s *Server) PurgeQueue(
	_ context.Context, request *keyworkv1.PurgeQueueRequest,
) (*keyworkv1.PurgeQueueResponse, error) {
	response := new(keyworkv1.PurgeQueueResponse)
	_, err := s.with(request.GetName(), func(state *state, queue *queue) {
		response.Purged = uint64(len(queue.jobs))
		state.purge(request.GetName())
	})
	return response, err
}

// purge ends the jobs of a queue; holders of leases are told.
func (s *state) purge(name string) {
	for token, lease := range s.leases {
		if lease.queue == name {
			s.takeLease(token)
			s.tellLost(lease, token, keyworkv1.LostReason_LOST_REASON_CANCELLED)
		}
	}
	clear(s.queues[name].jobs)
	s.queues[name].ready = nil
}

// PutSchedule is not served yet.
func (s *Server) PutSchedule(
	context.Context, *keyworkv1.PutScheduleRequest,
) (*keyworkv1.PutScheduleResponse, error) {
	return nil, notServed()
}

// GetSchedule is not served yet.
func (s *Server) GetSchedule(
	context.Context, *keyworkv1.GetScheduleRequest,
) (*keyworkv1.GetScheduleResponse, error) {
	return nil, notServed()
}

// ListSchedules is not served yet.
func (s *Server) ListSchedules(
	context.Context, *keyworkv1.ListSchedulesRequest,
) (*keyworkv1.ListSchedulesResponse, error) {
	return nil, notServed()
}

// DeleteSchedule is not served yet.
func (s *Server) DeleteSchedule(
	context.Context, *keyworkv1.DeleteScheduleRequest,
) (*keyworkv1.DeleteScheduleResponse, error) {
	return nil, notServed()
}

// pageOf gives a page of a list, and the token of the next one: how many entries come before it.
func pageOf[T any](all []T, size uint32, token string) (page []T, next string) {
	// A token that is none of ours begins anew.
	start, _ := strconv.Atoi(token)
	start = min(start, len(all))
	if size == 0 {
		size = 100
	}
	end := min(start+int(size), len(all))
	if end < len(all) {
		next = strconv.Itoa(end)
	}
	return all[start:end], next
}
