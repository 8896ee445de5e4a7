//! Extending leases by their tokens, at any server.
//!
//! One server keeps what is known of a lease: as a rule the one that gave it, or another that took it over
//! while that one did not answer. So a lease that is not known here is asked for, and only where nobody
//! knows it does its token say until when it holds.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use keywork_jetstream::{ANSWER_WITHIN, clock};
use keywork_model::{QueueName, UnixMillis, WorkerId, limits, token::LeaseFacts};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use crate::{
    engine::Engine,
    error::OpenError,
    lease::{LostReason, Phase},
    peers,
    queue::Queue,
    session::{
        Served, Session,
        beat::{self, Extension},
    },
};

/// An extended lease.
#[derive(Debug)]
pub struct Extended {
    /// The token from now on: it proves the new deadline.
    pub token: Bytes,
    /// Until the new deadline.
    pub time_left: std::time::Duration,
}

/// What became of one lease of a unary heartbeat.
#[derive(Debug)]
pub enum Heartbeaten {
    /// Extended.
    Extended(Extended),
    /// Lost.
    Lost(LostReason),
    /// JetStream did not answer: as before.
    TryAgain,
}

/// What one server says that is asked to extend a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Extending {
    /// Until then.
    Until(UnixMillis),
    /// It knows that the lease is lost.
    Lost(LostReason),
    /// It does not know the lease, or no longer.
    NotHere,
    /// JetStream did not answer: as before.
    TryAgain,
}

impl Engine {
    /// Extends leases by their tokens. Each is answered within the time that NATS has for one answer,
    /// however many have to be asked for it.
    pub async fn heartbeat(&self, tokens: Vec<Bytes>) -> Vec<Heartbeaten> {
        let in_time = |token| async {
            let extended = timeout(ANSWER_WITHIN, self.extend(token)).await;
            extended.unwrap_or(Heartbeaten::TryAgain)
        };
        join_all(tokens.into_iter().map(in_time)).await
    }

    async fn extend(&self, token: Bytes) -> Heartbeaten {
        let Ok(facts) = self.secret().open_lease(&token) else {
            return Heartbeaten::Lost(LostReason::Invalid);
        };
        let queue = match self.open_leased(&facts).await {
            Ok(queue) => queue,
            Err(OpenError::Unknown(_)) => return Heartbeaten::Lost(LostReason::Expired),
            Err(_) => return Heartbeaten::TryAgain,
        };
        if queue.jobs.incarnation() != facts.incarnation {
            return Heartbeaten::Lost(LostReason::Expired);
        }
        match self.extend_where_known(&queue, &facts, token).await {
            Extending::Until(until) => Heartbeaten::Extended(self.renewed(&facts, until)),
            Extending::Lost(reason) => Heartbeaten::Lost(reason),
            Extending::NotHere => Heartbeaten::Lost(LostReason::Expired),
            Extending::TryAgain => Heartbeaten::TryAgain,
        }
    }

    async fn extend_where_known(
        &self,
        queue: &Arc<Queue>,
        facts: &LeaseFacts,
        token: Bytes,
    ) -> Extending {
        let here = queue.extend_own(facts.sequence, facts.valid_until).await;
        if here != Extending::NotHere {
            return here;
        }
        let there = self.extend_at_peer(queue, facts).await;
        if there != Extending::NotHere {
            return there;
        }
        match self.adopt_by_proof(queue, facts, token).await {
            Ok(()) => queue.extend_own(facts.sequence, facts.valid_until).await,
            Err(answer) => answer,
        }
    }

    /// Asks the server that gave the lease, and then all others.
    async fn extend_at_peer(&self, queue: &Arc<Queue>, facts: &LeaseFacts) -> Extending {
        let (name, n, until) = (&queue.name, facts.sequence, facts.valid_until);
        if facts.server != self.server() {
            let asked = peers::extend(self, facts.server, name, n, until).await;
            if asked != Extending::NotHere {
                return asked;
            }
        }
        match peers::who_holds(self, name, n).await {
            Some(holder) => peers::extend(self, holder.server, name, n, until).await,
            None => Extending::NotHere,
        }
    }

