package keywork

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
)

// duplex is an open stream in both directions, with a goroutine for each: neither a server that does not read nor one
// that does not write holds up whoever owns it.
type duplex[Up, Down any] struct {
	// up takes messages for the server; closing it ends our half of the stream.
	up chan *Up
	// room rings after a message was taken from up.
	room chan struct{}
	// down gives the server's messages, until it is closed; then err says why.
	down chan *Down
	err  *Error

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// openDuplex takes over a stream that was opened with a context that `cancel` cancels.
func openDuplex[Up, Down any](
	ctx context.Context, cancel context.CancelFunc, stream grpc.BidiStreamingClient[Up, Down], size int,
) *duplex[Up, Down] {
	d := &duplex[Up, Down]{
		up:     make(chan *Up, size),
		room:   make(chan struct{}, 1),
		down:   make(chan *Down, size),
		cancel: cancel,
	}
	d.start(ctx, stream)
	return d
}

func (d *duplex[Up, Down]) start(ctx context.Context, stream grpc.BidiStreamingClient[Up, Down]) {
	d.done.Go(func() { d.write(ctx, stream) })
	d.done.Go(func() { d.read(ctx, stream) })
}

func (d *duplex[Up, Down]) write(ctx context.Context, stream grpc.BidiStreamingClient[Up, Down]) {
	for {
		select {
		case message, open := <-d.up:
			if !open {
				_ = stream.CloseSend()
				return
			}
			// The outbound half is gone; the inbound one will say why.
			if stream.Send(message) != nil {
				return
			}
			ring(d.room)
		case <-ctx.Done():
			return
		}
	}
}

func (d *duplex[Up, Down]) read(ctx context.Context, stream grpc.BidiStreamingClient[Up, Down]) {
	defer close(d.down)
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			d.err = errorOf(err, answer{trailer: stream.Trailer(), sent: true})
			return
		}
		select {
		case d.down <- message:
		case <-ctx.Done():
			return
		}
	}
}

// offer puts a message on its way if there is room.
func (d *duplex[Up, Down]) offer(message *Up) bool {
	select {
	case d.up <- message:
		return true
	default:
		return false
	}
}

func (d *duplex[Up, Down]) hasRoom() bool { return len(d.up) < cap(d.up) }

// close ends the stream and its goroutines.
func (d *duplex[Up, Down]) close() {
	d.cancel()
	d.done.Wait()
}

// ring makes a bell ring, unless it is ringing.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
