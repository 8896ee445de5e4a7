package keywork

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// method is a unary call of a generated client.
type method[Request, Response any] func(context.Context, *Request, ...grpc.CallOption) (*Response, error)

// call makes one unary call, within a time limit of its own. Nothing is repeated here: whether that is safe depends on
// the call.
func call[Request, Response any](
	ctx context.Context, limit time.Duration, request *Request, do method[Request, Response],
) (*Response, *Error) {
	var header, trailer metadata.MD
	var server peer.Peer
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	response, err := do(limited, request, grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&server))
	if err == nil {
		return response, nil
	}
	// The transport tells its peer only where it had one.
	sent := server.Addr != nil
	if ctx.Err() != nil {
		return nil, ofContext(ctx, sent)
	}
	if limited.Err() != nil {
		return nil, tooLate(server.Addr)
	}
	if wrong := unwritable(request); wrong != nil {
		return nil, wrong
	}
	return nil, errorOf(err, answer{trailer: trailer, sent: sent, told: len(header)+len(trailer) > 0})
}

// tooLate is a call that was not answered by this server within its time limit; nil: no connection was made.
func tooLate(server net.Addr) *Error {
	if server == nil {
		late := unanswered("no connection to the server was made in time")
		late.nothingHappened = true
		return late
	}
	return unanswered(server.String() + " did not answer in time")
}

// unwritable says why a request could not even be written to the wire. The transport's own word for that, INTERNAL, is
// also that of a connection that broke.
func unwritable(request any) *Error {
	message, is := request.(proto.Message)
	if !is {
		return nil
	}
	_, err := proto.Marshal(message)
	if err == nil {
		return nil
	}
	if wrong := badTexts(message.ProtoReflect(), ""); len(wrong) > 0 {
		return wrong.err()
	}
	return localError(codes.InvalidArgument, "failed to write the request: %v", err)
}

// badTexts finds the texts of a message that are no UTF-8.
func badTexts(message protoreflect.Message, path string) (wrong faults) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := path + string(field.Name())
		switch {
		case field.IsList() || field.IsMap():
			// Lists and maps of texts are checked where they are made.
		case field.Kind() == protoreflect.StringKind:
			wrong.text(name, value.String())
		case field.Message() != nil:
			wrong = append(wrong, badTexts(value.Message(), name+".")...)
		}
		return true
	})
	return wrong
}

// once is a call with the client's time limit, and its error as callers see it.
func once[Request, Response any](
	ctx context.Context, c *Client, request *Request, do method[Request, Response],
) (*Response, error) {
	response, err := call(ctx, c.options.CallTimeout, request, do)
	if err != nil {
		return nil, err
	}
	return response, nil
}

// untilAnswered repeats a call that is safe to repeat while servers are away.
func untilAnswered[Response any](
	ctx context.Context, c *Client, try func(limit time.Duration) (*Response, *Error),
) (*Response, *Error) {
	patience := newPatience(c)
	for {
		patience.begin()
		response, err := try(patience.limit())
		if err == nil {
			return response, nil
		}
		if err := patience.after(ctx, err); err != nil {
			return nil, err
		}
	}
}

// shortestTry is what a try is given at least. The last one is made so long before the deadline.
const shortestTry = 50 * time.Millisecond

// patience is how long a call that is safe to repeat is repeated.
type patience struct {
	client *Client
	// place is the server of this try.
	place    int
	deadline time.Time
	backoff  backoff
	// doubt: some try may have had an effect.
	doubt bool
	// before is what failed before the last try, once that is made.
	before *Error
}

func newPatience(c *Client) *patience {
	return &patience{client: c, deadline: time.Now().Add(c.options.SubmitDeadline)}
}

// begin begins a try, at the server in use.
func (p *patience) begin() { p.place = p.client.pool.place() }

// limit is how long the next try may take.
func (p *patience) limit() time.Duration {
	return min(p.client.options.CallTimeout, max(time.Until(p.deadline), shortestTry))
}

// renew: something was answered, so count from here again.
func (p *patience) renew() {
	p.deadline = time.Now().Add(p.client.options.SubmitDeadline)
	p.backoff.reset()
	p.before = nil
}

// after waits before the next try; it hands the error back where another try is no use, or the last one was made.
func (p *patience) after(ctx context.Context, err *Error) *Error {
	p.doubt = p.doubt || !err.nothingHappened
	// What is left until the last try. A server that asks for more than that has answered already.
	left := time.Until(p.deadline) - shortestTry
	if !err.isOutage() || ctx.Err() != nil || left <= 0 || err.retryAfter >= left {
		return p.toldOf(err).withDoubt(p.doubt)
	}
	pause := max(p.backoff.next(), err.retryAfter)
	if pause >= left {
		pause, p.before = left, err
	}
	p.client.warnOfOutage(ctx, p.place, err)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		ended := ofContext(ctx, p.doubt)
		ended.message += "; the last try failed: " + err.Error()
		return ended
	}
}

// toldOf: a last try is short, and that nobody answered it says less than what failed before.
func (p *patience) toldOf(err *Error) *Error {
	if p.before != nil && err.broken && err.code == codes.DeadlineExceeded {
		return p.before
	}
	return err
}
