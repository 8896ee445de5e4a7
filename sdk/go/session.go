package keywork

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// defaultLeaseDuration is what is taken for a lease's duration where a server does not say.
const defaultLeaseDuration = 15 * time.Second

// onMessage is what the server says on the worker's stream, and what that changes.
func (d *driver) onMessage(message *keyworkv1.LeaseResponse, now time.Time) {
	switch message := message.GetMessage().(type) {
	case *keyworkv1.LeaseResponse_Welcome:
		d.onWelcome(message.Welcome, now)
	case *keyworkv1.LeaseResponse_GoAway:
		d.onGoAway(message.GoAway, now)
	default:
		// Before its Welcome a session has no terms: a lease that is not taken up goes back with the next Hello.
		if d.session.live {
			d.link.heard(now, d.session.liveness)
			d.onMessageOfSession(message, now)
		}
	}
}

func (d *driver) onMessageOfSession(message any, now time.Time) {
	switch message := message.(type) {
	case *keyworkv1.LeaseResponse_Deliveries:
		d.onDeliveries(message.Deliveries)
	case *keyworkv1.LeaseResponse_HeartbeatAck:
		d.onHeartbeatAck(message.HeartbeatAck, now)
	case *keyworkv1.LeaseResponse_SettlementResults:
		d.onResults(message.SettlementResults, now)
	case *keyworkv1.LeaseResponse_LeasesLost:
		d.onLost(message.LeasesLost.GetLeases(), now)
	case *keyworkv1.LeaseResponse_DrainAck:
		d.session.drainAcknowledged = true
	default:
		// Something newer than this version.
	}
}

func (d *driver) onWelcome(welcome *keyworkv1.Welcome, now time.Time) {
	shortest := d.readTerms(welcome)
	d.session.heartbeatInterval = positive(welcome.GetHeartbeatInterval(), shortest/3)
	d.session.liveness = positive(welcome.GetLivenessTimeout(), d.session.heartbeatInterval*5/2)
	d.link.heard(now, d.session.liveness)
	d.rememberTicket(welcome.GetSessionTicket())
	if !d.session.live {
		d.onOpened(now)
	}
	for _, resumed := range welcome.GetResumed() {
		if lease := d.leases.find(resumed.GetLeaseToken()); lease != nil {
			left := toDuration(resumed.GetTimeLeft())
			d.leases.extend(lease, d.session.helloSent, left, d.termsOf(lease.queue).margin())
		}
	}
	d.onLost(welcome.GetLost(), now)
	d.outbox.refill(d.leases)
}

// readTerms notes the terms of each queue; it gives the shortest lease duration.
func (d *driver) readTerms(welcome *keyworkv1.Welcome) time.Duration {
	queues := d.worker.options.Queues
	d.terms = make([]terms, len(queues))
	shortest := far
	for i, queue := range queues {
		d.terms[i].leaseDuration = defaultLeaseDuration
		for _, said := range welcome.GetQueues() {
			if said.GetQueue() == queue.Queue {
				d.terms[i] = terms{
					leaseDuration:   positive(said.GetLeaseDuration(), defaultLeaseDuration),
					disconnectGrace: toDuration(said.GetDisconnectGrace()),
				}
			}
		}
		shortest = min(shortest, d.terms[i].leaseDuration)
	}
	return shortest
}

func (d *driver) termsOf(queue int) terms {
	if queue >= len(d.terms) {
		return terms{leaseDuration: defaultLeaseDuration}
	}
	return d.terms[queue]
}

func (d *driver) onOpened(now time.Time) {
	d.session.live = true
	d.session.broke = time.Time{}
	d.session.moveAt = time.Time{}
	d.session.drainSent = false
	d.session.drainAcknowledged = false
	d.session.nextHeartbeat = now.Add(d.session.heartbeatInterval)
	if !d.leases.isEmpty() {
		// What it holds was extended last through an earlier session, and may have little time left.
		d.session.nextHeartbeat = now
	}
	d.beats.opened(d.session.helloSent)
	d.worker.healthy.Store(true)
	d.worker.counters.sessions.Add(1)
	d.noticeAt = time.Time{}
	d.tell(ReadyEvent{d.link.endpoint().uri})
}

