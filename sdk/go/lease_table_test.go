package keywork

import (
	"context"
	"errors"
	"testing"
	"time"
)

// one is a table with one waiting lease whose fence is ten seconds after the start.
func one(start time.Time) (*leaseTable, *held) {
	table := newLeaseTable()
	return table, table.insert("token", 0, &Job{Key: "k"}, start.Add(10*time.Second))
}

func termsWith(grace time.Duration) []terms {
	return []terms{{leaseDuration: 15 * time.Second, disconnectGrace: grace}}
}

func dueAt(table *leaseTable, grace time.Duration, broke, now time.Time) int {
	due, _ := table.fenced(termsWith(grace), broke, now)
	return len(due)
}

func TestAFenceCountsFromWhenTheQuestionWasSent(t *testing.T) {
	start := time.Now()
	if at := fenceAt(start, 15*time.Second, time.Second); !at.Equal(start.Add(14 * time.Second)) {
		t.Fatalf("%v", at.Sub(start))
	}
	if at := fenceAt(start, time.Second, 2*time.Second); !at.Equal(start) {
		t.Fatalf("%v", at.Sub(start))
	}
}

func TestAFenceOnlyMovesForward(t *testing.T) {
	start := time.Now()
	table, lease := one(start)
	table.extend(lease, start, 5*time.Second, time.Second)
	if dueAt(table, 0, time.Time{}, start.Add(9*time.Second)) != 0 {
		t.Fatal("an earlier deadline moved it back")
	}
	table.extend(lease, start.Add(5*time.Second), 15*time.Second, time.Second)
	if dueAt(table, 0, time.Time{}, start.Add(18*time.Second)) != 0 {
		t.Fatal("a later deadline did not move it")
	}
	if dueAt(table, 0, time.Time{}, start.Add(19*time.Second)) != 1 {
		t.Fatal("it is not due at its fence")
	}
	if !lease.job.Deadline().Equal(start.Add(19 * time.Second)) {
		t.Fatal("the handler does not see it")
	}
}

func TestTheNextFenceIsTold(t *testing.T) {
	start := time.Now()
	table, _ := one(start)
	if _, next := table.fenced(termsWith(0), time.Time{}, start); !next.Equal(start.Add(10 * time.Second)) {
		t.Fatalf("%v", next)
	}
}

func TestADisconnectGraceBringsTheFenceNearerOnlyWhileTheStreamIsBroken(t *testing.T) {
	start := time.Now()
	table, _ := one(start)
	now := start.Add(4 * time.Second)
	if dueAt(table, time.Second, time.Time{}, now) != 0 {
		t.Fatal("it counts although the stream is live")
	}
	if dueAt(table, time.Second, start.Add(2*time.Second), now) != 1 {
		t.Fatal("it does not count although the stream is broken")
	}
}

func TestASettlementUnderWayIsNotFencedAndNotLost(t *testing.T) {
	start := time.Now()
	table, lease := one(start)
	if !table.giveBack(lease) {
		t.Fatal("it was not given back")
	}
	if dueAt(table, 0, time.Time{}, start.Add(time.Minute)) != 0 || table.lose(lease, ErrLeaseLost, start) {
		t.Fatal("it was lost")
	}
	if !table.settled(lease) || !table.isEmpty() {
		t.Fatal("it was not settled")
	}
}

func TestALostLeaseKeepsItsSlotAndItsCause(t *testing.T) {
	start := time.Now()
	table, lease := one(start)
	ctx, cancel := context.WithCancelCause(t.Context())
	table.start(lease, cancel)
	if !table.lose(lease, ErrJobCancelled, start) || table.lose(lease, ErrLeaseLost, start) {
		t.Fatal("it is lost once")
	}
	if !errors.Is(context.Cause(ctx), ErrJobCancelled) || table.occupied() != 1 || table.find([]byte("token")) != nil {
		t.Fatalf("cause %v, occupied %d", context.Cause(ctx), table.occupied())
	}
	if table.finish(lease, Outcome{}) || table.occupied() != 0 || !table.isEmpty() {
		t.Fatal("its result counts")
	}
}

func TestAMarginIsATenthOfTheLeaseWithinBounds(t *testing.T) {
	for lease, margin := range map[time.Duration]time.Duration{
		2 * time.Second: 200 * time.Millisecond, 15 * time.Second: time.Second, 500 * time.Millisecond: 100 * time.Millisecond,
	} {
		if got := (terms{leaseDuration: lease}).margin(); got != margin {
			t.Fatalf("%v: %v", lease, got)
		}
	}
}

func TestAHandlerDoesNotBeginWhenItsLeaseIsOver(t *testing.T) {
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(ErrLeaseLost)
	for name, over := range map[string]struct {
		ctx   context.Context
		start time.Time
	}{
		"cancelled":      {cancelled, time.Now()},
		"past its fence": {context.Background(), time.Now().Add(-time.Minute)},
	} {
		_, lease := one(over.start)
		ends := make(chan finished, 1)
		runOne(over.ctx, func(context.Context, *Job) error { t.Error(name + ": it began"); return nil }, lease, ends)
		if end := <-ends; end.outcome.Kind != OutcomeRetry || end.outcome.Chosen {
			t.Errorf("%s: %+v", name, end.outcome)
		}
	}
}
