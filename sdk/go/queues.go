package keywork

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// QueueConfig is the configuration of a queue. What is nil takes the server's default, or stays as it is in an update;
// [Set] makes a pointer of a value.
type QueueConfig struct {
	// LeaseDuration is how long a lease lasts from its last extension: 2 s to 12 h. Default: 15 s.
	LeaseDuration *time.Duration
	// MaxRunTime is the longest that one attempt may run, heartbeats or not; 0: no limit. Default: 1 h.
	MaxRunTime *time.Duration
	// MaxAttempts before a job becomes a dead letter: 1 to 1,000. Default: 10.
	MaxAttempts *uint32
	// Backoff between attempts. Default: 1 s doubling to 10 min.
	Backoff *Backoff
	// MaxDepth is the most outstanding jobs. Default: 10,000,000.
	MaxDepth *uint64
	// MaxPayloadBytes is the largest payload. Default: 524,288.
	MaxPayloadBytes *uint32
	// DisconnectGrace is after how long a broken stream's leases go to others. Default: at their deadline.
	DisconnectGrace *time.Duration
	// DeadLetterRetention is how long dead letters are kept. Default: 14 days.
	DeadLetterRetention *time.Duration
	// DedupeWindow is how long a RequestID is remembered. Default: 2 min.
	DedupeWindow *time.Duration
}

// Set makes a pointer of a value, for the fields of [QueueConfig].
func Set[T any](value T) *T { return &value }

func (c *QueueConfig) wire() *keyworkv1.QueueConfig {
	return &keyworkv1.QueueConfig{
		LeaseDuration:       optionalDuration(c.LeaseDuration),
		MaxRunTime:          optionalDuration(c.MaxRunTime),
		MaxAttempts:         c.MaxAttempts,
		Backoff:             c.Backoff.wire(),
		MaxDepth:            c.MaxDepth,
		MaxPayloadBytes:     c.MaxPayloadBytes,
		DisconnectGrace:     optionalDuration(c.DisconnectGrace),
		DeadLetterRetention: optionalDuration(c.DeadLetterRetention),
		DedupeWindow:        optionalDuration(c.DedupeWindow),
	}
}

func optionalDuration(duration *time.Duration) *durationpb.Duration {
	if duration == nil {
		return nil
	}
	return durationpb.New(*duration)
}

func durationOption(wire *durationpb.Duration) *time.Duration {
	if wire == nil {
		return nil
	}
	return Set(toDuration(wire))
}

func queueConfigOf(wire *keyworkv1.QueueConfig) QueueConfig {
	config := QueueConfig{
		LeaseDuration:       durationOption(wire.GetLeaseDuration()),
		MaxRunTime:          durationOption(wire.GetMaxRunTime()),
		DisconnectGrace:     durationOption(wire.GetDisconnectGrace()),
		DeadLetterRetention: durationOption(wire.GetDeadLetterRetention()),
		DedupeWindow:        durationOption(wire.GetDedupeWindow()),
	}
	if wire == nil {
		return config
	}
	config.MaxAttempts, config.MaxDepth, config.MaxPayloadBytes = wire.MaxAttempts, wire.MaxDepth, wire.MaxPayloadBytes
	if backoff := wire.GetBackoff(); backoff != nil {
		config.Backoff = &Backoff{toDuration(backoff.GetInitial()), toDuration(backoff.GetMax())}
	}
	return config
}

// setFields are the names of the fields that are set, as an update's mask has them.
func (c *QueueConfig) setFields() *fieldmaskpb.FieldMask {
	mask := new(fieldmaskpb.FieldMask)
	add := func(name string, set bool) {
		if set {
			mask.Paths = append(mask.Paths, name)
		}
	}
	add("lease_duration", c.LeaseDuration != nil)
	add("max_run_time", c.MaxRunTime != nil)
	add("max_attempts", c.MaxAttempts != nil)
	add("backoff", c.Backoff != nil)
	add("max_depth", c.MaxDepth != nil)
	add("max_payload_bytes", c.MaxPayloadBytes != nil)
	add("disconnect_grace", c.DisconnectGrace != nil)
	add("dead_letter_retention", c.DeadLetterRetention != nil)
	add("dedupe_window", c.DedupeWindow != nil)
	return mask
}

// Queue is one queue.
type Queue struct {
	// Name is its name.
	Name string
	// Config is its configuration, defaults filled in.
	Config QueueConfig
	// Paused: no deliveries.
	Paused bool
	// CreatedAt is when it was made.
	CreatedAt time.Time
	// Stats say what is in it.
	Stats QueueStats
	// Replicas is how many NATS nodes keep it.
	Replicas int
}

