package keywork

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// Pull is what to lease without a stream: for programs that run now and then. The caller keeps the deadlines; a
// [Worker] does that by itself.
type Pull struct {
	// Queue is the queue's name.
	Queue string
	// MaxJobs is the most: 1 to 1,000. Default: 1.
	MaxJobs int
	// Wait is how long to wait for the first job: up to 60 s. Default: 20 s. [NoWait] for not at all.
	Wait time.Duration
	// WorkerID names the worker, for people who look at the job. Default: the server makes one up.
	WorkerID string
}

// NoWait is the [Pull.Wait] of a pull that does not wait.
const NoWait time.Duration = -1

const defaultPullWait = 20 * time.Second

// Leased is a job with its lease.
type Leased struct {
	// Token names the lease: opaque.
	Token []byte
	// Job is the job.
	Job *Job
	// TimeLeft until the deadline, from when the server sent this. Count it from before the call.
	TimeLeft time.Duration
}

// Pull leases jobs without a stream: none when the wait ended without one.
func (c *Client) Pull(ctx context.Context, pull Pull) ([]Leased, error) {
	if err := pull.check(); err != nil {
		return nil, err
	}
	wait := max(cmp.Or(pull.Wait, defaultPullWait), 0)
	request := &keyworkv1.PullRequest{
		Queue: pull.Queue, MaxJobs: uint32(pull.MaxJobs), Wait: durationpb.New(wait), WorkerId: pull.WorkerID,
	}
	response, err := call(ctx, wait+c.options.CallTimeout, request, c.work.Pull)
	if err != nil {
		return nil, err
	}
	return each(response.GetDeliveries(), leasedOf), nil
}

func (p *Pull) check() *Error {
	var wrong faults
	wrong.number("max_jobs", p.MaxJobs, "from 1 to 1,000, or 0 for 1")
	if p.Wait < 0 && p.Wait != NoWait {
		wrong.add("wait", "must not be negative, or be NoWait, not %v", p.Wait)
	}
	return wrong.err()
}

func leasedOf(wire *keyworkv1.Delivery) Leased {
	return Leased{wire.GetLeaseToken(), jobOfDelivery(wire), toDuration(wire.GetTimeLeft())}
}

// LeaseExtension is what became of one lease that was to be extended.
type LeaseExtension struct {
	// Token is the one to use from now on.
	Token []byte
	// TimeLeft until the new deadline, from when the server sent this. 0: it was not extended.
	TimeLeft time.Duration
	// Lost: it is lost, for this reason. Otherwise [LostReasonUnknown].
	Lost LostReason
	// TryAgain: the lease is as before; try again.
	TryAgain bool
}

// Heartbeat extends leases: one result for each token, in their order.
func (c *Client) Heartbeat(ctx context.Context, tokens ...[]byte) ([]LeaseExtension, error) {
	response, err := once(ctx, c, &keyworkv1.HeartbeatRequest{LeaseTokens: tokens}, c.work.Heartbeat)
	return each(response.GetResults(), extensionOf), err
}

func extensionOf(wire *keyworkv1.HeartbeatResult) LeaseExtension {
	return LeaseExtension{
		Token:    wire.GetLeaseToken(),
		TimeLeft: toDuration(wire.GetTimeLeft()),
		Lost:     LostReason(wire.GetLost()),
		TryAgain: wire.GetTryAgain(),
	}
}

// Settlement says how a lease is to end. The outcome is one of those that a handler's result means: [OutcomeOf].
type Settlement struct {
	// Token names the lease.
	Token []byte
	// Outcome is how it ends.
	Outcome Outcome
}

// SettlementOutcome is what became of a settlement.
type SettlementOutcome int

// What becomes of settlements.
const (
	// Settled: it counts. Where the job ended, its key is free.
	Settled SettlementOutcome = SettlementOutcome(keyworkv1.SettlementOutcome_SETTLEMENT_OUTCOME_SETTLED)
	// AlreadySettled: the job had ended already; most likely an earlier try of this settlement counted.
	AlreadySettled SettlementOutcome = SettlementOutcome(keyworkv1.SettlementOutcome_SETTLEMENT_OUTCOME_ALREADY_SETTLED)
	// LeaseLost: the lease was lost before. Nothing was changed.
	LeaseLost SettlementOutcome = SettlementOutcome(keyworkv1.SettlementOutcome_SETTLEMENT_OUTCOME_LEASE_LOST)
	// TryAgain: the server could not tell: send the same settlement again.
	TryAgain SettlementOutcome = SettlementOutcome(keyworkv1.SettlementOutcome_SETTLEMENT_OUTCOME_TRY_AGAIN)
	// InvalidLease: the token is malformed or forged.
	InvalidLease SettlementOutcome = SettlementOutcome(keyworkv1.SettlementOutcome_SETTLEMENT_OUTCOME_INVALID_LEASE)
	// Rejected: the settlement breaks a limit, or is one that the server does not serve.
	Rejected SettlementOutcome = SettlementOutcome(keyworkv1.SettlementOutcome_SETTLEMENT_OUTCOME_REJECTED)
)

// String is the contract's name without its prefix, such as "SETTLED".
func (o SettlementOutcome) String() string {
	return nameOf(keyworkv1.SettlementOutcome_name, int(o), "SETTLEMENT_OUTCOME_")
}

// SettlementResult is the answer to one settlement.
type SettlementResult struct {
	// Outcome says what became of it.
	Outcome SettlementOutcome
	// Err says why, for [Rejected]; it is an [*Error].
	Err error
}

// Ack settles leases: one result for each, in their order. Repeating it is safe.
func (c *Client) Ack(ctx context.Context, settlements ...Settlement) ([]SettlementResult, error) {
	var wrong faults
	for i, settlement := range settlements {
		if kind := settlement.Outcome.Kind; kind < OutcomeComplete || kind > OutcomeRerun {
			wrong.add(fmt.Sprintf("settlements[%d].outcome", i), "must be one that settles, not %q", kind)
		}
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	request := &keyworkv1.AckRequest{Settlements: each(settlements, settlementOnTheWire)}
	response, err := once(ctx, c, request, c.work.Ack)
	return each(response.GetResults(), settlementResultOf), err
}

func settlementOnTheWire(s Settlement) *keyworkv1.Settlement { return s.Outcome.settle(s.Token) }

func settlementResultOf(wire *keyworkv1.SettlementResult) SettlementResult {
	result := SettlementResult{Outcome: SettlementOutcome(wire.GetOutcome())}
	if item := wire.GetError(); item != nil {
		result.Err = itemError(item)
	}
	return result
}