func (d *driver) onDeliveries(deliveries *keyworkv1.Deliveries) {
	for _, delivery := range deliveries.GetDeliveries() {
		d.onDelivery(delivery)
	}
	if d.stop.isStopping() {
		d.giveBackWaiting()
	}
	d.startWaiting()
}

func (d *driver) onDelivery(delivery *keyworkv1.Delivery) {
	job := jobOfDelivery(delivery)
	queue := d.queueOf(job.Queue)
	fence := fenceAt(d.beats.basis, toDuration(delivery.GetTimeLeft()), d.termsOf(queue).margin())
	lease := d.leases.insert(string(delivery.GetLeaseToken()), queue, job, fence)
	d.waiting = append(d.waiting, lease)
	d.sweepBy(fence)
}

func (d *driver) queueOf(name string) int {
	for i, queue := range d.worker.options.Queues {
		if queue.Queue == name {
			return i
		}
	}
	return 0
}

func (d *driver) onHeartbeatAck(ack *keyworkv1.HeartbeatAck, now time.Time) {
	d.backoff.reset()
	d.rememberTicket(ack.GetSessionTicket())
	d.onLost(ack.GetLost(), now)
	// These are as before: JetStream did not answer for them.
	unconfirmed := make(map[*held]bool)
	for _, token := range ack.GetUnconfirmed() {
		unconfirmed[d.leases.find(token)] = true
	}
	for _, beat := range d.beats.answered(ack.GetSequence()) {
		for _, lease := range beat.leases {
			if !unconfirmed[lease] {
				terms := d.termsOf(lease.queue)
				d.leases.extend(lease, beat.sent, terms.leaseDuration, terms.margin())
			}
		}
	}
}

func (d *driver) rememberTicket(ticket []byte) {
	if len(ticket) > 0 {
		d.session.ticket = ticket
	}
}

func (d *driver) onLost(all []*keyworkv1.LostLease, now time.Time) {
	for _, one := range all {
		lease := d.leases.find(one.GetLeaseToken())
		if lease == nil {
			continue
		}
		cause := ErrLeaseLost
		if one.GetReason() == keyworkv1.LostReason_LOST_REASON_CANCELLED {
			cause = ErrJobCancelled
		}
		d.lose(lease, cause, LostReason(one.GetReason()), now)
	}
}

func (d *driver) lose(lease *held, cause error, reason LostReason, now time.Time) {
	if !d.leases.lose(lease, cause, now) {
		return
	}
	d.worker.counters.leasesLost.Add(1)
	d.tellLost(lease, reason)
	d.sweepBy(now.Add(stubbornAfter))
}

func (d *driver) tellLost(lease *held, reason LostReason) {
	d.tell(LeaseLostEvent{
		Queue: lease.job.Queue, Key: lease.job.Key, FencingNumber: lease.job.FencingNumber, Reason: reason,
	})
}

func (d *driver) onResults(results *keyworkv1.SettlementResults, now time.Time) {
	for _, result := range results.GetResults() {
		if lease := d.leases.find(result.GetLeaseToken()); lease != nil {
			d.onResult(lease, result, now)
		}
	}
}

func (d *driver) onResult(lease *held, result *keyworkv1.SettlementResult, now time.Time) {
	switch outcome := SettlementOutcome(result.GetOutcome()); outcome {
	case Settled, AlreadySettled:
		if d.leases.settled(lease) {
			d.worker.counters.settled.Add(1)
			d.tellSettled(lease, outcome)
		}
	case LeaseLost, InvalidLease:
		d.onSettledTooLate(lease, outcome)
	case Rejected:
		d.onRejected(lease, itemError(result.GetError()))
	default:
		d.outbox.pushLater(lease, now)
	}
}

