//! One worker session: what it is told, what it says, how it ends.
//!
//! A session is one task. It never awaits NATS: requests go out through a requester and their answers
//! come back as events, so whatever NATS does, what the worker sends is read.

pub(crate) mod beat;
mod outbox;
mod proofs;
mod run;
pub(crate) mod settling;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use keywork_model::{QueueName, UnixMillis, Violation, WorkerId, decide::Settlement};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{
    lease::{Granted, Lost},
    queue::Queue,
    settle::Outcome,
    shares::Shares,
};

pub(crate) use run::open;

/// How a worker opens a session.
#[derive(Clone, Debug)]
pub struct Hello {
    /// The worker; `None`: one is made up.
    pub worker: Option<WorkerId>,
    /// The queues, each with its weight.
    pub queues: Vec<(QueueName, u32)>,
    /// The most leases it may hold.
    pub capacity: u32,
    /// Leases that it goes on with.
    pub held: Vec<Bytes>,
    /// The newest ticket of the session that held them.
    pub ticket: Bytes,
}

/// What a worker says afterwards.
#[derive(Clone, Debug)]
pub enum Input {
    /// A new capacity.
    Capacity(u32),
    /// Extends the leases that it lists.
    Heartbeat {
        /// Comes back in the answer.
        sequence: u64,
        /// The leases.
        tokens: Vec<Bytes>,
    },
    /// Settles leases.
    Settle(Vec<SettleItem>),
    /// Asks for no more deliveries.
    Drain,
}

/// One settlement.
#[derive(Clone, Debug)]
pub struct SettleItem {
    /// The lease.
    pub token: Bytes,
    /// What is asked.
    pub asked: Asked,
}

/// What a settlement asks.
#[derive(Clone, Debug)]
pub enum Asked {
    /// This.
    Settle(Settlement),
    /// Something that is refused without a look at the lease.
    Refuse(Refused),
}

/// Why a settlement is refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The field, and what is wrong with it.
    pub violation: Violation,
    /// It is not served yet, rather than wrong.
    pub unimplemented: bool,
}

/// The result of one settlement.
#[derive(Clone, Debug)]
pub struct SettleResult {
    /// The lease.
    pub token: Bytes,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it was rejected.
    pub refused: Option<Refused>,
}

/// What a session is told.
#[derive(Debug)]
pub enum Output {
    /// Jobs.
    Deliveries(Vec<Granted>),
    /// A heartbeat's answer.
    HeartbeatAck {
        /// The heartbeat.
        sequence: u64,
        /// Listed leases that are lost.
        lost: Vec<Lost>,
        /// Listed leases that could not be extended now: they are as before.
        unconfirmed: Vec<Bytes>,
        /// The newest ticket.
        ticket: Bytes,
    },
    /// Results of settlements.
    Results(Vec<SettleResult>),
    /// Leases that were lost.
    Lost(Vec<Lost>),
    /// Nothing is delivered after it.
    DrainAck,
    /// Go elsewhere.
    GoAway(GoAway),
}

/// Asks a session to go.
#[derive(Clone, Copy, Debug)]
pub struct GoAway {
    /// Why.
    pub reason: GoAwayReason,
    /// The stream ends after this.
    pub grace: Duration,
    /// Wait about this long before reconnecting.
    pub reconnect_delay: Duration,
}

/// Why a session should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoAwayReason {
    /// The server stops.
    Draining,
    /// A newer session has the worker's id.
    Superseded,
    /// A queue was deleted.
    QueueDeleted,
    /// A queue's lease duration changed.
    TermsChanged,
}

/// Answers [`Hello`].
#[derive(Clone, Debug)]
pub struct Welcome {
    /// The session.
    pub session: u64,
    /// The worker.
    pub worker: WorkerId,
    /// What holds for each queue.
    pub terms: Vec<Terms>,
    /// How often to send a heartbeat.
    pub heartbeat_interval: Duration,
    /// Silence for this long ends the stream.
    pub liveness_timeout: Duration,
    /// Held leases that live on, with the time left.
    pub resumed: Vec<(Bytes, Duration)>,
    /// Held leases that are lost.
    pub lost: Vec<Lost>,
    /// Proves until when leases were extended.
    pub ticket: Bytes,
}

/// What holds for one queue of a session.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The queue.
    pub queue: QueueName,
    /// How long a lease lasts from its last extension.
    pub lease_duration: Duration,
    /// How long after a broken stream leases go to others.
    pub disconnect_grace: Option<Duration>,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The worker closed the stream.
    Closed,
    /// It was silent for the liveness timeout.
    Silent,
    /// It did not read what it was sent.
    NotReading,
    /// It was asked to go, and its grace is over.
    SentAway(GoAwayReason),
}

