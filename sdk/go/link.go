package keywork

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

const (
	// welcomeWithin is how long a server may take from the first packet to its Welcome.
	welcomeWithin = 10 * time.Second
	// closeWithin is how long it may take to end a stream that we have ended.
	closeWithin = 500 * time.Millisecond
	// outboundMessages that HTTP/2 has not taken yet: room for the heartbeats of the largest session, which come in
	// parts.
	outboundMessages = 16
)

type linkState int

const (
	linkDown linkState = iota
	linkConnecting
	linkOpen
	linkClosed
)

type leaseDuplex = duplex[keyworkv1.LeaseRequest, keyworkv1.LeaseResponse]

// linkEvent is what happened on the link.
type linkEvent struct {
	// connected: the driver is to begin the session with its Hello.
	connected bool
	// ended: the stream, or the try to open one, ended; with the status OK where err is nil.
	ended bool
	err   *Error
	// message is what the server said otherwise.
	message *keyworkv1.LeaseResponse
}

// link is the stream to a server: waiting to connect, connecting, open. It owns the connection and its silence; it
// neither reads nor makes what goes over it.
type link struct {
	client *Client
	state  linkState
	// number says which server: it grows with every try.
	number int
	// until is when to connect, of a link that is down.
	until time.Time
	// deadline is when the silence of the server becomes the end of the stream.
	deadline time.Time
	try      *try
	tries    sync.WaitGroup
}

// try is one connection, with goroutines of its own. It connects afresh, so that nothing of an earlier failure is left.
type try struct {
	cancel context.CancelFunc
	events chan linkEvent
	up     chan *keyworkv1.LeaseRequest
	room   chan struct{}
}

func newLink(client *Client, now time.Time) *link {
	// Workers of one fleet start at different servers.
	return &link{client: client, until: now, number: rand.IntN(len(client.endpoints))}
}

func (l *link) endpoint() endpoint { return l.client.endpoints[l.number%len(l.client.endpoints)] }

// wake is when the driver has to look at the link, whatever happens on it; zero: never.
func (l *link) wake() time.Time {
	switch l.state {
	case linkDown:
		return l.until
	case linkClosed:
		return time.Time{}
	default:
		return l.deadline
	}
}

func (l *link) isDueToConnect(now time.Time) bool { return l.state == linkDown && !l.until.After(now) }

func (l *link) isTooSilent(now time.Time) bool {
	return l.state != linkDown && l.state != linkClosed && !l.deadline.After(now)
}

// events is where the events of this connection come; nil, which is never ready, where there is none.
func (l *link) events() <-chan linkEvent {
	if l.try == nil {
		return nil
	}
	return l.try.events
}

// room rings when there may be room for another message.
func (l *link) room() <-chan struct{} {
	if l.try == nil {
		return nil
	}
	return l.try.room
}

// connect connects to the server in turn.
func (l *link) connect(now time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	l.try = &try{
		cancel: cancel,
		events: make(chan linkEvent, outboundMessages),
		up:     make(chan *keyworkv1.LeaseRequest, outboundMessages),
		room:   make(chan struct{}, 1),
	}
	l.state = linkConnecting
	l.deadline = now.Add(welcomeWithin)
	try, to := l.try, l.endpoint()
	l.tries.Go(func() { try.run(ctx, l.client, to) })
}

// open begins the session; `hello` is its first message, and finds room.
func (l *link) open(hello *keyworkv1.LeaseRequest) {
	l.try.up <- hello
	l.state = linkOpen
}

// heard: the server may be silent for this long from now on.
func (l *link) heard(now time.Time, liveness time.Duration) { l.deadline = now.Add(liveness) }

// isOpening: a session has been asked for, and may hold leases that have not arrived here.
func (l *link) isOpening() bool { return l.state == linkOpen }

// hurry waits for the server no longer than until then.
func (l *link) hurry(until time.Time) { l.deadline = earlier(l.deadline, until) }

// send sends a message if there is room.
func (l *link) send(message *keyworkv1.LeaseRequest) bool {
	if l.state != linkOpen {
		return false
	}
	select {
	case l.try.up <- message:
		return true
	default:
		return false
	}
}

func (l *link) hasRoom() bool { return l.state == linkOpen && len(l.try.up) < cap(l.try.up) }

// down drops the connection; the next server's turn comes at `until`.
func (l *link) down(until time.Time) {
	l.drop()
	l.number++
	l.state = linkDown
	l.until = until
}

func (l *link) drop() {
	if l.try != nil {
		l.try.cancel()
		l.try = nil
	}
}

// closeNow drops the connection and never connects again.
func (l *link) closeNow() {
	l.drop()
	l.state = linkClosed
}

// close ends our half of the stream, waits a moment for the server's, and never connects again.
func (l *link) close() {
	if l.state == linkOpen {
		close(l.try.up)
		l.awaitEnd()
	}
	l.closeNow()
	l.tries.Wait()
}

func (l *link) awaitEnd() {
	timer := time.NewTimer(closeWithin)
	defer timer.Stop()
	for {
		select {
		case event := <-l.try.events:
			if event.ended {
				return
			}
		case <-timer.C:
			return
		}
	}
}

// run connects, opens the stream, sends the Hello that it is given then, and passes on what comes.
func (t *try) run(ctx context.Context, client *Client, to endpoint) {
	conn, err := dial(to, &client.options)
	if err != nil {
		t.emit(ctx, linkEvent{ended: true, err: err})
		return
	}
	defer func() { _ = conn.Close() }()
	ended := t.session(ctx, client, conn, to)
	t.emit(ctx, linkEvent{ended: true, err: ended})
}

// session passes on what comes on a stream, until it ends.
func (t *try) session(ctx context.Context, client *Client, conn *grpc.ClientConn, to endpoint) *Error {
	streamContext, cancel := context.WithCancel(ctx)
	defer cancel()
	outgoing := metadata.AppendToOutgoingContext(streamContext, client.pool.headers...)
	stream, err := keyworkv1.NewWorkQueueClient(conn).Lease(outgoing)
	if err != nil {
		return errorOf(ofConnection(to, err), answer{sent: false})
	}
	t.emit(ctx, linkEvent{connected: true})
	open := &leaseDuplex{up: t.up, room: t.room, down: make(chan *keyworkv1.LeaseResponse), cancel: cancel}
	open.start(streamContext, stream)
	defer open.close()
	for message := range open.down {
		t.emit(ctx, linkEvent{message: message})
	}
	return open.err
}

func (t *try) emit(ctx context.Context, event linkEvent) {
	select {
	case t.events <- event:
	case <-ctx.Done():
	}
}
