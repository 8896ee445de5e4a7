//! The leases that a worker holds, and until when it may act on each.
//!
//! Pure: time is an argument, nothing here waits or sends. A lease's *fence* is when its handler must have been
//! told to stop; it only moves on an answer of the server, and counts from when the question was sent.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use bytes::Bytes;
use slab::Slab;
use tokio::task::AbortHandle;

use super::{CancelReason, Context, handler::Outcome};
use crate::Job;

/// What holds for the leases of one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lease_duration: Duration,
    pub(crate) disconnect_grace: Option<Duration>,
}

impl Terms {
    /// How long before the server's deadline a handler is stopped: it needs time to notice.
    pub(crate) fn margin(&self) -> Duration {
        (self.lease_duration / 10).clamp(Duration::from_millis(100), Duration::from_secs(1))
    }
}

/// Names a lease in this table; a name is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaseId {
    slot: usize,
    serial: u64,
}

/// One lease, from its delivery until nothing of it is left here.
#[derive(Debug)]
pub(crate) struct Held {
    serial: u64,
    pub(crate) token: Bytes,
    /// Which of the worker's queues.
    pub(crate) queue: usize,
    pub(crate) key: String,
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) fencing_number: u64,
    pub(crate) context: Context,
    pub(crate) phase: Phase,
    fence: Instant,
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// Delivered; no slot was free yet.
    Waiting(Box<Job>),
    /// Its handler runs.
    Running(AbortHandle),
    /// Its handler has ended; the server has not confirmed the settlement.
    Settling(Outcome),
    /// The lease is lost and the handler still runs, in its slot.
    Lost {
        since: Instant,
        reported: bool,
        handler: AbortHandle,
    },
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    slots: Slab<Held>,
    by_token: HashMap<Bytes, LeaseId>,
    serial: u64,
    /// Running or lost: what occupies a handler slot.
    occupied: usize,
    lost: usize,
}

impl Leases {
    /// Adds a delivery that waits for a slot.
    pub(crate) fn insert(
        &mut self,
        token: Bytes,
        queue: usize,
        job: Job,
        fence: Instant,
    ) -> LeaseId {
        self.serial += 1;
        let held = Held {
            serial: self.serial,
            token: token.clone(),
            queue,
            key: job.key.clone(),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            fencing_number: job.fencing_number,
            context: Context::new(fence),
            phase: Phase::Waiting(Box::new(job)),
            fence,
        };
        let id = LeaseId {
            slot: self.slots.insert(held),
            serial: self.serial,
        };
        self.by_token.insert(token, id);
        id
    }

    pub(crate) fn get(&self, id: LeaseId) -> Option<&Held> {
        self.slots
            .get(id.slot)
            .filter(|held| held.serial == id.serial)
    }

    fn get_mut(&mut self, id: LeaseId) -> Option<&mut Held> {
        self.slots
            .get_mut(id.slot)
            .filter(|held| held.serial == id.serial)
    }

    /// The lease of a token, as long as it is not lost.
    pub(crate) fn find(&self, token: &Bytes) -> Option<LeaseId> {
        self.by_token.get(token).copied()
    }

    /// How many handler slots are occupied.
    pub(crate) fn occupied(&self) -> usize {
        self.occupied
    }

