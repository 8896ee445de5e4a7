//! What a worker tells of itself while it runs.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::WorkerError;
use crate::client::LostReason;

/// Something that a worker's owner may want to log, count or alarm on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// It is about to connect to this server.
    Connecting {
        /// The server's URI.
        endpoint: String,
    },
    /// Its session is open: it is served.
    Ready,
    /// Its session broke; running handlers go on while their leases hold, and it reconnects.
    Degraded {
        /// The server's URI.
        endpoint: String,
        /// Why, for people.
        error: String,
    },
    /// It takes no more jobs and finishes what runs.
    Draining,
    /// It has stopped.
    Stopped {
        /// Handlers that were still running and were left behind.
        abandoned: usize,
        /// Results of handlers that no server has confirmed. Their jobs run again when their leases are over, unless they
        /// were settled and only the answer was lost.
        unconfirmed: usize,
    },
    /// A lease was lost before its handler ended; what the handler returns will be dropped.
    LeaseLost {
        /// The job's queue.
        queue: String,
        /// The job's key.
        key: String,
        /// Why: none where the worker itself could no longer be sure of it.
        reason: Option<LostReason>,
    },
    /// A settlement was answered: the lease is over, and nothing more will be heard of it.
    Settled {
        /// The job's queue.
        queue: String,
        /// The job's key.
        key: String,
        /// The lease's fencing number.
        fencing_number: u64,
        /// What the server said.
        outcome: SettledOutcome,
    },
    /// A handler still runs although it was cancelled this long ago. It keeps its slot.
    HandlerIgnoresCancellation {
        /// The job's queue.
        queue: String,
        /// The job's key.
        key: String,
        /// Since when it is cancelled.
        cancelled_for: Duration,
    },
    /// A settlement was refused; the job is tried again instead.
    SettlementRejected {
        /// The job's queue.
        queue: String,
        /// The job's key.
        key: String,
        /// Why, for people.
        error: String,
    },
    /// It ends with an error.
    Failed {
        /// The error, as `run` returns it.
        error: WorkerError,
    },
}

/// How the settlement of a lease was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SettledOutcome {
    /// It counts. Where the job ended, its key is free.
    Settled,
    /// The job had ended already: an earlier try of this settlement counted, and its answer was lost.
    AlreadySettled,
    /// The lease was lost before; nothing was changed.
    LeaseLost,
}

/// Who is told.
pub(crate) type OnEvent = Box<dyn Fn(&Event) + Send + Sync>;

/// What a worker has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Handlers started.
    pub started: u64,
    /// Leases whose settlement was confirmed.
    pub settled: u64,
    /// Leases lost before they were settled.
    pub leases_lost: u64,
    /// Results of handlers that came after their lease was lost, and were dropped.
    pub dropped_results: u64,
    /// Sessions that were opened.
    pub sessions: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) started: AtomicU64,
    pub(crate) settled: AtomicU64,
    pub(crate) leases_lost: AtomicU64,
    pub(crate) dropped_results: AtomicU64,
    pub(crate) sessions: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            started: get(&self.started),
            settled: get(&self.settled),
            leases_lost: get(&self.leases_lost),
            dropped_results: get(&self.dropped_results),
            sessions: get(&self.sessions),
        }
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
