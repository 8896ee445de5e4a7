package keyworktest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// defaultAttempts of a job that does not say otherwise.
const defaultAttempts = 10

// state is the server's memory: queues, jobs, leases, and the rules of the contract over them. Everything happens under
// one lock, so that a test sees one order of events.
type state struct {
	options  Options
	script   Script
	seen     Seen
	queues   map[string]*queue
	leases   map[string]*lease
	settled  map[string]bool
	sessions map[uint64]*session
	serial   uint64
}

type queue struct {
	config *keyworkv1.QueueConfig
	paused bool
	jobs   map[string]*entry
	ready  []string
	dead   map[uint64]*keyworkv1.DeadJob
	// accepted jobs, by their id.
	accepted map[string]*keyworkv1.Job
}

// entry is an outstanding job.
type entry struct {
	job *keyworkv1.Job
	// due: not before then.
	due   time.Time
	token string
}

type lease struct {
	queue, key string
	deadline   time.Time
	// session is 0 where it was pulled.
	session  uint64
	workerID string
}

type session struct {
	workerID string
	queues   []string
	capacity int
	draining bool
	outbound *outbound
}

func newState(options Options) *state {
	if options.LeaseDuration <= 0 {
		options.LeaseDuration = 15 * time.Second
	}
	if options.RetryDelay <= 0 {
		options.RetryDelay = 10 * time.Millisecond
	}
	return &state{
		options:  options,
		seen:     Seen{Capacity: -1},
		queues:   make(map[string]*queue),
		leases:   make(map[string]*lease),
		settled:  make(map[string]bool),
		sessions: make(map[uint64]*session),
	}
}

// number is one that grows: fencing numbers, sessions, dead letters.
func (s *state) number() uint64 {
	s.serial++
	return s.serial
}

// queue gives the queue of a name, made where it is not there.
func (s *state) queue(name string) *queue {
	if s.queues[name] == nil {
		s.queues[name] = &queue{
			config:   new(keyworkv1.QueueConfig),
			jobs:     make(map[string]*entry),
			dead:     make(map[uint64]*keyworkv1.DeadJob),
			accepted: make(map[string]*keyworkv1.Job),
		}
	}
	return s.queues[name]
}

func (s *state) entry(queue, key string) *entry {
	if s.queues[queue] == nil {
		return nil
	}
	return s.queues[queue].jobs[key]
}

func (s *state) outstanding(queue, key string) *keyworkv1.Job {
	entry := s.entry(queue, key)
	if entry == nil {
		return nil
	}
	return proto.CloneOf(entry.job)
}

func (s *state) deadOf(queue string) []*keyworkv1.DeadJob {
	var dead []*keyworkv1.DeadJob
	if s.queues[queue] == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(s.queues[queue].dead)) {
		dead = append(dead, proto.CloneOf(s.queues[queue].dead[id]))
	}
	return dead
}

// accept takes a job whose key is free.
func (s *state) accept(request *keyworkv1.SubmitRequest, delay time.Duration) *keyworkv1.Job {
	job := &keyworkv1.Job{
		Id:          request.GetRequestId(),
		Queue:       request.GetQueue(),
		Key:         request.GetKey(),
		Payload:     request.GetPayload(),
		ContentType: request.GetContentType(),
		Attributes:  request.GetAttributes(),
		State:       keyworkv1.JobState_JOB_STATE_QUEUED,
		Attempt:     1,
		MaxAttempts: request.GetMaxAttempts(),
		SubmittedAt: timestamppb.Now(),
		ExpiresAt:   request.GetExpiresAt(),
	}
	if job.Id == "" {
		job.Id = uuid.NewString()
	}
	if job.MaxAttempts == 0 {
		job.MaxAttempts = defaultAttempts
	}
	entry := &entry{job: job}
	if delay > 0 {
		entry.due = time.Now().Add(delay)
	}
	queue := s.queue(job.Queue)
	queue.accepted[job.Id] = job
	queue.jobs[job.Key] = entry
	queue.ready = append(queue.ready, job.Key)
	return job
}

// isDue: something is to be done by now.
func (s *state) isDue(now time.Time) bool {
	for _, lease := range s.leases {
		if !lease.deadline.After(now) {
			return true
		}
	}
	for _, queue := range s.queues {
		for _, entry := range queue.jobs {
			if !entry.due.IsZero() && !entry.due.After(now) {
				return true
			}
		}
	}
	return false
}

