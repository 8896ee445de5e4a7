package keywork

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// Job is one job, as a client and a handler see it.
type Job struct {
	// ID is the RequestID of its submit where one was given.
	ID string
	// Queue is the queue's name.
	Queue string
	// Key is what the job is about: at most one job of a key is outstanding in a queue.
	Key string
	// Payload is empty where a job is only named, as in a submit's outcome.
	Payload []byte
	// ContentType is the payload's media type, as given by the submitter.
	ContentType string
	// Attributes are the submitter's.
	Attributes map[string]string
	// State is where the job was in its life when the server answered.
	State JobState
	// Attempt is the one that runs, or that comes next: the first is 1.
	Attempt int
	// MaxAttempts is how many it has before it becomes a dead letter.
	MaxAttempts int
	// SubmittedAt is when it was accepted.
	SubmittedAt time.Time
	// StartAt is the time before which it does not start. Zero: at once.
	StartAt time.Time
	// ExpiresAt is when it becomes a dead letter unless it has started. Zero: never.
	ExpiresAt time.Time
	// LastError is what the last failed attempt said.
	LastError string
	// Holder is the worker that holds the lease, where the server knows it.
	Holder string
	// LeaseDeadline is until when the lease holds unless it is extended, by the server's clock. A handler asks
	// [Job.Deadline] instead.
	LeaseDeadline time.Time
	// FencingNumber grows with every lease of the key: pass it to what the handler writes to. 0: not leased.
	FencingNumber uint64
	// Age is how long ago it was accepted, by the server's clock.
	Age time.Duration

	fence *fence
}

// String names the job, and shows none of what it carries.
func (j *Job) String() string {
	return fmt.Sprintf("%s/%s (%s, %s, attempt %d)", j.Queue, j.Key, j.ID, j.State, j.Attempt)
}

// LogValue is what log/slog writes of the job: what names it, and nothing of what it carries.
func (j *Job) LogValue() slog.Value {
	return slog.GroupValue(slog.String("queue", j.Queue), slog.String("key", j.Key), slog.String("id", j.ID),
		slog.Int("attempt", j.Attempt))
}

// fence is when a handler is to stop, as its worker moves it and its handler reads it.
type fence struct{ at atomic.Pointer[time.Time] }

func newFence(at time.Time) *fence {
	f := new(fence)
	f.at.Store(&at)
	return f
}

// Deadline is when a handler is to stop unless the lease is extended by then; heartbeats move it while it runs. For a job
// that no worker handed to a handler it is the LeaseDeadline.
//
// The handler's context has no deadline of its own, so that calls made with it are not cut short by one that moves.
func (j *Job) Deadline() time.Time {
	if j.fence == nil {
		return j.LeaseDeadline
	}
	return *j.fence.at.Load()
}

func jobOf(wire *keyworkv1.Job) *Job {
	return &Job{
		ID:            wire.GetId(),
		Queue:         wire.GetQueue(),
		Key:           wire.GetKey(),
		Payload:       wire.GetPayload(),
		ContentType:   wire.GetContentType(),
		Attributes:    wire.GetAttributes(),
		State:         JobState(wire.GetState()),
		Attempt:       int(wire.GetAttempt()),
		MaxAttempts:   int(wire.GetMaxAttempts()),
		SubmittedAt:   toTime(wire.GetSubmittedAt()),
		StartAt:       toTime(wire.GetStartAt()),
		ExpiresAt:     toTime(wire.GetExpiresAt()),
		LastError:     wire.GetLastError(),
		Holder:        wire.GetHolder(),
		LeaseDeadline: toTime(wire.GetLeaseDeadline()),
		FencingNumber: wire.GetFencingNumber(),
		Age:           toDuration(wire.GetAge()),
	}
}

// jobOfDelivery is the job as its handler is to see it.
func jobOfDelivery(wire *keyworkv1.Delivery) *Job {
	job := jobOf(wire.GetJob())
	job.Attempt = int(wire.GetAttempt())
	job.FencingNumber = wire.GetFencingNumber()
	return job
}

// JobState is where a job is in its life.
type JobState int

