package keywork

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// Submit is a job to offer.
type Submit struct {
	// Queue is the queue's name. It is made with defaults on first use, unless the server says otherwise.
	Queue string
	// Key is what the job is about: non-empty UTF-8, at most 512 bytes, no control characters.
	Key string
	// Payload is what the handler gets: at most the queue's limit, 512 KiB by default.
	Payload []byte
	// ContentType is the payload's media type. Default: none.
	ContentType string
	// Attributes: at most 64, 16 KiB in all.
	Attributes map[string]string
	// RequestID is a UUID that names this submit; it becomes the job's id, and offering it again finds the same job.
	// Default: the client makes one, and keeps it over its own retries.
	RequestID string
	// OnConflict says what to do when the key is busy. Default: [OnConflictReject].
	OnConflict OnConflict
	// Delay starts the job no sooner than this long from now; the key is taken at once.
	Delay time.Duration
	// StartAt starts it no sooner than at this time. A submit that has both a delay and this is refused.
	StartAt time.Time
	// ExpiresAt makes it a dead letter when it has not started by then. Default: never.
	ExpiresAt time.Time
	// MaxAttempts before it becomes a dead letter: 1 to 1,000. Default: the queue's.
	MaxAttempts int
	// Backoff between attempts. Default: the queue's.
	Backoff *Backoff
}

// Backoff is how long to wait between attempts: the first wait, doubled up to the longest.
type Backoff struct {
	// Initial is the wait after the first attempt: 0 to 24 h.
	Initial time.Duration
	// Max is the longest wait: at least Initial, at most 30 days.
	Max time.Duration
}

// OnConflict says what to do when the key has an outstanding job already.
type OnConflict int

// What to do when the key is busy.
const (
	// OnConflictReject answers [AlreadyOutstanding]. The default.
	OnConflictReject OnConflict = iota
	// OnConflictRerun runs the key once more after the current job, with the newest payload.
	OnConflictRerun
	// OnConflictReplace takes the place of a job that has not started.
	OnConflictReplace
	// OnConflictFail answers with an error of the code AlreadyExists.
	OnConflictFail
)

// SubmitOutcome is how a submit ended.
type SubmitOutcome int

// How submits end.
const (
	// Created: the job was accepted and holds the key.
	Created SubmitOutcome = SubmitOutcome(keyworkv1.SubmitOutcome_SUBMIT_OUTCOME_CREATED)
	// Duplicate: this RequestID was accepted before; the job is that one, outstanding or ended.
	Duplicate SubmitOutcome = SubmitOutcome(keyworkv1.SubmitOutcome_SUBMIT_OUTCOME_DUPLICATE)
	// AlreadyOutstanding: the key is busy with the job that is named; nothing was stored.
	AlreadyOutstanding SubmitOutcome = SubmitOutcome(keyworkv1.SubmitOutcome_SUBMIT_OUTCOME_ALREADY_OUTSTANDING)
	// RerunScheduled: the key will run once more with this payload after the job that is named.
	RerunScheduled SubmitOutcome = SubmitOutcome(keyworkv1.SubmitOutcome_SUBMIT_OUTCOME_RERUN_SCHEDULED)
	// Replaced: the job took the place of one that had not started.
	Replaced SubmitOutcome = SubmitOutcome(keyworkv1.SubmitOutcome_SUBMIT_OUTCOME_REPLACED)
)

// String is the contract's name without its prefix, such as "CREATED".
func (o SubmitOutcome) String() string {
	return nameOf(keyworkv1.SubmitOutcome_name, int(o), "SUBMIT_OUTCOME_")
}

// Submitted is the answer to a submit.
type Submitted struct {
	// Outcome says how it ended.
	Outcome SubmitOutcome
	// Job holds the key, or, for [Duplicate], was accepted before. It comes without its payload.
	Job *Job
}

// Accepted says whether what was offered was accepted, now or at an earlier try. False: the key is busy.
func (s Submitted) Accepted() bool {
	return s.Outcome != AlreadyOutstanding && s.Job != nil
}

// SubmitResult is how one of many submits ended: an answer, or an error that touches this one alone.
type SubmitResult struct {
	Submitted
	// Err is nil where there is an answer, and an [*Error] otherwise.
	Err error
}

// SubmitInterceptor is told of every submit, alone or one of many, before it is sent, and may change it. What it
// returns, unless that is nil, is called with the outcome; not for offers of a SubmitStream whose loop was left before.
type SubmitInterceptor func(ctx context.Context, submit *Submit) (done func(Submitted, error))

// Submit offers one job. While servers are away it tries again, with the same RequestID, until the client's
// SubmitDeadline or the context's. The error is an [*Error]; its HasNoSideEffects says whether the job may have been
// accepted.
func (c *Client) Submit(ctx context.Context, submit Submit) (Submitted, error) {
	offer := c.offer(ctx, submit)
	if offer.wrong != nil {
		return offer.end(Submitted{}, offer.wrong)
	}
	answer, err := untilAnswered(ctx, c, func(limit time.Duration) (*keyworkv1.SubmitResponse, *Error) {
		return call(ctx, limit, offer.request, c.work.Submit)
	})
	if err != nil {
		return offer.end(Submitted{}, err)
	}
	return offer.end(offer.read(answer))
}

