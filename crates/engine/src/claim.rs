//! Going on with leases in a new session, and what becomes of those that a worker does not go on with.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use keywork_jetstream::clock;
use keywork_model::{
    QueueName, UnixMillis, WorkerId,
    token::{LeaseFacts, TicketFacts},
};
use tokio::time::Instant;

use crate::{
    engine::{Engine, send_away},
    lease::{Lease, Lost, LostReason, Phase},
    peers::{self, PeerMessage},
    queue::Queue,
    session::{GoAwayReason, Session},
};

/// How long a superseded session has to hear of it.
const SUPERSEDED_GRACE: Duration = Duration::from_secs(1);

/// A lease that lives on.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) token: Bytes,
    pub(crate) queue: QueueName,
    pub(crate) sequence: u64,
    pub(crate) time_left: Duration,
}

/// What another server let go of: sequences, each with the time until when its lease is good.
pub(crate) type Transferred = HashMap<u64, UnixMillis>;

impl Engine {
    /// Claims leases for a session that is about to open.
    pub(crate) async fn claim(
        &self,
        session: &Arc<Session>,
        held: &[Bytes],
        ticket: &Bytes,
    ) -> (Vec<Resumed>, Vec<Lost>) {
        let ticket = self.secret().open_ticket(ticket).ok();
        let (mut opened, mut lost) = (Vec::new(), Vec::new());
        for token in held {
            match self.secret().open_lease(token) {
                Ok(facts) => opened.push((token.clone(), facts)),
                Err(_) => lost.push(Lost {
                    token: token.clone(),
                    reason: LostReason::Invalid,
                }),
            }
        }
        let mut transferred = self.ask_for_leases(&opened, ticket.as_ref()).await;
        self.ask_for_others(&opened, &mut transferred).await;
        let mut resumed = Vec::new();
        for (token, facts) in opened {
            let of_queue = transferred.get(&facts.queue);
            let until = of_queue.and_then(|t| t.get(&facts.sequence)).copied();
            let until = until
                .unwrap_or_default()
                .max(proven(&facts, ticket.as_ref()));
            match self.take_over(session, &token, &facts, until).await {
                Ok(time_left) => resumed.push(Resumed {
                    token,
                    queue: facts.queue,
                    sequence: facts.sequence,
                    time_left,
                }),
                Err(reason) => lost.push(Lost { token, reason }),
            }
        }
        (resumed, lost)
    }

    /// Asks the servers that may hold the leases to let go of them: the one that gave each, and the one
    /// that the worker comes from.
    async fn ask_for_leases(
        &self,
        held: &[(Bytes, LeaseFacts)],
        ticket: Option<&TicketFacts>,
    ) -> HashMap<QueueName, Transferred> {
        let mut by_server: HashMap<(u64, &QueueName), Vec<u64>> = HashMap::new();
        for (_, facts) in held {
            let from = ticket.filter(|t| t.until(facts).is_some());
            let from = from.map(|t| t.server).filter(|from| *from != facts.server);
            for server in std::iter::once(facts.server).chain(from) {
                if server != self.server() {
                    let sequences = by_server.entry((server, &facts.queue)).or_default();
                    sequences.push(facts.sequence);
                }
            }
        }
        let mut answers: HashMap<QueueName, Transferred> = HashMap::new();
        for ((server, queue), sequences) in by_server {
            let transferred = peers::transfer(self, server, queue, sequences).await;
            answers
                .entry(queue.clone())
                .or_default()
                .extend(transferred);
        }
        answers
    }

