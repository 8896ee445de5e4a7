package keyworktest

import (
	"time"

	"google.golang.org/grpc/codes"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// settle settles a lease and notes it.
func (s *state) settle(settlement *keyworkv1.Settlement) *keyworkv1.SettlementResult {
	token := string(settlement.GetLeaseToken())
	seen := SeenSettlement{}
	seen.Kind, seen.Error = kindOf(settlement)
	if lease := s.leases[token]; lease != nil {
		seen.Key = lease.key
	}
	if answers := s.script.SettlementAnswers; len(answers) > 0 {
		seen.Answer, s.script.SettlementAnswers = answers[0], answers[1:]
	} else {
		seen.Answer = s.settleTruly(token, settlement)
	}
	s.seen.Settlements = append(s.seen.Settlements, seen)
	result := &keyworkv1.SettlementResult{
		LeaseToken: settlement.GetLeaseToken(), Outcome: keyworkv1.SettlementOutcome(seen.Answer),
	}
	if seen.Answer == keywork.Rejected {
		st := RefusalOf(codes.Unimplemented, keywork.ReasonNotServedYet, "not served yet")
		result.Error = itemOf(st)
	}
	return result
}

func (s *state) settleTruly(token string, settlement *keyworkv1.Settlement) keywork.SettlementOutcome {
	if settlement.GetRerun() != nil || settlement.GetOutcome() == nil {
		return keywork.Rejected
	}
	lease := s.leases[token]
	switch {
	case lease == nil && s.settled[token]:
		return keywork.AlreadySettled
	case lease == nil:
		return keywork.LeaseLost
	}
	s.settled[token] = true
	if settlement.GetRelease() != nil {
		s.handBack(token)
		return keywork.Settled
	}
	s.takeLease(token)
	s.endAttempt(lease, settlement)
	return keywork.Settled
}

func (s *state) endAttempt(lease *lease, settlement *keyworkv1.Settlement) {
	switch outcome := settlement.GetOutcome().(type) {
	case *keyworkv1.Settlement_Retry:
		var delay *time.Duration
		if outcome.Retry.GetDelay() != nil {
			delay = keywork.Set(outcome.Retry.GetDelay().AsDuration())
		}
		reason := keyworkv1.DeadReason_DEAD_REASON_ATTEMPTS_EXHAUSTED
		s.retry(lease, delay, outcome.Retry.GetError(), reason)
	case *keyworkv1.Settlement_Fail:
		s.bury(lease, outcome.Fail.GetError(), keyworkv1.DeadReason_DEAD_REASON_FAILED)
	default:
		delete(s.queues[lease.queue].jobs, lease.key)
	}
}
