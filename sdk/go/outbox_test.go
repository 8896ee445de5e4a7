package keywork

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// settlingLeases is a table of leases that were given back, and their outbox.
func settlingLeases(count int, outcome Outcome) (*leaseTable, *outbox) {
	table, box := newLeaseTable(), new(outbox)
	for i := range count {
		lease := table.insert(fmt.Sprint("token-", i), 0, new(Job), time.Now())
		table.giveBack(lease)
		lease.outcome = outcome
		box.push(lease)
	}
	return table, box
}

func TestAMessageHoldsAThousandSettlementsAtMost(t *testing.T) {
	_, box := settlingLeases(2_500, Outcome{Kind: OutcomeComplete})
	for _, want := range []int{1_000, 1_000, 500, 0} {
		if got := len(box.take()); got != want {
			t.Fatalf("%d settlements instead of %d", got, want)
		}
	}
}

func TestAMessageStaysSmallWhateverItsSettlementsCarry(t *testing.T) {
	large := Outcome{Kind: OutcomeRerun, Payload: make([]byte, 512<<10), PayloadChanged: true}
	_, box := settlingLeases(20, large)
	total := 0
	for box.isReady() {
		message := &keyworkv1.Settlements{Settlements: box.take()}
		total += len(message.GetSettlements())
		if size := proto.Size(message); size > 3<<20 {
			t.Fatalf("%d bytes", size)
		}
	}
	if total != 20 {
		t.Fatalf("%d settlements", total)
	}
}

func TestANewSessionIsSentEverythingThatIsUnconfirmed(t *testing.T) {
	table, box := settlingLeases(3, Outcome{Kind: OutcomeComplete})
	now := time.Now()
	taken := box.take()
	box.pushLater(table.find(taken[0].GetLeaseToken()), now)
	if box.isReady() || box.wake().IsZero() {
		t.Fatal("what could not be confirmed is not waited for")
	}
	box.onTime(now.Add(settleAgain))
	if got := len(box.take()); got != 1 {
		t.Fatalf("%d after the wait", got)
	}
	box.refill(table)
	if got := len(box.take()); got != 3 {
		t.Fatalf("%d after the reconnect", got)
	}
}