/// An open session, as its stream sees it.
#[derive(Debug)]
pub struct OpenedSession {
    /// The answer to Hello.
    pub welcome: Welcome,
    /// Where the worker's messages go.
    pub inputs: mpsc::Sender<Input>,
    /// What to tell the worker; closed when the session ends.
    pub outputs: mpsc::Receiver<Output>,
    /// Why it ended, once `outputs` is closed.
    pub end: tokio::sync::oneshot::Receiver<SessionEnd>,
}

/// What happens to a session from inside.
#[derive(Debug)]
pub(crate) enum SessionEvent {
    Deliver(Vec<Granted>),
    Lost(Vec<Lost>),
    GoAway(GoAway),
}

/// What others on this server know of a session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) worker: WorkerId,
    pub(crate) opened_at: UnixMillis,
    pub(crate) queues: Vec<Served>,
    capacity: AtomicU32,
    held: AtomicU32,
    /// Who has which places; only looked at where there are several queues.
    shares: Mutex<Shares>,
    closed: AtomicBool,
    /// Unbounded because it holds at most a delivery for each free place, and a loss for each lease.
    events: mpsc::UnboundedSender<SessionEvent>,
}

/// One queue that a session serves.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) queue: Arc<Queue>,
    pub(crate) share: f64,
    /// The lease duration that the session was told.
    pub(crate) term: Duration,
}

impl Session {
    pub(crate) fn new(
        id: u64,
        worker: WorkerId,
        opened_at: UnixMillis,
        queues: Vec<Served>,
        capacity: u32,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<SessionEvent>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let session = Self {
            id,
            worker,
            opened_at,
            shares: Mutex::new(Shares::new(queues.iter().map(|served| served.share))),
            queues,
            capacity: AtomicU32::new(capacity),
            held: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            events,
        };
        (Arc::new(session), receiver)
    }

    /// How many more leases it may hold.
    pub(crate) fn room(&self) -> u32 {
        if self.closed.load(Ordering::Acquire) {
            return 0;
        }
        self.capacity
            .load(Ordering::Acquire)
            .saturating_sub(self.held.load(Ordering::Acquire))
    }

    /// How many more jobs to offer it of its queue `at`.
    pub(crate) fn room_for(&self, at: usize) -> u32 {
        let room = self.room();
        if room == 0 || self.queues.len() == 1 {
            return room;
        }
        let capacity = self.capacity.load(Ordering::Acquire);
        let waits = |at: usize| self.queues.get(at).is_some_and(|s| s.queue.waits());
        self.shares.lock().offered(room, capacity, at, waits)
    }

    /// Takes a place for one lease of its queue `at`, if there is one.
    pub(crate) fn try_take(&self, at: usize) -> bool {
        let capacity = self.capacity.load(Ordering::Acquire);
        let open = !self.closed.load(Ordering::Acquire);
        let more = |held: u32| (open && held < capacity).then_some(held + 1);
        let taken = self
            .held
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .is_ok();
        if taken && self.queues.len() > 1 {
            self.shares.lock().took(at);
        }
        taken
    }

    /// Takes a place for a lease that it holds already, whatever its capacity.
    pub(crate) fn take_resumed(&self, queue: &Queue) {
        self.held.fetch_add(1, Ordering::AcqRel);
        if let Some(at) = self.place_of(queue) {
            self.shares.lock().resumed(at);
        }
    }

    /// Gives places back.
    pub(crate) fn give_back(&self, queue: &Queue, places: u32) {
        if let Some(at) = self.place_of(queue) {
            self.shares.lock().gave_back(at, places);
        }
        let less = |held: u32| Some(held.saturating_sub(places));
        let updated = self
            .held
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        debug_assert!(updated.is_ok(), "there always is a next value");
    }

    /// Which of its queues this is; `None` where there is nothing to share.
    fn place_of(&self, queue: &Queue) -> Option<usize> {
        if self.queues.len() == 1 {
            return None;
        }
        self.queues
            .iter()
            .position(|served| served.queue.name == queue.name)
    }

    pub(crate) fn set_capacity(&self, capacity: u32) {
        self.capacity.store(capacity, Ordering::Release);
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Tells the session's task. The event comes back where the task has ended.
    pub(crate) fn tell(&self, event: SessionEvent) -> Result<(), SessionEvent> {
        self.events.send(event).map_err(|failed| failed.0)
    }

    /// How long a lease of this queue lasts in this session.
    pub(crate) fn term(&self, queue: &Queue) -> Duration {
        let served = self
            .queues
            .iter()
            .find(|served| served.queue.name == queue.name);
        served.map_or_else(|| queue.lease_duration(), |served| served.term)
    }

    /// Looks at the session's room again, in all its queues.
    pub(crate) fn refresh(&self) {
        for served in &self.queues {
            served.queue.refresh(self);
        }
    }

    /// Leaves all its queues: nothing more is given to it.
    pub(crate) fn leave(&self) {
        for served in &self.queues {
            served.queue.leave(self);
        }
    }
}
