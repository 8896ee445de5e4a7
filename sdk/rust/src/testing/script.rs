//! What a fake server does wrong on purpose, and what it has seen.

use std::collections::VecDeque;

use tonic::Status;

use crate::raw;

/// What a [`FakeServer`](super::FakeServer) does wrong. By default: nothing.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// So many of the next sessions are opened and never welcomed.
    pub unwelcome_sessions: u32,
    /// The next sessions are refused with these.
    pub refuse_sessions: VecDeque<Status>,
    /// All sessions are refused with this; none: they are not.
    pub refuse_all_sessions: Option<Status>,
    /// Heartbeats are read, extend nothing and are not answered.
    pub ignore_heartbeats: bool,
    /// Heartbeats extend nothing, and the answer says that nothing could be confirmed.
    pub unconfirmed_heartbeats: bool,
    /// Nothing is sent to any session.
    pub silent: bool,
    /// Sessions are given so many jobs more than their capacity.
    pub beyond_capacity: u32,
    /// So many of the next settlements take effect and are not answered.
    pub unanswered_settlements: u32,
    /// The next settlements have no effect and are answered with these.
    pub settlement_answers: VecDeque<raw::SettlementOutcome>,
    /// The next submits, alone or on a stream, meet these.
    pub submit_faults: VecDeque<SubmitFault>,
}

/// What goes wrong with one submit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SubmitFault {
    /// Nothing is stored, and it says so.
    Unavailable,
    /// The job is stored, and the answer says that it may not be.
    AnswerLost,
    /// The job is stored and the stream, or the call, breaks.
    Broken,
    /// It is refused with this status.
    Refused(Status),
}

/// What a [`FakeServer`](super::FakeServer) has seen, in order.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Seen {
    /// How many sessions were asked for, also those that were refused.
    pub streams: usize,
    /// Hellos of sessions.
    pub hellos: Vec<raw::Hello>,
    /// Sessions that are open now.
    pub sessions: usize,
    /// How many heartbeats came.
    pub heartbeats: usize,
    /// The newest capacity that a session was set to.
    pub capacity: Option<u32>,
    /// Settlements, also those without effect.
    pub settlements: Vec<SeenSettlement>,
    /// How many messages they came in.
    pub settlement_messages: usize,
    /// Keys that were delivered.
    pub delivered: Vec<String>,
    /// How many sessions asked for no more deliveries.
    pub drains: usize,
    /// The `request_id`s of submits, each as often as it came.
    pub submits: Vec<String>,
    /// How many leases ran out.
    pub expired: usize,
}

impl Seen {
    /// The keys that were settled in this way (`complete`, `retry`, `release`, `fail` or `rerun`), where it counted.
    #[must_use]
    pub fn settled(&self, how: &str) -> Vec<&str> {
        let counted = self
            .settlements
            .iter()
            .filter(|seen| seen.outcome == how && seen.answer == raw::SettlementOutcome::Settled);
        counted.map(|seen| seen.key.as_str()).collect()
    }
}

/// One settlement that a fake server was sent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SeenSettlement {
    /// The key, as long as the server knows the lease.
    pub key: String,
    /// `complete`, `retry`, `release`, `fail` or `rerun`.
    pub outcome: &'static str,
    /// The error or reason that came with it.
    pub error: String,
    /// What was, or would have been, answered.
    pub answer: raw::SettlementOutcome,
}
