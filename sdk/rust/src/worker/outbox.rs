//! Settlements to be sent: which lease, and when.
//!
//! What is to be sent lies with the lease itself; this is only the order. Pure.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use prost::Message;

use super::{
    handler::Outcome,
    leases::{LeaseId, Leases, Phase},
};
use crate::{raw, wire};

/// The most settlements of one message.
const SETTLEMENTS: usize = 1_000;
/// How large a message may grow: well below the 4 MiB that servers usually take.
const MESSAGE_BYTES: usize = 1 << 20;
/// The wait before a settlement is sent again that the server could not confirm.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    ready: VecDeque<LeaseId>,
    later: VecDeque<(Instant, LeaseId)>,
}

impl Outbox {
    pub(crate) fn push(&mut self, id: LeaseId) {
        self.ready.push_back(id);
    }

    /// The server could not confirm it: send it again after a pause.
    pub(crate) fn push_later(&mut self, id: LeaseId, now: Instant) {
        self.later.push_back((now + PAUSE, id));
    }

    /// A session opened: everything unconfirmed is sent again.
    pub(crate) fn refill(&mut self, leases: &Leases) {
        self.later.clear();
        let settling = leases
            .held()
            .filter(|(_, held)| matches!(held.phase, Phase::Settling(_)));
        self.ready = settling.map(|(id, _)| id).collect();
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(crate) fn wake(&self) -> Option<Instant> {
        self.later.front().map(|(at, _)| *at)
    }

    /// Makes what is due ready.
    pub(crate) fn on_time(&mut self, now: Instant) {
        while let Some((_, id)) = self.later.pop_front_if(|(at, _)| *at <= now) {
            self.ready.push_back(id);
        }
    }

    /// The next message: everything that is ready, as far as one message takes it.
    pub(crate) fn take(&mut self, leases: &Leases) -> Vec<raw::Settlement> {
        let (mut settlements, mut bytes) = (Vec::new(), 0);
        while settlements.len() < SETTLEMENTS && bytes < MESSAGE_BYTES {
            let Some(id) = self.ready.pop_front() else {
                break;
            };
            if let Some(settlement) = settlement(leases, id) {
                bytes += settlement.encoded_len();
                settlements.push(settlement);
            }
        }
        settlements
    }
}

fn settlement(leases: &Leases, id: LeaseId) -> Option<raw::Settlement> {
    let held = leases.get(id)?;
    let Phase::Settling(outcome) = &held.phase else {
        return None;
    };
    Some(raw::Settlement {
        lease_token: held.token.clone(),
        outcome: Some(on_the_wire(outcome)),
    })
}

fn on_the_wire(outcome: &Outcome) -> raw::settlement::Outcome {
    use raw::settlement::Outcome as Wire;
    match outcome {
        Outcome::Complete => Wire::Complete(raw::Complete::default()),
        Outcome::Retry { delay, error, .. } => Wire::Retry(raw::Retry {
            delay: delay.map(wire::from_duration),
            error: error.clone(),
        }),
        Outcome::Fail { reason } => Wire::Fail(raw::Fail {
            error: reason.clone(),
        }),
        Outcome::Release => Wire::Release(raw::Release {}),
        Outcome::Rerun { delay, payload } => Wire::Rerun(raw::Rerun {
            payload: payload.clone(),
            delay: Some(wire::from_duration(*delay)),
        }),
    }
}
