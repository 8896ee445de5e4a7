package keywork

import (
	"testing"
	"time"
)

func TestWaitsStayBetweenTheShortestAndTheLongest(t *testing.T) {
	var b backoff
	longest := time.Duration(0)
	for range 200 {
		wait := b.next()
		if wait < shortestWait || wait > longestWait {
			t.Fatalf("%v", wait)
		}
		longest = max(longest, wait)
	}
	if longest < time.Second {
		t.Fatalf("the longest of 200 waits was %v", longest)
	}
}

func TestTheFirstWaitAfterASuccessIsShort(t *testing.T) {
	var b backoff
	for range 20 {
		b.next()
	}
	b.reset()
	if wait := b.next(); wait > 2*shortestWait {
		t.Fatalf("%v", wait)
	}
}

func TestAWaitAroundAMiddleIsFromHalfOfItToHalfMore(t *testing.T) {
	for range 100 {
		if wait := around(time.Second); wait < time.Second/2 || wait > 3*time.Second/2 {
			t.Fatalf("%v", wait)
		}
	}
}
