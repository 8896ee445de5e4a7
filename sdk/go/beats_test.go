package keywork

import (
	"testing"
	"time"
)

func TestAnAnswerAnswersAllEarlierHeartbeatsAndNoLaterOne(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	b := beats{basis: start}
	for second := 1; second <= 3; second++ {
		b.sent(nil, at(second))
	}
	answered := b.answered(2)
	if len(answered) != 2 || !answered[0].sent.Equal(at(1)) || !answered[1].sent.Equal(at(2)) {
		t.Fatalf("answered: %+v", answered)
	}
	if len(b.answered(2)) != 0 || !b.basis.Equal(at(2)) {
		t.Fatalf("the basis is %v", b.basis)
	}
}

func TestAnAnswerOfAnEarlierSessionProvesNothing(t *testing.T) {
	start := time.Now()
	b := beats{basis: start}
	sequence := b.sent(nil, start)
	b.opened(start.Add(9 * time.Second))
	if len(b.answered(sequence)) != 0 || !b.basis.Equal(start.Add(9*time.Second)) {
		t.Fatalf("the basis is %v", b.basis)
	}
}