// onTime ends the leases that ran out, and starts what was waiting for its time.
func (s *state) onTime(now time.Time) {
	for token, lease := range s.leases {
		if lease.deadline.After(now) {
			continue
		}
		s.seen.Expired++
		s.takeLease(token)
		s.retry(lease, nil, "the lease ran out", keyworkv1.DeadReason_DEAD_REASON_LEASE_EXPIRED)
		s.tellLost(lease, token, keyworkv1.LostReason_LOST_REASON_EXPIRED)
	}
	for _, queue := range s.queues {
		for _, entry := range queue.jobs {
			if !entry.due.After(now) {
				entry.due = time.Time{}
			}
		}
	}
}

// dispatch leases what is ready to the sessions that have room.
func (s *state) dispatch() {
	if s.script.Silent {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		session := s.sessions[id]
		if session.draining {
			continue
		}
		room := session.capacity
		for _, lease := range s.leases {
			if lease.session == id {
				room--
			}
		}
		if deliveries := s.lease(session.queues, room, id, session.workerID); len(deliveries) > 0 {
			s.send(id, &keyworkv1.LeaseResponse{Message: &keyworkv1.LeaseResponse_Deliveries{
				Deliveries: &keyworkv1.Deliveries{Deliveries: deliveries},
			}})
		}
	}
}

// lease leases up to so many jobs.
func (s *state) lease(queues []string, most int, session uint64, workerID string) []*keyworkv1.Delivery {
	var deliveries []*keyworkv1.Delivery
	for _, name := range queues {
		for len(deliveries) < most {
			key, found := s.nextReady(name)
			if !found {
				break
			}
			deliveries = append(deliveries, s.leaseOne(name, key, session, workerID))
		}
	}
	return deliveries
}

func (s *state) nextReady(name string) (key string, found bool) {
	queue := s.queues[name]
	if queue == nil || queue.paused {
		return "", false
	}
	place := slices.IndexFunc(queue.ready, func(key string) bool {
		return queue.jobs[key] != nil && queue.jobs[key].due.IsZero()
	})
	if place < 0 {
		return "", false
	}
	key = queue.ready[place]
	queue.ready = slices.Delete(queue.ready, place, place+1)
	return key, true
}

func (s *state) leaseOne(name, key string, session uint64, workerID string) *keyworkv1.Delivery {
	now := time.Now()
	fencing := s.number()
	deadline := now.Add(s.options.LeaseDuration)
	entry := s.queues[name].jobs[key]
	entry.token = fmt.Sprintf("%s/%d/%s", name, fencing, uuid.NewString())
	entry.job.State = keyworkv1.JobState_JOB_STATE_LEASED
	entry.job.FencingNumber = fencing
	entry.job.Holder = workerID
	s.leases[entry.token] = &lease{queue: name, key: key, deadline: deadline, session: session, workerID: workerID}
	s.seen.Delivered = append(s.seen.Delivered, key)
	return &keyworkv1.Delivery{
		LeaseToken:    []byte(entry.token),
		FencingNumber: fencing,
		Job:           proto.CloneOf(entry.job),
		Attempt:       entry.job.GetAttempt(),
		TimeLeft:      left(deadline, now),
	}
}

// takeLease ends a lease; its job is neither leased nor ready afterwards.
func (s *state) takeLease(token string) *lease {
	lease := s.leases[token]
	if lease == nil {
		return nil
	}
	delete(s.leases, token)
	if entry := s.entry(lease.queue, lease.key); entry != nil && entry.token == token {
		entry.token = ""
		entry.job.Holder = ""
		entry.job.State = keyworkv1.JobState_JOB_STATE_QUEUED
	}
	return lease
}

// extend extends a lease; false: there is none.
func (s *state) extend(token string) (deadline time.Time, held bool) {
	lease := s.leases[token]
	if lease == nil {
		return time.Time{}, false
	}
	lease.deadline = time.Now().Add(s.options.LeaseDuration)
	return lease.deadline, true
}

// startGrace: a session's stream has ended, and its leases run out sooner where there is a grace.
func (s *state) startGrace(session uint64) {
	if s.options.DisconnectGrace <= 0 {
		return
	}
	latest := time.Now().Add(s.options.DisconnectGrace)
	for _, lease := range s.leases {
		if lease.session == session && lease.deadline.After(latest) {
			lease.deadline = latest
		}
	}
}