// QueueStats say what is in a queue.
type QueueStats struct {
	// Outstanding jobs.
	Outstanding uint64
	// Ready, of these: never delivered yet.
	Ready uint64
	// InFlight, of these: leased, scheduled or waiting to retry.
	InFlight uint64
	// Dead letters.
	Dead uint64
	// Sessions that serve it, at the server that answers.
	Sessions int
}

func queueOf(wire *keyworkv1.Queue) *Queue {
	stats := wire.GetStats()
	return &Queue{
		Name:      wire.GetName(),
		Config:    queueConfigOf(wire.GetConfig()),
		Paused:    wire.GetPaused(),
		CreatedAt: toTime(wire.GetCreatedAt()),
		Replicas:  int(wire.GetReplicas()),
		Stats: QueueStats{
			Outstanding: stats.GetOutstanding(),
			Ready:       stats.GetReady(),
			InFlight:    stats.GetInFlight(),
			Dead:        stats.GetDead(),
			Sessions:    int(stats.GetSessions()),
		},
	}
}

// holdsQueue is an answer with a queue in it.
type holdsQueue interface{ GetQueue() *keyworkv1.Queue }

func queueIn(response holdsQueue, err error) (*Queue, error) {
	if err != nil {
		return nil, err
	}
	return queueOf(response.GetQueue()), nil
}

// CreateQueue makes a queue; also when it is there already with this configuration.
func (c *Client) CreateQueue(ctx context.Context, name string, config QueueConfig) (*Queue, error) {
	request := &keyworkv1.CreateQueueRequest{Name: name, Config: config.wire()}
	return queueIn(once(ctx, c, request, c.admin.CreateQueue))
}

// UpdateQueue changes what is set in the configuration, and nothing else.
func (c *Client) UpdateQueue(ctx context.Context, name string, config QueueConfig) (*Queue, error) {
	request := &keyworkv1.UpdateQueueRequest{Name: name, Config: config.wire(), UpdateMask: config.setFields()}
	return queueIn(once(ctx, c, request, c.admin.UpdateQueue))
}

// GetQueue gives one queue with its counts.
func (c *Client) GetQueue(ctx context.Context, name string) (*Queue, error) {
	return queueIn(once(ctx, c, &keyworkv1.GetQueueRequest{Name: name}, c.admin.GetQueue))
}

// ListQueues gives a page of all queues, by name, and the token of the next page: empty where there is none.
func (c *Client) ListQueues(ctx context.Context, page Page) ([]*Queue, string, error) {
	if err := page.check(); err != nil {
		return nil, "", err
	}
	request := &keyworkv1.ListQueuesRequest{PageSize: uint32(page.Size), PageToken: page.Token}
	response, err := once(ctx, c, request, c.admin.ListQueues)
	return each(response.GetQueues(), queueOf), response.GetNextPageToken(), err
}

// Queues gives all queues, by name, page by page. An error ends it.
func (c *Client) Queues(ctx context.Context) iter.Seq2[*Queue, error] {
	return pages(func(page Page) ([]*Queue, string, error) { return c.ListQueues(ctx, page) })
}

// DeleteQueue deletes a queue; with force also when it holds jobs or dead letters.
func (c *Client) DeleteQueue(ctx context.Context, name string, force bool) error {
	_, err := once(ctx, c, &keyworkv1.DeleteQueueRequest{Name: name, Force: force}, c.admin.DeleteQueue)
	return err
}

// PauseQueue stops deliveries. Leases that are out go on; submits are accepted.
func (c *Client) PauseQueue(ctx context.Context, name string) (*Queue, error) {
	return queueIn(once(ctx, c, &keyworkv1.PauseQueueRequest{Name: name}, c.admin.PauseQueue))
}

// ResumeQueue goes on with deliveries.
func (c *Client) ResumeQueue(ctx context.Context, name string) (*Queue, error) {
	return queueIn(once(ctx, c, &keyworkv1.ResumeQueueRequest{Name: name}, c.admin.ResumeQueue))
}

// PurgeQueue ends all outstanding jobs of a queue without running them; it tells how many.
func (c *Client) PurgeQueue(ctx context.Context, name string) (uint64, error) {
	response, err := once(ctx, c, &keyworkv1.PurgeQueueRequest{Name: name}, c.admin.PurgeQueue)
	return response.GetPurged(), err
}