    /// Nobody else knows the lease: the token proves until when it is good.
    async fn adopt_by_proof(
        &self,
        queue: &Arc<Queue>,
        facts: &LeaseFacts,
        token: Bytes,
    ) -> Result<(), Extending> {
        if facts.valid_until <= clock::now() {
            return Err(Extending::NotHere);
        }
        let session = match self.session(facts.session) {
            Some(session) => session,
            None => self.stand_in(queue, facts).ok_or(Extending::TryAgain)?,
        };
        let until = facts.valid_until;
        let adopted = self.adopt(queue, &session, &token, facts, until).await;
        adopted.map(drop).map_err(Extending::Lost)
    }

    /// Stands for a session of another server that was given a lease.
    fn stand_in(&self, queue: &Arc<Queue>, facts: &LeaseFacts) -> Option<Arc<Session>> {
        let served = Served {
            term: queue.lease_duration(),
            queue: Arc::clone(queue),
            share: 1.0,
        };
        let worker = WorkerId::parse(&format!("pull-{:016x}", facts.session)).ok()?;
        let (session, _) = Session::new(facts.session, worker, clock::now(), vec![served], 0);
        session.close();
        self.admit(&session);
        Some(session)
    }

    fn renewed(&self, facts: &LeaseFacts, until: UnixMillis) -> Extended {
        let renewed = LeaseFacts {
            valid_until: until,
            ..facts.clone()
        };
        Extended {
            token: self.secret().seal_lease(&renewed),
            time_left: until.since(clock::now()),
        }
    }

    /// Extends a lease of this server, as a peer asks that was shown its token.
    pub(crate) async fn extend_own(
        &self,
        queue: &str,
        sequence: u64,
        proven: UnixMillis,
    ) -> Extending {
        let name = QueueName::parse(queue).ok();
        match name.and_then(|name| self.open_already(&name)) {
            Some(queue) => queue.extend_own(sequence, proven).await,
            None => Extending::NotHere,
        }
    }
}

impl Queue {
    /// Extends a lease that this server knows, whose token proves that it is good until `proven`.
    async fn extend_own(self: &Arc<Self>, sequence: u64, proven: UnixMillis) -> Extending {
        let extension = match self.extension_of(sequence, proven) {
            Ok(extension) => extension,
            Err(answer) => return answer,
        };
        let (n, c) = (extension.sequence, extension.consumer_sequence);
        if self.jobs.extend_now(n, c).await.is_err() {
            return Extending::TryAgain;
        }
        match beat::confirm(&extension, self.lease_duration()) {
            Ok(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                Extending::Until(clock::now().plus(left))
            }
            Err(reason) => Extending::Lost(reason),
        }
    }

    fn extension_of(
        self: &Arc<Self>,
        sequence: u64,
        proven: UnixMillis,
    ) -> Result<Extension, Extending> {
        let (proven, now) = (self.proven(proven), Instant::now());
        let mut state = self.state.lock();
        state.leases.prove(sequence, proven);
        let lease = state.leases.get(sequence).ok_or(Extending::NotHere)?;
        match lease.phase {
            Phase::Lost(reason) => Err(Extending::Lost(reason)),
            Phase::Settled(_) => Err(Extending::Lost(LostReason::Expired)),
            // Another server may know better.
            Phase::Held | Phase::Settling if now >= lease.deadline => Err(Extending::NotHere),
            Phase::Held | Phase::Settling => Ok(Extension {
                queue: Arc::clone(self),
                sequence,
                consumer_sequence: lease.consumer_sequence,
                token: Bytes::new(),
                sent: now,
            }),
        }
    }

    /// The deadline that a token proves. No promise goes beyond JetStream's wait, so nothing that a clock
    /// that jumped makes of one does.
    pub(crate) fn proven(&self, until: UnixMillis) -> Instant {
        let most = self.ack_wait().saturating_sub(limits::ACK_WAIT_MARGIN);
        Instant::now() + until.since(clock::now()).min(most)
    }
}
