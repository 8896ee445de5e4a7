package keywork

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// failuresOfChannel is how many calls in a row may fail for an outage before a channel is thrown away.
const failuresOfChannel = 3

// pool is what all calls of a client go through: one channel for each server, made when it is first needed, and
// which of the servers is in use. An outage of that one turns to the next.
type pool struct {
	options   *ClientOptions
	headers   []string
	endpoints []endpoint

	mu      sync.Mutex
	made    []*channel
	current int
	closed  bool
}

// channel is a connection that is closed when it is both retired and unused.
type channel struct {
	place    int
	conn     *grpc.ClientConn
	uses     int
	failures int
	retired  bool
}

func newPool(options *ClientOptions, endpoints []endpoint) *pool {
	return &pool{
		options:   options,
		headers:   options.headers(),
		endpoints: endpoints,
		made:      make([]*channel, len(endpoints)),
	}
}

// Invoke makes a unary call at the server in use.
func (p *pool) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	channel, err := p.acquire()
	if err != nil {
		return err
	}
	err = channel.conn.Invoke(p.outgoing(ctx), method, args, reply, opts...)
	if err != nil {
		err = ofConnection(p.endpoints[channel.place], err)
	}
	p.release(channel)
	p.judge(ctx, channel, err)
	return err
}

// NewStream opens a stream at the server in use.
func (p *pool) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	channel, err := p.acquire()
	if err != nil {
		return nil, err
	}
	stream, err := channel.conn.NewStream(p.outgoing(ctx), desc, method, opts...)
	if err != nil {
		p.release(channel)
		p.judge(ctx, channel, err)
		return nil, ofConnection(p.endpoints[channel.place], err)
	}
	context.AfterFunc(stream.Context(), func() { p.release(channel) })
	return stream, nil
}

func (p *pool) outgoing(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, p.headers...)
}

func (p *pool) acquire() (*channel, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, localError(codes.Canceled, "the client is closed")
	}
	place := p.current % len(p.endpoints)
	if p.made[place] == nil {
		conn, err := dial(p.endpoints[place], p.options)
		if err != nil {
			return nil, err
		}
		p.made[place] = &channel{place: place, conn: conn}
	}
	p.made[place].uses++
	return p.made[place], nil
}

func (p *pool) release(channel *channel) {
	p.mu.Lock()
	channel.uses--
	unused := channel.retired && channel.uses == 0
	p.mu.Unlock()
	if unused {
		_ = channel.conn.Close()
	}
}

// judge notes how a call over a channel went.
func (p *pool) judge(ctx context.Context, channel *channel, err error) {
	if ctx.Err() == context.Canceled {
		return
	}
	if err == nil || !errorOf(err, answer{sent: true}).isOutage() {
		p.mu.Lock()
		channel.failures = 0
		p.mu.Unlock()
		return
	}
	p.failed(channel)
}

// failed turns to the next server, and throws the channel away where it failed again and again.
func (p *pool) failed(channel *channel) {
	p.mu.Lock()
	if p.current%len(p.endpoints) == channel.place {
		p.current++
	}
	channel.failures++
	unused := false
	if channel.failures >= failuresOfChannel && !channel.retired {
		p.made[channel.place] = nil
		channel.retired = true
		unused = channel.uses == 0
	}
	p.mu.Unlock()
	if unused {
		_ = channel.conn.Close()
	}
}

// turnAway is for outages that show outside of a call, as on an open stream: `place` is the server that was in use.
func (p *pool) turnAway(place int) {
	p.mu.Lock()
	channel := p.made[place]
	p.mu.Unlock()
	if channel != nil {
		p.failed(channel)
	}
}

// place is the server in use.
func (p *pool) place() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current % len(p.endpoints)
}

func (p *pool) close() error {
	p.mu.Lock()
	made := p.made
	p.made = make([]*channel, len(p.endpoints))
	p.closed = true
	p.mu.Unlock()
	var first error
	for _, channel := range made {
		if channel == nil {
			continue
		}
		if err := channel.conn.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