// offer is a request that is ready to be sent, as often as it takes.
type offer struct {
	request *keyworkv1.SubmitRequest
	// ownID: this package made the id. Then a duplicate can only be an earlier try of the same call.
	ownID bool
	// wrong: it cannot be sent.
	wrong *Error
	done  []func(Submitted, error)
}

func (c *Client) offer(ctx context.Context, submit Submit) *offer {
	o := new(offer)
	made := newRequestID()
	submit.RequestID = cmp.Or(submit.RequestID, made)
	if len(c.options.SubmitInterceptors) > 0 {
		// What an interceptor adds is not to show in the caller's map.
		submit.Attributes = maps.Clone(submit.Attributes)
	}
	for _, intercept := range c.options.SubmitInterceptors {
		if done := intercept(ctx, &submit); done != nil {
			o.done = append(o.done, done)
		}
	}
	// Without one it could not be offered again, whatever an interceptor thinks.
	submit.RequestID = cmp.Or(submit.RequestID, made)
	o.ownID = submit.RequestID == made
	o.wrong = submit.check()
	o.request = submit.wire()
	return o
}

// check finds what cannot be written to the wire as it was meant; the server checks the rest.
func (s *Submit) check() *Error {
	var wrong faults
	wrong.text("queue", s.Queue)
	wrong.text("key", s.Key)
	wrong.text("content_type", s.ContentType)
	wrong.text("request_id", s.RequestID)
	for _, name := range slices.Sorted(maps.Keys(s.Attributes)) {
		wrong.text("attributes", name)
		wrong.text("attributes", s.Attributes[name])
	}
	if s.Delay != 0 && !s.StartAt.IsZero() {
		wrong.add("start_at", "must not be set together with delay")
	}
	if s.OnConflict < OnConflictReject || s.OnConflict > OnConflictFail {
		wrong.add("on_conflict", "must be one of the OnConflict constants, not %d", s.OnConflict)
	}
	wrong.number("max_attempts", s.MaxAttempts, "from 1 to 1,000, or 0 for the queue's")
	return wrong.err()
}

func newRequestID() string {
	return uuid.Must(uuid.NewV7()).String()
}

func (s *Submit) wire() *keyworkv1.SubmitRequest {
	request := &keyworkv1.SubmitRequest{
		Queue:       s.Queue,
		Key:         s.Key,
		Payload:     s.Payload,
		ContentType: s.ContentType,
		Attributes:  s.Attributes,
		RequestId:   s.RequestID,
		OnConflict:  keyworkv1.OnConflict(s.OnConflict) + keyworkv1.OnConflict_ON_CONFLICT_REJECT,
		ExpiresAt:   fromTime(s.ExpiresAt),
		MaxAttempts: uint32(s.MaxAttempts),
		Backoff:     s.Backoff.wire(),
	}
	if !s.StartAt.IsZero() {
		request.Start = &keyworkv1.SubmitRequest_StartAt{StartAt: fromTime(s.StartAt)}
	} else if s.Delay != 0 {
		request.Start = &keyworkv1.SubmitRequest_Delay{Delay: fromDuration(s.Delay)}
	}
	return request
}

func (b *Backoff) wire() *keyworkv1.Backoff {
	if b == nil {
		return nil
	}
	return &keyworkv1.Backoff{Initial: durationpb.New(b.Initial), Max: durationpb.New(b.Max)}
}

// end tells the interceptors, the last one first, and the caller.
func (o *offer) end(submitted Submitted, err *Error) (Submitted, error) {
	var plain error
	if err != nil {
		plain = err
	}
	for i := len(o.done) - 1; i >= 0; i-- {
		o.done[i](submitted, plain)
	}
	return submitted, plain
}

func (o *offer) endAsResult(submitted Submitted, err *Error) SubmitResult {
	answer, plain := o.end(submitted, err)
	return SubmitResult{answer, plain}
}

func (o *offer) read(wire *keyworkv1.SubmitResponse) (Submitted, *Error) {
	outcome := SubmitOutcome(wire.GetOutcome())
	if outcome == Duplicate && o.ownID {
		outcome = Created
	}
	if outcome < Created || outcome > Replaced {
		err := localError(codes.Internal, "the server answered with an outcome that this version does not know")
		return Submitted{}, err.withDoubt(true)
	}
	return Submitted{outcome, jobOf(wire.GetJob())}, nil
}

// readItem reads the result of one item of a batch or a stream.
func (o *offer) readItem(wire *keyworkv1.SubmitResult) (Submitted, *Error) {
	if item := wire.GetError(); item != nil {
		return Submitted{}, itemError(item)
	}
	return o.read(wire.GetResponse())
}
