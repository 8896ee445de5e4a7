package keywork

import (
	"slices"
	"testing"
	"time"
)

func TestAnOutageIsWarnedOfAtOnceAndThenEachHalfMinute(t *testing.T) {
	start := time.Now()
	var outage outage
	var warned []int
	for second := range 70 {
		if outage.isToBeWarnedOf(start.Add(time.Duration(second) * time.Second)) {
			warned = append(warned, second)
		}
	}
	if !slices.Equal(warned, []int{0, 30, 60}) {
		t.Fatalf("warned at the seconds %v", warned)
	}
}

func TestTheNextOutageIsWarnedOfAtOnce(t *testing.T) {
	now := time.Now()
	var outage outage
	first := outage.isToBeWarnedOf(now)
	outage.isOver()
	if !first || !outage.isDue(now) {
		t.Fatal("the next outage is not warned of")
	}
}
