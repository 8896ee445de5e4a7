//! Until when each lease of a session was extended: what the session's next ticket says.
//!
//! A ticket lists leases one by one, since a heartbeat may list some of a session's leases alone, some of those may
//! stay unconfirmed, and queues differ in how long they lease. It never says more than what was told to the worker.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use keywork_jetstream::clock;
use keywork_model::{
    QueueName, UnixMillis,
    token::{QueueProof, TicketFacts},
};

use crate::{engine::Engine, queue::Queue};

/// A queue, and which making of it.
type Made = (QueueName, u64);

/// The extended leases of one session.
#[derive(Debug, Default)]
pub(super) struct Proofs(HashMap<Made, HashMap<u64, UnixMillis>>);

impl Proofs {
    /// A lease is good until then.
    pub(super) fn extended(&mut self, queue: &Queue, sequence: u64, until: UnixMillis) {
        let made = ((*queue.name).clone(), queue.jobs.incarnation());
        let known = self.0.entry(made).or_default().entry(sequence);
        known
            .and_modify(|known| *known = until.max(*known))
            .or_insert(until);
    }

    /// A ticket that says all this. What has run out is forgotten.
    pub(super) fn ticket(&mut self, engine: &Engine) -> Bytes {
        let now = clock::now();
        self.0.retain(|_, leases| {
            leases.retain(|_, until| *until > now);
            !leases.is_empty()
        });
        let queues = self.0.iter().map(|((queue, incarnation), leases)| {
            let mut until: BTreeMap<UnixMillis, BTreeSet<u64>> = BTreeMap::new();
            for (sequence, at) in leases {
                until.entry(*at).or_default().insert(*sequence);
            }
            QueueProof {
                queue: queue.clone(),
                incarnation: *incarnation,
                until,
            }
        });
        engine.secret().seal_ticket(&TicketFacts {
            server: engine.server(),
            queues: queues.collect(),
        })
    }
}