// The states of a job. A server may say one that this version does not know.
const (
	// JobStateUnknown: the server did not say.
	JobStateUnknown JobState = JobState(keyworkv1.JobState_JOB_STATE_UNSPECIFIED)
	// JobStateScheduled: accepted; not to start before a time that is still to come.
	JobStateScheduled JobState = JobState(keyworkv1.JobState_JOB_STATE_SCHEDULED)
	// JobStateQueued: waiting for a worker.
	JobStateQueued JobState = JobState(keyworkv1.JobState_JOB_STATE_QUEUED)
	// JobStateLeased: a worker holds a lease of it.
	JobStateLeased JobState = JobState(keyworkv1.JobState_JOB_STATE_LEASED)
	// JobStateRetrying: an attempt failed; the next one waits for its time.
	JobStateRetrying JobState = JobState(keyworkv1.JobState_JOB_STATE_RETRYING)
	// JobStateDead: used up its attempts or was failed.
	JobStateDead JobState = JobState(keyworkv1.JobState_JOB_STATE_DEAD)
	// JobStateEnded: nothing of it is outstanding.
	JobStateEnded JobState = JobState(keyworkv1.JobState_JOB_STATE_ENDED)
)

// String is the contract's name without its prefix, such as "QUEUED".
func (s JobState) String() string { return nameOf(keyworkv1.JobState_name, int(s), "JOB_STATE_") }

// DeadJob is a job that ended as a dead letter.
type DeadJob struct {
	// DeadID names the dead letter within its queue.
	DeadID uint64
	// Job has its payload and attributes.
	Job *Job
	// Reason is why it died.
	Reason DeadReason
	// DiedAt is when.
	DiedAt time.Time
}

func deadJobOf(wire *keyworkv1.DeadJob) *DeadJob {
	return &DeadJob{
		DeadID: wire.GetDeadId(),
		Job:    jobOf(wire.GetJob()),
		Reason: DeadReason(wire.GetReason()),
		DiedAt: toTime(wire.GetDiedAt()),
	}
}

// DeadReason is why a job became a dead letter.
type DeadReason int

// Why jobs die. A server may say a reason that this version does not know.
const (
	// DeadReasonUnknown: the server did not say.
	DeadReasonUnknown DeadReason = DeadReason(keyworkv1.DeadReason_DEAD_REASON_UNSPECIFIED)
	// DeadReasonAttemptsExhausted: its last allowed attempt failed.
	DeadReasonAttemptsExhausted DeadReason = DeadReason(keyworkv1.DeadReason_DEAD_REASON_ATTEMPTS_EXHAUSTED)
	// DeadReasonLeaseExpired: its last allowed attempt ended because the lease ran out.
	DeadReasonLeaseExpired DeadReason = DeadReason(keyworkv1.DeadReason_DEAD_REASON_LEASE_EXPIRED)
	// DeadReasonFailed: a handler failed it for good.
	DeadReasonFailed DeadReason = DeadReason(keyworkv1.DeadReason_DEAD_REASON_FAILED)
	// DeadReasonExpired: it had not started when its ExpiresAt came.
	DeadReasonExpired DeadReason = DeadReason(keyworkv1.DeadReason_DEAD_REASON_EXPIRED)
	// DeadReasonUnreadable: what is stored could not be read as a job.
	DeadReasonUnreadable DeadReason = DeadReason(keyworkv1.DeadReason_DEAD_REASON_UNREADABLE)
)

// String is the contract's name without its prefix, such as "FAILED".
func (r DeadReason) String() string {
	return nameOf(keyworkv1.DeadReason_name, int(r), "DEAD_REASON_")
}

// LostReason is why a lease was lost.
type LostReason int

// Why leases are lost. A server may say a reason that this version does not know.
const (
	// LostReasonUnknown: nobody said; in a worker's event, the worker itself could no longer be sure of the lease.
	LostReasonUnknown LostReason = LostReason(keyworkv1.LostReason_LOST_REASON_UNSPECIFIED)
	// LostReasonExpired: its deadline passed, or the job ended or was given to another.
	LostReasonExpired LostReason = LostReason(keyworkv1.LostReason_LOST_REASON_EXPIRED)
	// LostReasonCancelled: the job was cancelled, its queue purged or deleted.
	LostReasonCancelled LostReason = LostReason(keyworkv1.LostReason_LOST_REASON_CANCELLED)
	// LostReasonSuperseded: a newer session of the same worker did not go on with it.
	LostReasonSuperseded LostReason = LostReason(keyworkv1.LostReason_LOST_REASON_SUPERSEDED)
	// LostReasonInvalid: the token is malformed, forged or of another queue's making.
	LostReasonInvalid LostReason = LostReason(keyworkv1.LostReason_LOST_REASON_INVALID)
)

// String is the contract's name without its prefix, such as "EXPIRED".
func (r LostReason) String() string {
	return nameOf(keyworkv1.LostReason_name, int(r), "LOST_REASON_")
}