func (d *driver) onSettledTooLate(lease *held, outcome SettlementOutcome) {
	if !d.leases.settled(lease) {
		return
	}
	d.worker.counters.leasesLost.Add(1)
	d.worker.counters.droppedResults.Add(1)
	reason := LostReasonExpired
	if outcome == InvalidLease {
		reason = LostReasonInvalid
	}
	d.tellLost(lease, reason)
	d.tellSettled(lease, outcome)
}

func (d *driver) tellSettled(lease *held, outcome SettlementOutcome) {
	// The log leaves these out, and they are many.
	if d.worker.options.OnEvent == nil {
		return
	}
	d.tell(SettledEvent{
		Queue: lease.job.Queue, Key: lease.job.Key, JobID: lease.job.ID, FencingNumber: lease.job.FencingNumber,
		Outcome: outcome,
	})
}

// onRejected: the lease is as before. The job is tried again after its backoff, with the reason as its error. When that
// is refused too, the lease is left to run out.
func (d *driver) onRejected(lease *held, err *Error) {
	if lease.phase != settling {
		return
	}
	d.tell(SettlementRejectedEvent{
		Queue: lease.job.Queue, Key: lease.job.Key, FencingNumber: lease.job.FencingNumber, Err: err,
	})
	if lease.outcome.Kind == OutcomeRetry && !lease.outcome.Chosen {
		d.leases.settled(lease)
		return
	}
	lease.outcome = Outcome{Kind: OutcomeRetry, Error: cut("the server refused the settlement: " + err.Error())}
	d.outbox.push(lease)
}

func (d *driver) onGoAway(away *keyworkv1.GoAway, now time.Time) {
	if away.GetReason() == keyworkv1.GoAwayReason_GO_AWAY_REASON_SUPERSEDED {
		d.fail(ErrSuperseded, now)
		return
	}
	d.session.moveAt = now.Add(around(toDuration(away.GetReconnectDelay())))
}

// moveOn leaves a server that wants us gone for the next one.
func (d *driver) moveOn(now time.Time) {
	d.session.moveAt = time.Time{}
	d.breakOff(localError(codes.Unavailable, "the server asked us to reconnect"), now)
	d.link.down(now)
}

func (d *driver) onSilence(now time.Time) {
	what := "did not say Welcome in time"
	if d.session.live {
		what = "fell silent"
	}
	d.onEnd(localError(codes.Unavailable, "the server %s", what), now)
}

// onEnd: the stream ended, or could not be opened. Unasked, whatever its status: reconnect. Only a refusal of what we
// ask for ends the worker.
func (d *driver) onEnd(err *Error, now time.Time) {
	if err == nil {
		err = localError(codes.Unavailable, "the server ended the stream")
	}
	// The GoAway before it may not have arrived.
	if err.reason == ReasonSessionSuperseded {
		d.fail(ErrSuperseded, now)
		return
	}
	if isFinal(err) {
		d.fail(err, now)
		return
	}
	d.breakOff(err, now)
	until := now.Add(d.backoff.next())
	if !d.session.moveAt.IsZero() {
		until = d.session.moveAt
		d.session.moveAt = time.Time{}
	}
	d.link.down(until)
}

func (d *driver) breakOff(err *Error, now time.Time) {
	d.worker.healthy.Store(false)
	if d.session.live {
		d.session.live = false
		d.session.broke = now
		// Where there is a grace, fences have come nearer.
		d.sweepBy(now)
	}
	d.noticeAt = time.Time{}
	d.tell(DegradedEvent{d.link.endpoint().uri, err})
}

func positive(wire *durationpb.Duration, otherwise time.Duration) time.Duration {
	if duration := toDuration(wire); duration > 0 {
		return duration
	}
	return otherwise
}

// isFinal: the server refuses what this worker asks for, and would again.
func isFinal(err *Error) bool {
	switch err.code {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.NotFound, codes.Unimplemented:
		return true
	default:
		return false
	}
}
