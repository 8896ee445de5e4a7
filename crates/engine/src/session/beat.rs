//! One heartbeat under way: every lease that it lists is extended or known to be lost before it is answered.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use keywork_jetstream::clock;
use keywork_model::UnixMillis;
use tokio::time::Instant;

use crate::{
    engine::Engine,
    lease::{Lost, LostReason, Phase},
    queue::Queue,
    session::{Output, Session, proofs::Proofs},
};

/// A heartbeat whose extensions are under way.
#[derive(Debug)]
pub(super) struct Beat {
    sequence: u64,
    sent_at: UnixMillis,
    /// Extensions without an answer.
    pub(super) open: usize,
    lost: Vec<Lost>,
    unconfirmed: Vec<Bytes>,
}

/// One lease to extend.
#[derive(Debug)]
pub(crate) struct Extension {
    pub(crate) queue: Arc<Queue>,
    pub(crate) sequence: u64,
    pub(crate) consumer_sequence: u64,
    pub(crate) token: Bytes,
    pub(crate) sent: Instant,
}

impl Beat {
    pub(super) fn new(sequence: u64) -> Self {
        Self {
            sequence,
            sent_at: clock::now(),
            open: 0,
            lost: Vec::new(),
            unconfirmed: Vec::new(),
        }
    }

    /// Looks at one listed lease: answers what to extend, or notes that it is lost.
    pub(super) fn look(
        &mut self,
        engine: &Engine,
        session: &Session,
        token: Bytes,
        now: Instant,
    ) -> Option<Extension> {
        match extension(engine, session, token.clone(), now) {
            Ok(extension) => extension,
            Err(reason) => {
                self.lost.push(Lost { token, reason });
                None
            }
        }
    }

    /// Takes in the answer to an extension.
    pub(super) fn answered(
        &mut self,
        session: &Session,
        proofs: &mut Proofs,
        extension: Extension,
        confirmed: bool,
    ) {
        self.open -= 1;
        if !confirmed {
            self.unconfirmed.push(extension.token);
            return;
        }
        match confirm(&extension, session.term(&extension.queue)) {
            Ok(deadline) => {
                let left = deadline.saturating_duration_since(extension.sent);
                let until = self.sent_at.plus(left);
                proofs.extended(&extension.queue, extension.sequence, until);
            }
            Err(reason) => self.lost.push(Lost {
                token: extension.token,
                reason,
            }),
        }
    }

    /// The answer to the worker.
    pub(super) fn answer(self, ticket: Bytes) -> Output {
        Output::HeartbeatAck {
            sequence: self.sequence,
            lost: self.lost,
            unconfirmed: self.unconfirmed,
            ticket,
        }
    }
}

/// What to extend; `None`: nothing to do, as where its settlement is under way.
fn extension(
    engine: &Engine,
    session: &Session,
    token: Bytes,
    now: Instant,
) -> Result<Option<Extension>, LostReason> {
    let facts = engine
        .secret()
        .open_lease(&token)
        .map_err(|_| LostReason::Invalid)?;
    let served = session
        .queues
        .iter()
        .find(|served| *served.queue.name == facts.queue);
    let queue = served
        .map(|served| Arc::clone(&served.queue))
        .ok_or(LostReason::Expired)?;
    if queue.jobs.incarnation() != facts.incarnation {
        return Err(LostReason::Expired);
    }
    let proven = queue.proven(facts.valid_until);
    let mut state = queue.state.lock();
    state.leases.prove(facts.sequence, proven);
    let lease = state
        .leases
        .get(facts.sequence)
        .ok_or(LostReason::Expired)?;
    match lease.phase {
        Phase::Settling => Ok(None),
        Phase::Lost(reason) => Err(reason),
        Phase::Settled(_) => Err(LostReason::Expired),
        Phase::Held if !lease.live(now) || lease.session != session.id => Err(LostReason::Expired),
        Phase::Held => Ok(Some(Extension {
            sequence: facts.sequence,
            consumer_sequence: lease.consumer_sequence,
            sent: now,
            token,
            queue: Arc::clone(&queue),
        })),
    }
}

/// An extension counts only when its answer came before the deadline that it extends.
pub(crate) fn confirm(extension: &Extension, term: Duration) -> Result<Instant, LostReason> {
    let mut state = extension.queue.state.lock();
    let lease = state
        .leases
        .get_mut(extension.sequence)
        .ok_or(LostReason::Expired)?;
    match lease.phase {
        Phase::Lost(reason) => Err(reason),
        Phase::Settled(_) => Err(LostReason::Expired),
        Phase::Settling => Ok(lease.deadline),
        Phase::Held if !lease.live(Instant::now()) => Err(LostReason::Expired),
        Phase::Held => {
            lease.deadline = lease.extended(extension.sent, term);
            Ok(lease.deadline)
        }
    }
}
