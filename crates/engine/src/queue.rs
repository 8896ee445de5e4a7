//! One queue on this server: its sessions, its leases, and what was last heard of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use keywork_jetstream::{Jobs, queues::QueueInfo};
use keywork_model::{QueueConfig, QueueName, limits};
use parking_lot::{Mutex, RwLock};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    guard::Guard,
    lease::{Lease, LeaseTable, Lost, LostReason},
    roster::Roster,
    session::{Session, SessionEvent},
};

/// One queue on this server.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: Arc<QueueName>,
    pub(crate) jobs: Jobs,
    pub(crate) state: Mutex<QueueState>,
    pub(crate) guard: Mutex<Guard>,
    /// Wakes the dispatcher: there may be room.
    pub(crate) wake: Notify,
    /// Asks the dispatcher to draw a redelivery although no session is there to take a job.
    pub(crate) chase: AtomicBool,
    /// Whether jobs wait that could be had at once, as far as the dispatcher knows.
    waits: AtomicBool,
    /// Ends what runs for this queue.
    pub(crate) stop: CancellationToken,
    pub(crate) opened: Instant,
    known: RwLock<Known>,
    depth: Depth,
    delivered: AtomicU64,
    /// Since when that is known, by the last look for its own sake.
    delivered_at: tokio::sync::Mutex<Option<Instant>>,
}

/// Who serves the queue and what they hold. The lock is never held over an await.
#[derive(Debug, Default)]
pub(crate) struct QueueState {
    pub(crate) roster: Roster,
    pub(crate) leases: LeaseTable,
}

/// What was last read of the queue.
#[derive(Clone, Debug)]
struct Known {
    config: Arc<QueueConfig>,
    ack_wait: Duration,
    drift: Option<String>,
}

impl Queue {
    pub(crate) fn new(jobs: Jobs, info: &QueueInfo, stop: CancellationToken) -> Self {
        let queue = Self {
            name: Arc::new(jobs.queue().clone()),
            jobs,
            state: Mutex::default(),
            guard: Mutex::new(Guard::new(info)),
            wake: Notify::new(),
            chase: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            stop,
            opened: Instant::now(),
            known: RwLock::new(Known::of(info)),
            depth: Depth::default(),
            delivered: AtomicU64::new(0),
            delivered_at: tokio::sync::Mutex::default(),
        };
        queue.learn(info, Seen(0));
        queue
    }

    /// Call it before reading the queue for [`Queue::learn`].
    pub(crate) fn before_read(&self) -> Seen {
        self.depth.seen()
    }

    /// Takes in what was read of the queue. Answers whether leases last otherwise than before.
    pub(crate) fn learn(&self, info: &QueueInfo, before: Seen) -> bool {
        let lasted = self.lease_duration();
        let drift = self.drift();
        if drift != info.drift {
            match &info.drift {
                Some(drift) => tracing::error!(queue = %self.name, "{drift}"),
                None => tracing::info!(queue = %self.name, "the queue's drift is mended"),
            }
        }
        *self.known.write() = Known::of(info);
        self.depth.read(info.messages, before);
        self.saw_delivered(info.delivered);
        lasted != self.lease_duration()
    }

    pub(crate) fn config(&self) -> Arc<QueueConfig> {
        Arc::clone(&self.known.read().config)
    }

    /// How long a new lease lasts: never longer than JetStream waits, whatever the configuration says.
    pub(crate) fn lease_duration(&self) -> Duration {
        let known = self.known.read();
        let most = known.ack_wait.saturating_sub(limits::ACK_WAIT_MARGIN);
        known.config.lease_duration.min(most)
    }

    /// How long JetStream waits for a settlement.
    pub(crate) fn ack_wait(&self) -> Duration {
        self.known.read().ack_wait
    }

