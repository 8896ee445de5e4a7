package keywork

import (
	"time"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// What the worker says on its stream: Hello, heartbeats, settlements, its capacity, that it drains. Nothing here waits:
// what finds no room is sent when there is some.

// sayHello opens the session: it claims every lease that is not lost.
func (d *driver) sayHello(now time.Time) {
	d.session.helloSent = now
	d.session.capacity = d.capacity()
	tokens := make([][]byte, 0, len(d.leases.byToken))
	for token := range d.leases.byToken {
		tokens = append(tokens, []byte(token))
	}
	d.link.open(&keyworkv1.LeaseRequest{Message: &keyworkv1.LeaseRequest_Hello{Hello: &keyworkv1.Hello{
		WorkerId:        d.worker.options.WorkerID,
		Queues:          each(d.worker.options.Queues, Subscription.wire),
		Capacity:        uint32(d.session.capacity),
		HeldLeases:      tokens,
		SessionTicket:   d.session.ticket,
		ProtocolVersion: 1,
		SdkName:         "keywork-sdk-go",
		SdkVersion:      Version,
	}}})
}

func (s Subscription) wire() *keyworkv1.QueueSubscription {
	return &keyworkv1.QueueSubscription{Queue: s.Queue, Weight: uint32(max(s.Weight, 0))}
}

// capacity is how many leases the session may hold: a slot is not free while a handler sits in it that lost its lease.
func (d *driver) capacity() int {
	if d.stop.isStopping() {
		return 0
	}
	return max(d.worker.options.Concurrency-len(d.leases.lost), 0)
}

// flush sends what is due, as far as there is room.
func (d *driver) flush(now time.Time) {
	d.outbox.onTime(now)
	if !d.session.live {
		return
	}
	if !d.session.nextHeartbeat.After(now) && d.link.hasRoom() {
		d.beat(now)
	}
	d.sayCapacity()
	if d.stop.isStopping() && !d.session.drainSent {
		d.session.drainSent = d.link.send(&keyworkv1.LeaseRequest{
			Message: &keyworkv1.LeaseRequest_Drain{Drain: &keyworkv1.Drain{}},
		})
	}
	// After the drain: what is given back now is not to come to this worker again.
	for d.outbox.isReady() && d.link.hasRoom() {
		if settlements := d.outbox.take(); len(settlements) > 0 {
			d.link.send(&keyworkv1.LeaseRequest{Message: &keyworkv1.LeaseRequest_Settlements{
				Settlements: &keyworkv1.Settlements{Settlements: settlements},
			}})
		}
	}
}

// beat sends a heartbeat. They go on until the last settlement is confirmed: leases that are being settled are listed
// too.
func (d *driver) beat(now time.Time) {
	d.session.nextHeartbeat = now.Add(d.session.heartbeatInterval)
	all := make([]*held, 0, len(d.leases.byToken))
	for _, lease := range d.leases.byToken {
		all = append(all, lease)
	}
	for {
		part := all[:min(len(all), listedLeases)]
		all = all[len(part):]
		d.beatWith(part, now)
		if len(all) == 0 {
			return
		}
	}
}

func (d *driver) beatWith(part []*held, now time.Time) {
	if !d.link.hasRoom() {
		return
	}
	tokens := each(part, func(lease *held) []byte { return []byte(lease.token) })
	heartbeat := &keyworkv1.LeaseHeartbeat{Sequence: d.beats.sent(part, now), LeaseTokens: tokens}
	d.link.send(&keyworkv1.LeaseRequest{Message: &keyworkv1.LeaseRequest_Heartbeat{Heartbeat: heartbeat}})
}

func (d *driver) sayCapacity() {
	capacity := d.capacity()
	if capacity == d.session.capacity {
		return
	}
	if d.link.send(&keyworkv1.LeaseRequest{Message: &keyworkv1.LeaseRequest_Capacity{
		Capacity: &keyworkv1.Capacity{Capacity: uint32(capacity)},
	}}) {
		d.session.capacity = capacity
	}
}