// resume goes on with the leases that a new session shows, and hands back those of its worker that it does not.
func (s *state) resume(
	id uint64, hello *keyworkv1.Hello,
) (resumed []*keyworkv1.ResumedLease, lost []*keyworkv1.LostLease) {
	now := time.Now()
	for _, token := range hello.GetHeldLeases() {
		lease := s.leases[string(token)]
		if lease == nil {
			lost = append(lost, &keyworkv1.LostLease{
				LeaseToken: token, Reason: keyworkv1.LostReason_LOST_REASON_EXPIRED,
			})
			continue
		}
		lease.session = id
		resumed = append(resumed, &keyworkv1.ResumedLease{LeaseToken: token, TimeLeft: left(lease.deadline, now)})
	}
	for token, lease := range s.leases {
		if lease.workerID == hello.GetWorkerId() && lease.session != id {
			s.handBack(token)
		}
	}
	return resumed, lost
}

func (s *state) handBack(token string) {
	if lease := s.takeLease(token); lease != nil {
		queue := s.queues[lease.queue]
		queue.ready = slices.Insert(queue.ready, 0, lease.key)
	}
}

// loseLease takes the lease of a key away from its holder.
func (s *state) loseLease(queue, key string, reason keyworkv1.LostReason, tell bool) {
	entry := s.entry(queue, key)
	if entry == nil || entry.token == "" {
		return
	}
	token := entry.token
	lease := s.leases[token]
	s.handBack(token)
	if tell {
		s.tellLost(lease, token, reason)
	}
}

func (s *state) tellLost(lease *lease, token string, reason keyworkv1.LostReason) {
	s.send(lease.session, &keyworkv1.LeaseResponse{Message: &keyworkv1.LeaseResponse_LeasesLost{
		LeasesLost: &keyworkv1.LeasesLost{Leases: []*keyworkv1.LostLease{
			{LeaseToken: []byte(token), Reason: reason},
		}},
	}})
}

// send sends to a session, unless the script says silence.
func (s *state) send(id uint64, message *keyworkv1.LeaseResponse) {
	if session := s.sessions[id]; session != nil && !s.script.Silent {
		session.outbound.send(message)
	}
}

func (s *state) endSessions(with *status.Status) {
	for id, session := range s.sessions {
		delete(s.sessions, id)
		session.outbound.end(with)
	}
	s.seen.Sessions = 0
}

func (s *state) goAway(reason keyworkv1.GoAwayReason, reconnectDelay time.Duration) {
	for id := range s.sessions {
		s.send(id, &keyworkv1.LeaseResponse{Message: &keyworkv1.LeaseResponse_GoAway{GoAway: &keyworkv1.GoAway{
			Reason:         reason,
			Grace:          durationpb.New(10 * time.Second),
			ReconnectDelay: durationpb.New(reconnectDelay),
		}}})
	}
}

// retry ends an attempt without success.
func (s *state) retry(lease *lease, delay *time.Duration, text string, reason keyworkv1.DeadReason) {
	entry := s.entry(lease.queue, lease.key)
	if entry == nil {
		return
	}
	if entry.job.GetAttempt() >= entry.job.GetMaxAttempts() {
		s.bury(lease, text, reason)
		return
	}
	wait := s.options.RetryDelay
	if delay != nil {
		wait = *delay
	}
	entry.job.Attempt++
	entry.job.LastError = text
	entry.job.State = keyworkv1.JobState_JOB_STATE_RETRYING
	entry.due = time.Now().Add(wait)
	s.queues[lease.queue].ready = append(s.queues[lease.queue].ready, lease.key)
}

// bury makes a job a dead letter.
func (s *state) bury(lease *lease, text string, reason keyworkv1.DeadReason) {
	queue := s.queues[lease.queue]
	job := queue.jobs[lease.key].job
	delete(queue.jobs, lease.key)
	job.LastError = text
	job.State = keyworkv1.JobState_JOB_STATE_DEAD
	id := s.number()
	queue.dead[id] = &keyworkv1.DeadJob{DeadId: id, Job: job, Reason: reason, DiedAt: timestamppb.Now()}
}

// kindOf is how a settlement settles, and the error that comes with it.
func kindOf(settlement *keyworkv1.Settlement) (keywork.OutcomeKind, string) {
	switch outcome := settlement.GetOutcome().(type) {
	case *keyworkv1.Settlement_Retry:
		return keywork.OutcomeRetry, outcome.Retry.GetError()
	case *keyworkv1.Settlement_Release:
		return keywork.OutcomeRelease, ""
	case *keyworkv1.Settlement_Fail:
		return keywork.OutcomeFail, outcome.Fail.GetError()
	case *keyworkv1.Settlement_Rerun:
		return keywork.OutcomeRerun, ""
	default:
		return keywork.OutcomeComplete, ""
	}
}