    /// How many of them by handlers that have lost their lease.
    pub(crate) fn occupied_by_lost(&self) -> usize {
        self.lost
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many results of handlers wait for a server's answer. A release is none: its job is to run again.
    pub(crate) fn unconfirmed(&self) -> usize {
        let settling = |held: &&Held| matches!(&held.phase, Phase::Settling(outcome) if *outcome != Outcome::Release);
        self.slots
            .iter()
            .map(|(_, held)| held)
            .filter(settling)
            .count()
    }

    /// Every lease that is not lost.
    pub(crate) fn held(&self) -> impl Iterator<Item = (LeaseId, &Held)> {
        self.by_token
            .values()
            .filter_map(|id| Some((*id, self.get(*id)?)))
    }

    /// Waiting → Running: gives what the handler is started with.
    pub(crate) fn start(&mut self, id: LeaseId, start: impl FnOnce(Context, Job) -> AbortHandle) {
        let Some(held) = self.get_mut(id) else { return };
        if let Phase::Waiting(job) = &mut held.phase {
            let job = std::mem::take(&mut **job);
            held.phase = Phase::Running(start(held.context.clone(), job));
            self.occupied += 1;
        }
    }

    /// The handler has ended. True: its outcome is to be sent. False: it is dropped.
    pub(crate) fn finish(&mut self, id: LeaseId, outcome: Outcome) -> bool {
        let Some(held) = self.get_mut(id) else {
            return false;
        };
        match held.phase {
            Phase::Running(_) => {
                held.phase = Phase::Settling(outcome);
                self.occupied -= 1;
                true
            }
            Phase::Lost { .. } => {
                self.slots.remove(id.slot);
                self.occupied -= 1;
                self.lost -= 1;
                false
            }
            Phase::Waiting(_) | Phase::Settling(_) => false,
        }
    }

    /// Waiting → Settling: the job goes back without having been started.
    pub(crate) fn give_back(&mut self, id: LeaseId) -> bool {
        match self.get_mut(id) {
            Some(held) if matches!(held.phase, Phase::Waiting(_)) => {
                held.phase = Phase::Settling(Outcome::Release);
                true
            }
            _ => false,
        }
    }

    /// Settles a lease otherwise than was refused.
    pub(crate) fn settle_as(&mut self, id: LeaseId, outcome: Outcome) {
        if let Some(held) = self.get_mut(id)
            && let Phase::Settling(settling) = &mut held.phase
        {
            *settling = outcome;
        }
    }

    /// The server has confirmed a settlement, or has said that there is nothing to settle.
    pub(crate) fn settled(&mut self, id: LeaseId) -> Option<Held> {
        let held = self.get(id)?;
        if !matches!(held.phase, Phase::Settling(_)) {
            return None;
        }
        let token = held.token.clone();
        self.by_token.remove(&token);
        Some(self.slots.remove(id.slot))
    }

    /// A lease is lost: its handler is told. A settlement under way goes on, since the server's answer to it is the
    /// truth. Gives the queue and the key where something was lost.
    pub(crate) fn lose(
        &mut self,
        id: LeaseId,
        reason: CancelReason,
        now: Instant,
    ) -> Option<(usize, String)> {
        let held = self.get_mut(id)?;
        let named = (held.queue, held.key.clone());
        let token = held.token.clone();
        match &held.phase {
            Phase::Settling(_) | Phase::Lost { .. } => return None,
            Phase::Waiting(_) => drop(self.slots.remove(id.slot)),
            Phase::Running(handler) => {
                held.phase = Phase::Lost {
                    since: now,
                    reported: false,
                    handler: handler.clone(),
                };
                held.context.cancel(reason);
                self.lost += 1;
            }
        }
        self.by_token.remove(&token);
        Some(named)
    }

    /// The server answered something that was sent at `asked`: the lease holds for `left` from then on at least.
    pub(crate) fn extend(&mut self, id: LeaseId, asked: Instant, left: Duration, margin: Duration) {
        if let Some(held) = self.get_mut(id) {
            let fence = fence(asked, left, margin);
            if fence > held.fence {
                held.fence = fence;
                held.context.set_deadline(fence);
            }
        }
    }

    /// Until when a lease may be acted on. `broke` is when the stream did, if it is not live.
    pub(crate) fn fence_of(held: &Held, terms: &[Terms], broke: Option<Instant>) -> Instant {
        let grace = terms
            .get(held.queue)
            .and_then(|terms| terms.disconnect_grace);
        match broke.zip(grace) {
            Some((broke, grace)) => held.fence.min(broke + grace),
            None => held.fence,
        }
    }

    /// The leases whose fence has come, and when the next one comes. Settlements under way have none: they can do
    /// no harm late.
    pub(crate) fn fenced(
        &self,
        terms: &[Terms],
        broke: Option<Instant>,
        now: Instant,
    ) -> (Vec<LeaseId>, Option<Instant>) {
        let mut due = Vec::new();
        let mut next: Option<Instant> = None;
        for (id, held) in self.held() {
            if matches!(held.phase, Phase::Settling(_)) {
                continue;
            }
            let fence = Self::fence_of(held, terms, broke);
            if fence <= now {
                due.push(id);
            } else {
                next = Some(next.map_or(fence, |next| next.min(fence)));
            }
        }
        (due, next)
    }

    /// Handlers that run on although their lease was lost `patience` ago, each told once.
    pub(crate) fn stubborn(
        &mut self,
        patience: Duration,
        now: Instant,
    ) -> Vec<(usize, String, Duration)> {
        let mut found = Vec::new();
        if self.lost == 0 {
            return found;
        }
        for (_, held) in &mut self.slots {
            if let Phase::Lost {
                since, reported, ..
            } = &mut held.phase
            {
                let cancelled_for = now.saturating_duration_since(*since);
                if !*reported && cancelled_for >= patience {
                    *reported = true;
                    found.push((held.queue, held.key.clone(), cancelled_for));
                }
            }
        }
        found
    }

    /// Tells every running handler to stop.
    pub(crate) fn cancel_all(&self, reason: CancelReason) {
        for (_, held) in &self.slots {
            if matches!(held.phase, Phase::Running(_)) {
                held.context.cancel(reason);
            }
        }
    }

    /// Drops every running handler at its next await; each still reports its end.
    pub(crate) fn abort_all(&self) {
        for (_, held) in &self.slots {
            if let Phase::Running(handler) | Phase::Lost { handler, .. } = &held.phase {
                handler.abort();
            }
        }
    }
}

/// Whatever ends the worker: no handler goes on as if its lease were still being extended.
impl Drop for Leases {
    fn drop(&mut self) {
        self.cancel_all(CancelReason::LeaseLost);
        self.abort_all();
    }
}

/// When a handler is to be stopped: the deadline as far as it is known, less the margin.
pub(crate) fn fence(asked: Instant, left: Duration, margin: Duration) -> Instant {
    asked + left.saturating_sub(margin)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A table with one waiting lease whose fence is ten seconds after the start.
    fn one(start: Instant) -> (Leases, LeaseId) {
        let mut leases = Leases::default();
        let job = Job {
            key: "k".to_owned(),
            ..Job::default()
        };
        let id = leases.insert(Bytes::from_static(b"token"), 0, job, start + 10 * SECOND);
        (leases, id)
    }

    fn terms(grace: Option<Duration>) -> [Terms; 1] {
        [Terms {
            lease_duration: 15 * SECOND,
            disconnect_grace: grace,
        }]
    }

    #[test]
    fn a_fence_counts_from_when_the_question_was_sent() {
        let start = Instant::now();
        assert_eq!(fence(start, 15 * SECOND, SECOND), start + 14 * SECOND);
        assert_eq!(fence(start, SECOND, 2 * SECOND), start);
    }

    #[test]
    fn a_fence_only_moves_forward() {
        let start = Instant::now();
        let (mut leases, id) = one(start);
        leases.extend(id, start, 5 * SECOND, SECOND);
        assert!(
            leases
                .fenced(&terms(None), None, start + 9 * SECOND)
                .0
                .is_empty()
        );
        leases.extend(id, start + 5 * SECOND, 15 * SECOND, SECOND);
        assert!(
            leases
                .fenced(&terms(None), None, start + 18 * SECOND)
                .0
                .is_empty()
        );
        assert_eq!(
            leases.fenced(&terms(None), None, start + 19 * SECOND).0,
            [id]
        );
    }

    #[test]
    fn the_next_fence_is_told() {
        let start = Instant::now();
        let (leases, _) = one(start);
        assert_eq!(
            leases.fenced(&terms(None), None, start).1,
            Some(start + 10 * SECOND)
        );
    }

    #[test]
    fn a_disconnect_grace_brings_the_fence_nearer_only_while_the_stream_is_broken() {
        let start = Instant::now();
        let (leases, id) = one(start);
        let terms = terms(Some(SECOND));
        let broke = Some(start + 2 * SECOND);
        assert!(leases.fenced(&terms, None, start + 4 * SECOND).0.is_empty());
        assert_eq!(leases.fenced(&terms, broke, start + 4 * SECOND).0, [id]);
    }

    #[test]
    fn a_settlement_under_way_is_not_fenced_and_not_lost() {
        let start = Instant::now();
        let (mut leases, id) = one(start);
        assert!(leases.give_back(id));
        assert!(
            leases
                .fenced(&terms(None), None, start + 60 * SECOND)
                .0
                .is_empty()
        );
        assert!(leases.lose(id, CancelReason::LeaseLost, start).is_none());
        assert!(leases.settled(id).is_some());
        assert!(leases.is_empty());
    }

    #[test]
    fn a_name_of_a_lease_is_not_used_again() {
        let start = Instant::now();
        let (mut leases, old) = one(start);
        leases.lose(old, CancelReason::LeaseLost, start);
        let job = Job::default();
        let new = leases.insert(Bytes::from_static(b"other"), 0, job, start);
        assert_ne!(old, new);
        assert!(leases.get(old).is_none());
    }
}
