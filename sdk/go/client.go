package keywork

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// Client is a connection to Keywork's servers. It connects when it is first used, and may be used by many goroutines.
// It retries what is safe to retry and tells the rest to the caller; it never runs jobs: that is a [Worker]'s part.
//
// The errors of its methods are each an [*Error].
type Client struct {
	options   ClientOptions
	endpoints []endpoint
	pool      *pool
	work      keyworkv1.WorkQueueClient
	admin     keyworkv1.QueueAdminClient
	schedules keyworkv1.SchedulesClient

	mu sync.Mutex
	// outage of submits.
	outage outage
}

// NewClient makes a client; nothing is connected yet. It fails when an option is wrong: the [*Error] names each that is.
func NewClient(options ClientOptions) (*Client, error) {
	options = options.withDefaults()
	endpoints, err := options.check()
	if err != nil {
		return nil, err
	}
	c := &Client{options: options, endpoints: endpoints}
	c.pool = newPool(&c.options, endpoints)
	c.work = keyworkv1.NewWorkQueueClient(c.pool)
	c.admin = keyworkv1.NewQueueAdminClient(c.pool)
	c.schedules = keyworkv1.NewSchedulesClient(c.pool)
	return c, nil
}

// MustClient is a client of these servers, for endpoints that stand in the program's text: it panics when one is not
// such as "http://127.0.0.1:50051". Without any, it is a client of [DefaultEndpoint].
func MustClient(endpoints ...string) *Client {
	client, err := NewClient(ClientOptions{Endpoints: endpoints})
	if err != nil {
		panic(err)
	}
	return client
}

// Close closes the connections. Calls that are under way fail. A [Worker] has connections of its own, which end with
// its Run.
func (c *Client) Close() error { return c.pool.close() }

// Raw is what the generated clients of package keyworkv1 are made from, for every RPC and every field. Calls turn to
// another server after an outage, like the client's own, and are not repeated:
//
//	keyworkv1.NewWorkQueueClient(client.Raw()).GetJob(ctx, &keyworkv1.GetJobRequest{Queue: "q", Key: "k"})
func (c *Client) Raw() grpc.ClientConnInterface { return c.pool }

// warnOfOutage warns now and then that submits are tried again: they may be for as long as their deadline.
func (c *Client) warnOfOutage(ctx context.Context, place int, err *Error) {
	c.mu.Lock()
	due := c.outage.isToBeWarnedOf(time.Now())
	c.mu.Unlock()
	if !due {
		return
	}
	// What the program's log does wrong must not end its submits.
	defer func() { _ = recover() }()
	cmp.Or(c.options.Logger, slog.Default()).LogAttrs(ctx, slog.LevelWarn, "keywork: no answer to a submit, trying again",
		slog.String("endpoint", c.endpoints[place].uri), slog.String("error", err.Error()),
		slog.Duration("within", c.options.SubmitDeadline))
}
