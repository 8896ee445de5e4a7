package keyworktest

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

type leaseStream = grpc.BidiStreamingServer[keyworkv1.LeaseRequest, keyworkv1.LeaseResponse]

// outbound is what a session is sent: a queue without a bound, since a test's server never waits.
type outbound struct {
	mu       sync.Mutex
	messages []*keyworkv1.LeaseResponse
	ended    bool
	status   *status.Status
	bell     chan struct{}
}

func (o *outbound) send(message *keyworkv1.LeaseResponse) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.messages = append(o.messages, message)
	o.ring()
}

// end ends the stream, after what was sent.
func (o *outbound) end(with *status.Status) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended, o.status = true, with
	o.ring()
}

func (o *outbound) ring() {
	select {
	case o.bell <- struct{}{}:
	default:
	}
}

// take gives what is to be sent, and whether that is all, for ever.
func (o *outbound) take() (messages []*keyworkv1.LeaseResponse, ended bool, with *status.Status) {
	o.mu.Lock()
	defer o.mu.Unlock()
	messages, o.messages = o.messages, nil
	return messages, o.ended, o.status
}

// Lease opens a session.
func (s *Server) Lease(stream leaseStream) error {
	refusal := changedWith(s, func(state *state) (refusal *status.Status) {
		if refusals := state.script.RefuseSessions; len(refusals) > 0 {
			refusal, state.script.RefuseSessions = refusals[0], refusals[1:]
		}
		return refusal
	})
	if refusal != nil {
		return refusal.Err()
	}
	// The answer's headers go out at once.
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetHello() == nil {
		return RefusalOf(codes.InvalidArgument, keywork.ReasonHelloMissing, "Hello comes first").Err()
	}
	out := &outbound{bell: make(chan struct{}, 1)}
	id := changedWith(s, func(state *state) uint64 { return state.hello(first.GetHello(), out) })
	go s.receive(id, stream, out)
	err = out.pump(stream)
	s.change(func(state *state) { state.close(id) })
	return err
}

// receive reads what the worker says, until its half of the stream ends.
func (s *Server) receive(id uint64, stream leaseStream, out *outbound) {
	for {
		message, err := stream.Recv()
		if err != nil {
			out.end(nil)
			return
		}
		s.change(func(state *state) { state.onMessage(id, message) })
	}
}

