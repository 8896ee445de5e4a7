package keywork

import (
	"math/rand/v2"
	"time"
)

const (
	shortestWait = 100 * time.Millisecond
	longestWait  = 10 * time.Second
)

// backoff tells how long to wait before the next try: with full jitter between 100 ms and a bound that doubles up to
// 10 s, so that many clients of a server that went away do not come back at once.
type backoff struct{ tries int }

func (b *backoff) next() time.Duration {
	b.tries = min(b.tries+1, 10)
	bound := min(shortestWait<<b.tries, longestWait)
	return shortestWait + rand.N(bound-shortestWait+1)
}

// reset: the last try worked, so that the next wait is short again.
func (b *backoff) reset() { b.tries = 0 }

// around gives a wait from half of the middle to half more.
func around(middle time.Duration) time.Duration {
	return middle/2 + rand.N(middle+1)
}