    /// A job was accepted here.
    pub(crate) fn count_accepted(&self) {
        self.depth.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// A job ended here.
    pub(crate) fn count_ended(&self) {
        self.depth.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the queue is as deep as it may be, as far as this server knows.
    pub(crate) fn full(&self) -> bool {
        self.depth.now() >= self.known.read().config.max_depth
    }

    /// What somebody changed in NATS so that a law would break, at the last look.
    pub(crate) fn drift(&self) -> Option<String> {
        self.known.read().drift.clone()
    }

    /// Whether jobs may be accepted and leased: not while the queue has drifted.
    pub(crate) fn sound(&self) -> bool {
        self.known.read().drift.is_none()
    }

    /// Remembers that a sequence was delivered.
    pub(crate) fn saw_delivered(&self, sequence: u64) {
        self.delivered.fetch_max(sequence, Ordering::Relaxed);
    }

    /// The newest sequence that is known to have been delivered.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Reads which sequence was delivered last, for a caller that asked at `asked`. Callers that come
    /// together share one look. What cannot be read now stays as it is known.
    pub(crate) async fn look_at_delivered(&self, asked: Instant) {
        let mut known_at = self.delivered_at.lock().await;
        if known_at.is_some_and(|at| at >= asked) {
            return;
        }
        let began = Instant::now();
        if let Ok(info) = self.jobs.info().await {
            self.saw_delivered(info.delivered);
            *known_at = Some(began);
        }
    }

    /// Lets go of leases that ended, and makes room for others.
    pub(crate) fn end_leases(&self, engine: &crate::Engine, sequences: &[u64]) {
        let ended: Vec<Lease> = {
            let mut state = self.state.lock();
            sequences
                .iter()
                .filter_map(|n| state.leases.remove(*n))
                .collect()
        };
        for lease in ended {
            engine.give_back_place(self, lease.session);
        }
    }

    /// Tells sessions that their leases are lost, and frees their places.
    pub(crate) fn tell_lost(
        &self,
        engine: &crate::Engine,
        leases: &[(u64, Lease)],
        reason: LostReason,
    ) {
        for (_, lease) in leases {
            if let Some(session) = engine.session(lease.session) {
                // A session that ended does not need to know.
                let lost = Lost {
                    token: lease.token.clone(),
                    reason,
                };
                drop(session.tell(SessionEvent::Lost(vec![lost])));
            }
            engine.give_back_place(self, lease.session);
        }
    }

    /// Whether jobs wait that could be had at once.
    pub(crate) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Takes in whether jobs wait. Where that is news, sessions share their places otherwise.
    pub(crate) fn learn_waits(&self, waits: bool) {
        if self.waits.swap(waits, Ordering::Relaxed) == waits {
            return;
        }
        let sessions = self.state.lock().roster.shared();
        for session in sessions {
            session.refresh();
        }
    }

    /// Takes a session out of the queue: it is given nothing more.
    pub(crate) fn leave(&self, session: &Session) {
        self.state.lock().roster.remove(session.id);
        self.wake.notify_one();
    }

    /// Looks at a session's room again.
    pub(crate) fn refresh(&self, session: &Session) {
        self.state.lock().roster.refresh(session.id);
        self.wake.notify_one();
    }

    /// The session's lease of a sequence is in time now.
    pub(crate) fn live_lease(&self, sequence: u64, now: Instant) -> Option<Lease> {
        let state = self.state.lock();
        state
            .leases
            .get(sequence)
            .filter(|lease| lease.live(now))
            .cloned()
    }
}

/// How many jobs are outstanding: as many as were read, and what was counted here since.
#[derive(Debug, Default)]
struct Depth {
    /// What was read, less what had been counted then.
    read: AtomicI64,
    accepted: AtomicI64,
    ended: AtomicI64,
}

/// How many jobs had been accepted before the queue was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(i64);

impl Depth {
    fn seen(&self) -> Seen {
        Seen(self.accepted.load(Ordering::Relaxed))
    }

    /// What was accepted while the queue was read may be missing in what was read, and what ended may be
    /// there no more: so the first counts and the second does not, and the limit is not passed.
    fn read(&self, messages: u64, before: Seen) {
        let messages = i64::try_from(messages).unwrap_or(i64::MAX / 2);
        let counted = before.0 - self.ended.load(Ordering::Relaxed);
        self.read.store(messages - counted, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        let accepted = self.accepted.load(Ordering::Relaxed);
        let now = self.read.load(Ordering::Relaxed) + accepted - self.ended.load(Ordering::Relaxed);
        u64::try_from(now).unwrap_or(0)
    }
}

impl Known {
    fn of(info: &QueueInfo) -> Self {
        Self {
            config: Arc::new(info.config.clone()),
            ack_wait: info.ack_wait,
            drift: info.drift.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_overwrites_nothing_that_was_counted_since_it_began() {
        let depth = Depth::default();
        depth.read(5, depth.seen());
        let before = depth.seen();
        depth.accepted.fetch_add(3, Ordering::Relaxed);
        depth.read(5, before);
        assert_eq!(depth.now(), 8, "none of the three was in what was read");
        depth.ended.fetch_add(2, Ordering::Relaxed);
        assert_eq!(depth.now(), 6);
        depth.read(6, depth.seen());
        assert_eq!(depth.now(), 6);
    }
}
