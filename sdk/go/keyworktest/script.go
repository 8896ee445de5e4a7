package keyworktest

import (
	"slices"

	"google.golang.org/grpc/status"

	keywork "github.com/keywork/keywork/sdk/go"
	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

// Script is what a [Server] does wrong on purpose. By default: nothing.
type Script struct {
	// UnwelcomeSessions: so many of the next sessions are opened and never welcomed.
	UnwelcomeSessions int
	// RefuseSessions: the next sessions are refused with these.
	RefuseSessions []*status.Status
	// IgnoreHeartbeats: heartbeats are read, extend nothing and are not answered.
	IgnoreHeartbeats bool
	// UnconfirmedHeartbeats: heartbeats extend nothing, and the answer says that nothing could be confirmed.
	UnconfirmedHeartbeats bool
	// Silent: nothing is sent to any session.
	Silent bool
	// UnansweredSettlements: so many of the next settlements take effect and are not answered.
	UnansweredSettlements int
	// SettlementAnswers: the next settlements have no effect and are answered with these.
	SettlementAnswers []keywork.SettlementOutcome
	// SubmitFaults: the next submits, alone, in a batch or on a stream, meet these.
	SubmitFaults []SubmitFault
}

// SubmitFault is what goes wrong with one submit.
type SubmitFault struct {
	kind    faultKind
	refusal *status.Status
}

type faultKind int

const (
	noFault faultKind = iota
	unavailable
	answerLost
	broken
	refused
)

// Unavailable: nothing is stored, and the answer says so.
func Unavailable() SubmitFault { return SubmitFault{kind: unavailable} }

// AnswerLost: the job is stored, and the answer says that it may not be.
func AnswerLost() SubmitFault { return SubmitFault{kind: answerLost} }

// Broken: the job is stored and the stream, or the call, breaks.
func Broken() SubmitFault { return SubmitFault{kind: broken} }

// Refused: it is refused with this status.
func Refused(refusal *status.Status) SubmitFault { return SubmitFault{kind: refused, refusal: refusal} }

// Seen is what a [Server] has seen, in order.
type Seen struct {
	// Hellos of sessions.
	Hellos []*keyworkv1.Hello
	// Metadata is what came with the newest session or call.
	Metadata map[string][]string
	// Sessions that are open now.
	Sessions int
	// Heartbeats is how many came.
	Heartbeats int
	// Capacity is the newest that a session was set to; -1 before the first.
	Capacity int
	// Settlements, also those without effect.
	Settlements []SeenSettlement
	// SettlementMessages is how many messages they came in.
	SettlementMessages int
	// Delivered keys.
	Delivered []string
	// Drains is how many sessions asked for no more deliveries.
	Drains int
	// Submits are the request ids of submits, each as often as it came.
	Submits []string
	// Expired is how many leases ran out.
	Expired int
}

// SeenSettlement is one settlement that a server was sent.
type SeenSettlement struct {
	// Key, as long as the server knows the lease.
	Key string
	// Kind is how it was settled.
	Kind keywork.OutcomeKind
	// Error is the error or reason that came with it.
	Error string
	// Answer is what was, or would have been, answered.
	Answer keywork.SettlementOutcome
}

// Settled are the keys that were settled in this way, where it counted.
func (s Seen) Settled(kind keywork.OutcomeKind) []string {
	var keys []string
	for _, settlement := range s.Settlements {
		if settlement.Kind == kind && settlement.Answer == keywork.Settled {
			keys = append(keys, settlement.Key)
		}
	}
	return keys
}

func (s Seen) clone() Seen {
	s.Hellos = slices.Clone(s.Hellos)
	s.Settlements = slices.Clone(s.Settlements)
	s.Delivered = slices.Clone(s.Delivered)
	s.Submits = slices.Clone(s.Submits)
	return s
}