// pump sends what there is to send, until the stream ends.
func (o *outbound) pump(stream leaseStream) error {
	for {
		messages, ended, with := o.take()
		for _, message := range messages {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		if ended {
			return with.Err()
		}
		select {
		case <-o.bell:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *state) hello(hello *keyworkv1.Hello, out *outbound) uint64 {
	id := s.number()
	s.supersede(hello.GetWorkerId())
	session := &session{workerID: hello.GetWorkerId(), capacity: int(hello.GetCapacity()), outbound: out}
	for _, queue := range hello.GetQueues() {
		session.queues = append(session.queues, queue.GetQueue())
	}
	s.seen.Capacity = session.capacity
	s.seen.Hellos = append(s.seen.Hellos, hello)
	s.sessions[id] = session
	s.seen.Sessions = len(s.sessions)
	if s.script.UnwelcomeSessions > 0 {
		// No deliveries either: it is a session that does not work.
		s.script.UnwelcomeSessions--
		session.capacity = 0
		return id
	}
	s.welcome(id, hello)
	return id
}

// supersede: a newer session of a worker takes over from an older one.
func (s *state) supersede(workerID string) {
	for id, session := range s.sessions {
		if session.workerID != workerID {
			continue
		}
		s.send(id, &keyworkv1.LeaseResponse{Message: &keyworkv1.LeaseResponse_GoAway{GoAway: &keyworkv1.GoAway{
			Reason: keyworkv1.GoAwayReason_GO_AWAY_REASON_SUPERSEDED,
		}}})
		delete(s.sessions, id)
		session.outbound.end(nil)
	}
}

func (s *state) welcome(id uint64, hello *keyworkv1.Hello) {
	lease := s.options.LeaseDuration
	resumed, lost := s.resume(id, hello)
	welcome := &keyworkv1.Welcome{
		SessionId:         fmt.Sprint(id),
		WorkerId:          hello.GetWorkerId(),
		HeartbeatInterval: durationpb.New(lease / 3),
		LivenessTimeout:   durationpb.New(lease * 5 / 6),
		Resumed:           resumed,
		Lost:              lost,
		SessionTicket:     fmt.Appendf(nil, "ticket-%d", id),
	}
	for _, queue := range hello.GetQueues() {
		terms := &keyworkv1.QueueTerms{Queue: queue.GetQueue(), LeaseDuration: durationpb.New(lease)}
		if s.options.DisconnectGrace > 0 {
			terms.DisconnectGrace = durationpb.New(s.options.DisconnectGrace)
		}
		welcome.Queues = append(welcome.Queues, terms)
	}
	s.send(id, &keyworkv1.LeaseResponse{Message: &keyworkv1.LeaseResponse_Welcome{Welcome: welcome}})
}

func (s *state) onMessage(id uint64, message *keyworkv1.LeaseRequest) {
	session := s.sessions[id]
	if session == nil {
		return
	}
	switch message := message.GetMessage().(type) {
	case *keyworkv1.LeaseRequest_Capacity:
		session.capacity = int(message.Capacity.GetCapacity())
		s.seen.Capacity = session.capacity
	case *keyworkv1.LeaseRequest_Heartbeat:
		s.onHeartbeat(id, message.Heartbeat)
	case *keyworkv1.LeaseRequest_Settlements:
		s.onSettlements(id, message.Settlements)
	case *keyworkv1.LeaseRequest_Drain:
		s.seen.Drains++
		session.draining = true
		s.send(id, &keyworkv1.LeaseResponse{Message: &keyworkv1.LeaseResponse_DrainAck{DrainAck: &keyworkv1.DrainAck{}}})
	}
}

func (s *state) onHeartbeat(id uint64, heartbeat *keyworkv1.LeaseHeartbeat) {
	s.seen.Heartbeats++
	if s.script.IgnoreHeartbeats {
		return
	}
	ack := &keyworkv1.HeartbeatAck{
		Sequence:      heartbeat.GetSequence(),
		SessionTicket: fmt.Appendf(nil, "ticket-%d-%d", id, heartbeat.GetSequence()),
	}
	for _, token := range heartbeat.GetLeaseTokens() {
		if s.script.UnconfirmedHeartbeats {
			ack.Unconfirmed = append(ack.Unconfirmed, token)
			continue
		}
		if _, held := s.extend(string(token)); !held {
			reason := keyworkv1.LostReason_LOST_REASON_EXPIRED
			ack.Lost = append(ack.Lost, &keyworkv1.LostLease{LeaseToken: token, Reason: reason})
		}
	}
	s.send(id, &keyworkv1.LeaseResponse{Message: &keyworkv1.LeaseResponse_HeartbeatAck{HeartbeatAck: ack}})
}

func (s *state) onSettlements(id uint64, settlements *keyworkv1.Settlements) {
	s.seen.SettlementMessages++
	var results []*keyworkv1.SettlementResult
	for _, settlement := range settlements.GetSettlements() {
		result := s.settle(settlement)
		if s.script.UnansweredSettlements > 0 {
			s.script.UnansweredSettlements--
		} else {
			results = append(results, result)
		}
	}
	if len(results) > 0 {
		s.send(id, &keyworkv1.LeaseResponse{Message: &keyworkv1.LeaseResponse_SettlementResults{
			SettlementResults: &keyworkv1.SettlementResults{Results: results},
		}})
	}
}

func (s *state) close(id uint64) {
	delete(s.sessions, id)
	s.startGrace(id)
	s.seen.Sessions = len(s.sessions)
}

// until is how long until then, by the wall clock.
func until(at time.Time) time.Duration { return max(time.Until(at), 0) }
