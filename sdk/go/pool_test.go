package keywork

import (
	"testing"
)

// poolOf makes a pool of servers that are not there.
func poolOf(t *testing.T, count int) *pool {
	t.Helper()
	options := ClientOptions{Endpoints: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}[:count]}
	client, err := NewClient(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client.pool
}

func use(t *testing.T, p *pool) *channel {
	t.Helper()
	channel, err := p.acquire()
	if err != nil {
		t.Fatal(err)
	}
	return channel
}

func TestAChannelThatFailsAgainAndAgainIsReplacedByAFreshOne(t *testing.T) {
	p := poolOf(t, 1)
	first := use(t, p)
	for range failuresOfChannel - 1 {
		p.failed(first)
	}
	if again := use(t, p); again != first {
		t.Fatal("it was replaced too early")
	}
	p.release(first)
	p.failed(first)
	if fresh := use(t, p); fresh == first {
		t.Fatal("it was not replaced")
	}
	// Another call still uses the old one.
	if state := first.conn.GetState(); state.String() == "SHUTDOWN" {
		t.Fatal("it was closed under a call")
	}
	p.release(first)
	if state := first.conn.GetState(); state.String() != "SHUTDOWN" {
		t.Fatalf("it was not closed: %v", state)
	}
}

func TestAnOutageTurnsToTheNextServerOnce(t *testing.T) {
	p := poolOf(t, 2)
	first := use(t, p)
	// Two calls that fail together turn away once.
	p.failed(first)
	p.failed(first)
	if place := p.place(); place != 1 {
		t.Fatalf("place %d", place)
	}
	p.turnAway(1)
	second := use(t, p)
	p.turnAway(second.place)
	if place := p.place(); place != 0 {
		t.Fatalf("place %d", place)
	}
}
