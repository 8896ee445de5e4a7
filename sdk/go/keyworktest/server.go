// Package keyworktest is for tests of programs that use Keywork: a server in this process, and a way to run a handler
// without one.
//
// A [Server] speaks the real contract over a real socket and keeps everything in memory: keys are unique, leases have
// deadlines, dead letters are kept. It does what it is told wrong on purpose, by its [Script]. It stores nothing and
// promises nothing about speed.
package keyworktest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

const (
	// tick is how often deadlines are looked at.
	tick = 5 * time.Millisecond
	// patience is how long Until waits.
	patience = 20 * time.Second
	// messageBytes is the largest message that is taken.
	messageBytes = 64 << 20
)

// Options say how a [Server] treats leases. The zero value is that of all defaults.
type Options struct {
	// LeaseDuration is how long a lease lasts from its last extension. Default: 15 s; here it may be shorter than
	// servers allow.
	LeaseDuration time.Duration
	// DisconnectGrace is after how long a broken stream's leases go to others. Default: at their deadline.
	DisconnectGrace time.Duration
	// RetryDelay is the wait before another attempt, where the handler chose none. Default: 10 ms.
	RetryDelay time.Duration
}

// Server is a server for tests.
type Server struct {
	keyworkv1.UnimplementedWorkQueueServer
	keyworkv1.UnimplementedQueueAdminServer
	keyworkv1.UnimplementedSchedulesServer

	endpoint string
	serving  *grpc.Server
	stopped  chan struct{}
	running  sync.WaitGroup
	closing  sync.Once

	mu      sync.Mutex
	state   *state
	clients []*keywork.Client
	// changed is closed, and replaced, at every change.
	changed chan struct{}
}

// TB is what [NewServer] needs of a *testing.T.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// NewServer starts a server that is stopped when the test ends.
func NewServer(t TB, options Options) *Server {
	t.Helper()
	server, err := Start(options)
	if err != nil {
		t.Fatalf("failed to start the fake server: %v", err)
	}
	t.Cleanup(server.Close)
	return server
}

// Start starts a server on a free port of 127.0.0.1, for programs that are no tests.
func Start(options Options) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{
		endpoint: "http://" + listener.Addr().String(),
		stopped:  make(chan struct{}),
		state:    newState(options),
		changed:  make(chan struct{}),
	}
	s.serving = grpc.NewServer(
		grpc.MaxRecvMsgSize(messageBytes),
		grpc.UnaryInterceptor(s.seeCall),
		grpc.StreamInterceptor(s.seeStream),
	)
	keyworkv1.RegisterWorkQueueServer(s.serving, s)
	keyworkv1.RegisterQueueAdminServer(s.serving, s)
	keyworkv1.RegisterSchedulesServer(s.serving, s)
	// A server that could not go on is seen by the test that talks to it.
	s.running.Go(func() { _ = s.serving.Serve(listener) })
	s.running.Go(s.keepTime)
	return s, nil
}

// Close stops it, and closes its clients. Closing it again does nothing.
func (s *Server) Close() {
	s.closing.Do(func() {
		close(s.stopped)
		s.serving.Stop()
		s.running.Wait()
		for _, client := range s.clients {
			// Nothing is lost with a connection to a server that has gone.
			_ = client.Close()
		}
	})
}

// Endpoint is where it listens, as a URI.
func (s *Server) Endpoint() string { return s.endpoint }

// Client is a client of it, which is closed with the server unless it was before.
func (s *Server) Client() *keywork.Client {
	client := keywork.MustClient(s.endpoint)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, client)
	return client
}

// Script changes what it does wrong from now on.
func (s *Server) Script(change func(*Script)) {
	s.change(func(state *state) { change(&state.script) })
}

// Seen is what it has seen so far.
func (s *Server) Seen() Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.seen.clone()
}

// Outstanding is the outstanding job of a key, or nil.
func (s *Server) Outstanding(queue, key string) *keyworkv1.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.outstanding(queue, key)
}

// Dead are the dead letters of a queue.
func (s *Server) Dead(queue string) []*keyworkv1.DeadJob {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.deadOf(queue)
}

// Until waits until what it has seen fulfils `isSo`, and gives that. After 20 s in vain it fails the test.
func (s *Server) Until(t TB, what string, isSo func(Seen) bool) Seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	seen, err := s.WaitUntil(ctx, isSo)
	if err != nil {
		t.Fatalf("waited in vain: %s; seen: %+v", what, seen)
	}
	return seen
}

// WaitUntil waits until what it has seen fulfils `isSo`, for programs that are no tests. It fails when the context ends.
func (s *Server) WaitUntil(ctx context.Context, isSo func(Seen) bool) (Seen, error) {
	for {
		s.mu.Lock()
		seen, changed := s.state.seen.clone(), s.changed
		s.mu.Unlock()
		if isSo(seen) {
			return seen, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return seen, fmt.Errorf("failed to wait: %w", ctx.Err())
		}
	}
}

// EndSessions ends every session: with this status, or with OK where it is nil. Their leases live on until their
// deadline.
func (s *Server) EndSessions(with *status.Status) {
	s.change(func(state *state) { state.endSessions(with) })
}

// LoseLease takes the lease of a key away. Its session is told when `tell` is set.
func (s *Server) LoseLease(queue, key string, reason keywork.LostReason, tell bool) {
	s.change(func(state *state) { state.loseLease(queue, key, keyworkv1.LostReason(reason), tell) })
}

// GoAway says GoAway to every session. It does not end them.
func (s *Server) GoAway(reason keyworkv1.GoAwayReason, reconnectDelay time.Duration) {
	s.change(func(state *state) { state.goAway(reason, reconnectDelay) })
}

// change changes the state, and hands out what became ready by it.
func (s *Server) change(change func(*state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.state)
	s.state.dispatch()
	close(s.changed)
	s.changed = make(chan struct{})
}

// changedWith changes the state and gives what that gave.
func changedWith[T any](s *Server, change func(*state) T) (result T) {
	s.change(func(state *state) { result = change(state) })
	return result
}

func (s *Server) keepTime() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.stopped:
			return
		}
		s.mu.Lock()
		due := s.state.isDue(time.Now())
		s.mu.Unlock()
		if due {
			s.change(func(state *state) { state.onTime(time.Now()) })
		}
	}
}

func (s *Server) seeCall(
	ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	s.seeMetadata(ctx)
	return next(ctx, request)
}

func (s *Server) seeStream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	s.seeMetadata(stream.Context())
	return next(server, stream)
}

func (s *Server) seeMetadata(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.change(func(state *state) { state.seen.Metadata = md })
}
