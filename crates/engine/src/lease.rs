//! The leases that this server gave or took over, by sequence. Pure: time is an argument.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use keywork_model::{Job, QueueName, WorkerId, decide::Settlement};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LostReason {
    /// Its deadline passed, or the job ended or went to another.
    Expired,
    /// The queue was purged or deleted.
    Cancelled,
    /// A newer session of the worker did not go on with it.
    Superseded,
    /// The token is malformed or forged.
    Invalid,
}

/// A lease that ended without being settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The lease.
    pub token: Bytes,
    /// Why.
    pub reason: LostReason,
}

/// A job with its lease, as a worker is told.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The lease.
    pub token: Bytes,
    /// The queue.
    pub queue: Arc<QueueName>,
    /// The job's sequence: the fencing number.
    pub sequence: u64,
    /// The job.
    pub job: Job,
    /// Its attempts in this queue.
    pub max_attempts: u32,
    /// Until when the lease holds.
    pub deadline: Instant,
}

/// One lease.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) session: u64,
    pub(crate) worker: WorkerId,
    pub(crate) token: Bytes,
    pub(crate) consumer_sequence: u64,
    pub(crate) deadline: Instant,
    /// No extension goes beyond.
    pub(crate) run_until: Option<Instant>,
    /// Its session broke off: goes to others then.
    pub(crate) give_up_at: Option<Instant>,
    /// Which connection it was delivered over.
    pub(crate) epoch: u64,
    pub(crate) reseated: bool,
    pub(crate) phase: Phase,
}

/// Where a lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// With its worker.
    Held,
    /// Its settlement is under way.
    Settling,
    /// Lost before its deadline; remembered until then, so that a late settlement is told.
    Lost(LostReason),
    /// Settled so that the job goes on under another sequence; remembered as a lost one is.
    Settled(Settlement),
}

impl Phase {
    /// Whether the lease takes none of its session's places any more.
    pub(crate) fn over(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Settled(_))
    }
}

impl Lease {
    /// Whether it can be extended or settled as one that is in time.
    pub(crate) fn live(&self, now: Instant) -> bool {
        self.phase == Phase::Held && now < self.deadline
    }

    /// The deadline of an extension that was sent at `sent`.
    pub(crate) fn extended(&self, sent: Instant, term: Duration) -> Instant {
        let until = sent + term;
        self.run_until
            .map_or(until, |most| until.min(most))
            .max(self.deadline)
    }
}

/// All leases of one queue on this server.
#[derive(Debug, Default)]
pub(crate) struct LeaseTable {
    leases: HashMap<u64, Lease>,
}

/// What became due in a [`LeaseTable`].
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// The deadline passed: the holder is told.
    pub(crate) expired: Vec<(u64, Lease)>,
    /// The session broke off and did not come back: the job goes to others.
    pub(crate) given_up: Vec<(u64, Lease)>,
}

impl LeaseTable {
    /// Answers what was known of the lease before.
    pub(crate) fn insert(&mut self, sequence: u64, lease: Lease) -> Option<Lease> {
        self.leases.insert(sequence, lease)
    }

    /// As [`LeaseTable::insert`], unless the lease is known again. Answers whether it was not.
    pub(crate) fn insert_new(&mut self, sequence: u64, lease: Lease) -> bool {
        let unknown = !self.leases.contains_key(&sequence);
        self.leases.entry(sequence).or_insert(lease);
        unknown
    }

    /// Takes in until when a lease is good by its token: another server may have extended it.
    pub(crate) fn prove(&mut self, sequence: u64, until: Instant) {
        if let Some(lease) = self.leases.get_mut(&sequence)
            && !lease.phase.over()
        {
            lease.deadline = lease.deadline.max(until);
        }
    }

    pub(crate) fn get(&self, sequence: u64) -> Option<&Lease> {
        self.leases.get(&sequence)
    }

    pub(crate) fn get_mut(&mut self, sequence: u64) -> Option<&mut Lease> {
        self.leases.get_mut(&sequence)
    }

    pub(crate) fn remove(&mut self, sequence: u64) -> Option<Lease> {
        self.leases.remove(&sequence)
    }

    /// How many leases count against somebody's capacity.
    pub(crate) fn live(&self) -> usize {
        self.leases
            .values()
            .filter(|lease| !lease.phase.over())
            .count()
    }

    /// Whether nothing of it can be running any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.leases
            .values()
            .all(|lease| matches!(lease.phase, Phase::Settled(_)))
    }

    /// The held leases of one session.
    pub(crate) fn held_by(&self, session: u64) -> Vec<u64> {
        let held = |lease: &Lease| lease.session == session && lease.phase == Phase::Held;
        self.leases
            .iter()
            .filter(|(_, lease)| held(lease))
            .map(|(n, _)| *n)
            .collect()
    }

    /// The sessions that hold a lease.
    pub(crate) fn holders(&self) -> impl Iterator<Item = u64> {
        let open = |lease: &&Lease| !lease.phase.over();
        self.leases.values().filter(open).map(|lease| lease.session)
    }

    /// The lease of a key, for people who look.
    pub(crate) fn of_sequence(&self, sequence: u64, now: Instant) -> Option<&Lease> {
        self.get(sequence).filter(|lease| now < lease.deadline)
    }

    /// Remembers how a lease was settled whose job goes on. Answers the session whose place is free now.
    pub(crate) fn settle(&mut self, sequence: u64, how: Settlement) -> Option<u64> {
        let lease = self.leases.get_mut(&sequence)?;
        let was = std::mem::replace(&mut lease.phase, Phase::Settled(how));
        (!was.over()).then_some(lease.session)
    }

    /// Marks a held lease as lost. Answers it as it was held.
    pub(crate) fn lose(&mut self, sequence: u64, reason: LostReason) -> Option<Lease> {
        let lease = self.leases.get_mut(&sequence)?;
        if lease.phase != Phase::Held {
            return None;
        }
        let held = lease.clone();
        lease.phase = Phase::Lost(reason);
        Some(held)
    }

    /// Marks all leases up to a sequence as lost.
    pub(crate) fn lose_all(&mut self, up_to: u64, reason: LostReason) -> Vec<(u64, Lease)> {
        let numbers: Vec<u64> = self
            .leases
            .keys()
            .copied()
            .filter(|n| *n <= up_to)
            .collect();
        numbers
            .into_iter()
            .filter_map(|n| Some((n, self.lose(n, reason)?)))
            .collect()
    }

    /// Takes out what is due. A settlement under way ends by itself.
    pub(crate) fn take_due(&mut self, now: Instant) -> Due {
        let mut due = Due::default();
        let past = |lease: &Lease| {
            lease.phase != Phase::Settling
                && (lease.deadline <= now || lease.give_up_at.is_some_and(|at| at <= now))
        };
        let numbers: Vec<u64> = self
            .leases
            .iter()
            .filter(|(_, lease)| past(lease))
            .map(|(n, _)| *n)
            .collect();
        for number in numbers {
            let Some(lease) = self.leases.get(&number).cloned() else {
                continue;
            };
            if lease.deadline <= now {
                self.leases.remove(&number);
                if lease.phase == Phase::Held {
                    due.expired.push((number, lease));
                }
            } else if self.lose(number, LostReason::Expired).is_some() {
                due.given_up.push((number, lease));
            }
        }
        due
    }
}
