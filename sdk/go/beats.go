package keywork

import "time"

// listedLeases is the most leases that one heartbeat lists, so that its message stays under the usual limit of 4 MiB.
const listedLeases = 8_000

// beat is one heartbeat that is not answered yet.
type beat struct {
	sequence uint64
	sent     time.Time
	leases   []*held
}

// beats are the heartbeats of a session: what each listed, when it was sent, and what its answer proves. Time is an
// argument.
type beats struct {
	sequence   uint64
	unanswered []beat
	// basis is when the newest question was sent whose answer has arrived. What the server sends from now on was sent
	// after that, so a time left that it tells counts from then at the earliest.
	basis time.Time
}

// opened: a session opened whose Hello was sent then.
func (b *beats) opened(helloSent time.Time) {
	b.unanswered = nil
	b.basis = helloSent
}

// sent notes a heartbeat that is being sent; it gives its sequence.
func (b *beats) sent(leases []*held, now time.Time) uint64 {
	b.sequence++
	b.unanswered = append(b.unanswered, beat{b.sequence, now, leases})
	return b.sequence
}

// answered takes out the heartbeats that an answer to this sequence answers: that one and all earlier ones.
func (b *beats) answered(sequence uint64) []beat {
	count := 0
	for count < len(b.unanswered) && b.unanswered[count].sequence <= sequence {
		b.basis = b.unanswered[count].sent
		count++
	}
	answered := b.unanswered[:count]
	b.unanswered = b.unanswered[count:]
	return answered
}