    /// Asks all servers for the leases that none has let go of and this one does not know: another may have
    /// taken one over while the one that gave it did not answer.
    async fn ask_for_others(
        &self,
        held: &[(Bytes, LeaseFacts)],
        transferred: &mut HashMap<QueueName, Transferred>,
    ) {
        let mut missing: HashMap<&QueueName, Vec<u64>> = HashMap::new();
        for (_, facts) in held {
            let let_go = transferred.get(&facts.queue);
            let found = let_go.is_some_and(|t| t.contains_key(&facts.sequence));
            if !found && !self.knows(facts) {
                missing
                    .entry(&facts.queue)
                    .or_default()
                    .push(facts.sequence);
            }
        }
        for (queue, sequences) in missing {
            let mut by_server: HashMap<u64, Vec<u64>> = HashMap::new();
            for (sequence, holder) in peers::holders(self, queue, sequences).await {
                by_server.entry(holder.server).or_default().push(sequence);
            }
            for (server, sequences) in by_server {
                let let_go = peers::transfer(self, server, queue, sequences).await;
                transferred.entry(queue.clone()).or_default().extend(let_go);
            }
        }
    }

    /// Whether this server's own table says what is with a lease.
    fn knows(&self, facts: &LeaseFacts) -> bool {
        let Some(queue) = self.open_already(&facts.queue) else {
            return false;
        };
        queue.prove(facts);
        let (state, now) = (queue.state.lock(), Instant::now());
        let lease = state.leases.get(facts.sequence);
        lease.is_some_and(|lease| lease.phase != Phase::Held || lease.live(now))
    }

    async fn take_over(
        &self,
        session: &Arc<Session>,
        token: &Bytes,
        facts: &LeaseFacts,
        until: UnixMillis,
    ) -> Result<Duration, LostReason> {
        let served = session.queues.iter().find(|s| *s.queue.name == facts.queue);
        let queue = &served.ok_or(LostReason::Expired)?.queue;
        if queue.jobs.incarnation() != facts.incarnation {
            return Err(LostReason::Expired);
        }
        if let Some(left) = queue.reassign(self, session, facts)? {
            return Ok(left);
        }
        self.adopt(queue, session, token, facts, until).await
    }

    /// Takes over a lease of another server. Whether its job is still there is read; whether its lease
    /// holds is proven by `until`, and shown by the next heartbeat.
    pub(crate) async fn adopt(
        &self,
        queue: &Arc<Queue>,
        session: &Session,
        token: &Bytes,
        facts: &LeaseFacts,
        until: UnixMillis,
    ) -> Result<Duration, LostReason> {
        let deadline = queue.proven(until);
        if Instant::now() >= deadline {
            return Err(LostReason::Expired);
        }
        let reseated = match queue.jobs.read_sequence(facts.sequence).await {
            Ok(Some(stored)) => stored.job.reseated,
            Ok(None) => return Err(LostReason::Expired),
            // NATS does not say for sure. The proof is as good as it was, and what follows finds out.
            Err(_) => true,
        };
        if Instant::now() >= deadline {
            return Err(LostReason::Expired);
        }
        let most = queue.config().max_run_time;
        let ran = clock::now().since(facts.issued_at);
        let lease = Lease {
            session: session.id,
            worker: session.worker.clone(),
            token: token.clone(),
            consumer_sequence: facts.consumer_sequence,
            deadline,
            run_until: most.map(|most| Instant::now() + most.saturating_sub(ran)),
            give_up_at: None,
            // Of no connection of ours: with one replica it is settled the sure way.
            epoch: 0,
            reseated,
            phase: Phase::Held,
        };
        let before = queue.state.lock().leases.insert(facts.sequence, lease);
        if let Some(before) = before.filter(|before| !before.phase.over()) {
            self.give_back_place(queue, before.session);
        }
        session.take_resumed(queue);
        Ok(deadline.saturating_duration_since(Instant::now()))
    }

