package keywork

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

const (
	// messageSettlements and settlementRoom bound one message.
	messageSettlements = 1_000
	settlementRoom     = 1 << 20
	// settleAgain is the wait before a settlement is sent again that the server could not confirm.
	settleAgain = 200 * time.Millisecond
)

// outbox is which settlements are to be sent, and when. What is to be sent lies with the lease itself.
type outbox struct {
	ready []*held
	later []delayed
}

type delayed struct {
	at    time.Time
	lease *held
}

func (o *outbox) push(lease *held) { o.ready = append(o.ready, lease) }

// pushLater: the server could not confirm it.
func (o *outbox) pushLater(lease *held, now time.Time) {
	o.later = append(o.later, delayed{now.Add(settleAgain), lease})
}

// refill: a session opened, and everything unconfirmed is sent again.
func (o *outbox) refill(leases *leaseTable) {
	o.ready, o.later = nil, nil
	for _, lease := range leases.byToken {
		if lease.phase == settling {
			o.ready = append(o.ready, lease)
		}
	}
}

func (o *outbox) isReady() bool { return len(o.ready) > 0 }

// wake is when something is to be made ready; zero: never.
func (o *outbox) wake() time.Time {
	if len(o.later) == 0 {
		return time.Time{}
	}
	return o.later[0].at
}

// onTime makes ready what is due.
func (o *outbox) onTime(now time.Time) {
	for len(o.later) > 0 && !o.later[0].at.After(now) {
		o.ready = append(o.ready, o.later[0].lease)
		o.later = o.later[1:]
	}
}

// take gives the next message: everything that is ready, as far as one message takes it.
func (o *outbox) take() []*keyworkv1.Settlement {
	settlements := make([]*keyworkv1.Settlement, 0, min(len(o.ready), messageSettlements))
	bytes, taken := 0, 0
	for taken < len(o.ready) && len(settlements) < messageSettlements && bytes < settlementRoom {
		lease := o.ready[taken]
		taken++
		if lease.phase == settling {
			settlement := lease.outcome.settle([]byte(lease.token))
			bytes += proto.Size(settlement)
			settlements = append(settlements, settlement)
		}
	}
	o.ready = o.ready[taken:]
	return settlements
}