    /// Makes the session known, here and to the other servers: an older one of the same worker is
    /// superseded, and the leases that this one does not go on with are handed back.
    pub(crate) async fn enter(&self, session: &Arc<Session>, resumed: &[Resumed]) {
        let held: Vec<(String, u64)> = resumed
            .iter()
            .map(|r| (r.queue.to_string(), r.sequence))
            .collect();
        self.supersede(&session.worker, session.id, session.opened_at, &held);
        self.admit(session);
        for (at, served) in session.queues.iter().enumerate() {
            let mut state = served.queue.state.lock();
            state.roster.add(Arc::clone(session), at);
            drop(state);
            served.queue.wake.notify_one();
        }
        let message = PeerMessage::Opened {
            server: self.server(),
            worker: session.worker.to_string(),
            session: session.id,
            opened_at: session.opened_at,
            held,
        };
        peers::tell_all(self, &message).await;
    }

    /// Ends what older sessions of a worker hold on this server, but for what it goes on with.
    pub(crate) fn supersede(
        &self,
        worker: &WorkerId,
        newer: u64,
        opened_at: UnixMillis,
        held: &[(String, u64)],
    ) {
        for session in self.sessions_of(worker) {
            let older = (session.opened_at, session.id) < (opened_at, newer);
            if session.id == newer || !older {
                continue;
            }
            if !session.is_closed() {
                send_away(&session, GoAwayReason::Superseded, SUPERSEDED_GRACE);
            }
            for served in &session.queues {
                let kept = |n: &u64| {
                    held.iter()
                        .any(|(q, h)| h == n && *q == served.queue.name.as_str())
                };
                let given = served.queue.state.lock().leases.held_by(session.id);
                let (kept, given): (Vec<u64>, Vec<u64>) = given.into_iter().partition(kept);
                // Another server knows them from now on.
                served.queue.end_leases(self, &kept);
                self.hand_back(&served.queue, given);
            }
        }
    }

    /// Lets go of leases that another server goes on with.
    pub(crate) fn let_go(&self, name: &QueueName, sequences: &[u64]) -> Transferred {
        let Some(queue) = self.open_already(name) else {
            return Transferred::new();
        };
        let (now, wall) = (Instant::now(), clock::now());
        let mut transferred = Transferred::new();
        for sequence in sequences {
            if let Some(lease) = queue.live_lease(*sequence, now) {
                let left = lease.deadline.saturating_duration_since(now);
                transferred.insert(*sequence, wall.plus(left));
            }
        }
        let gone: Vec<u64> = transferred.keys().copied().collect();
        queue.end_leases(self, &gone);
        transferred
    }
}

/// Until when a lease is good by what its worker can prove.
fn proven(facts: &LeaseFacts, ticket: Option<&TicketFacts>) -> UnixMillis {
    let extended = ticket.and_then(|ticket| ticket.until(facts));
    extended.unwrap_or_default().max(facts.valid_until)
}

impl Queue {
    /// Takes in until when a lease is good by its token.
    pub(crate) fn prove(&self, facts: &LeaseFacts) {
        let until = self.proven(facts.valid_until);
        self.state.lock().leases.prove(facts.sequence, until);
    }

    /// Gives a lease that this server knows to another session of it. `None`: it does not know it, or no
    /// longer.
    fn reassign(
        &self,
        engine: &Engine,
        session: &Session,
        facts: &LeaseFacts,
    ) -> Result<Option<Duration>, LostReason> {
        self.prove(facts);
        let (before, left) = {
            let mut state = self.state.lock();
            let Some(lease) = state.leases.get_mut(facts.sequence) else {
                return Ok(None);
            };
            let now = Instant::now();
            let left = lease.deadline.saturating_duration_since(now);
            match lease.phase {
                Phase::Lost(reason) => return Err(reason),
                Phase::Settled(_) => return Err(LostReason::Expired),
                // The settlement that is under way will be asked for again, and answered then.
                Phase::Settling => return Ok(Some(left)),
                Phase::Held if !lease.live(now) => return Ok(None),
                Phase::Held => {}
            }
            lease.give_up_at = None;
            lease.worker = session.worker.clone();
            (std::mem::replace(&mut lease.session, session.id), left)
        };
        session.take_resumed(self);
        engine.give_back_place(self, before);
        Ok(Some(left))
    }
}
