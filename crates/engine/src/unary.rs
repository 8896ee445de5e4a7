//! Leasing without a stream: pull, extend and settle by token, at any server.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::join_all;
use keywork_jetstream::{ANSWER_WITHIN, Completions, clock};
use keywork_model::{QueueName, UnixMillis, WorkerId, fit_in_message, token::LeaseFacts};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    engine::Engine,
    error::OpenError,
    lease::{Granted, LostReason, Phase},
    peers::{self, Asked},
    queue::Queue,
    session::{
        Served, Session, SessionEvent, SettleItem, SettleResult,
        beat::{self, Extension},
        settling::{self, Ended, Quick, Start},
    },
};

/// An extended lease.
#[derive(Debug)]
pub struct Extended {
    /// The token from now on: it proves the new deadline.
    pub token: Bytes,
    /// Until the new deadline.
    pub time_left: Duration,
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

/// A pull under way. Dropped before its end, as when the caller hangs up, it hands back what it was given.
struct PullGuard {
    engine: Engine,
    session: Arc<Session>,
    events: UnboundedReceiver<SessionEvent>,
    done: bool,
}

impl Drop for PullGuard {
    fn drop(&mut self) {
        self.session.close();
        self.session.leave();
        self.events.close();
        if !self.done {
            self.engine.hand_back_all(&self.session);
        }
    }
}

impl Engine {
    /// Leases up to `most` jobs, waiting for the first one until `wait` is over.
    ///
    /// # Errors
    /// Why the queue cannot be served.
    pub async fn pull(
        &self,
        queue: &QueueName,
        worker: Option<WorkerId>,
        most: u32,
        wait: Duration,
    ) -> Result<Vec<Granted>, OpenError> {
        let until = Instant::now() + wait;
        let queue = self.open(queue).await?;
        let id: u64 = rand::random();
        let named = worker.map_or_else(|| WorkerId::parse(&format!("pull-{id:016x}")), Ok)?;
        let served = Served {
            term: queue.lease_duration(),
            queue,
            share: 1.0,
        };
        let (session, events) = Session::new(id, named, clock::now(), vec![served], most);
        self.admit(&session);
        let mut pull = PullGuard {
            engine: self.clone(),
            session: Arc::clone(&session),
            events,
            done: false,
        };
        for served in &session.queues {
            served
                .queue
                .state
                .lock()
                .roster
                .add(Arc::clone(&session), 0);
            served.queue.wake.notify_one();
        }
        let mut granted = match timeout_at(until, pull.events.recv()).await {
            Ok(Some(SessionEvent::Deliver(granted))) => granted,
            Ok(_) | Err(_) => Vec::new(),
        };
        session.close();
        session.leave();
        pull.events.close();
        while let Some(event) = pull.events.recv().await {
            if let SessionEvent::Deliver(more) = event {
                granted.extend(more);
            }
        }
        // One turn of the runtime: where the caller has hung up already, this future is dropped here, and
        // what it was given goes back instead of into an answer that nobody reads.
        tokio::task::yield_now().await;
        pull.done = true;
        // More would be a message that clients refuse: the rest goes to whoever asks next.
        let fitting = fit_in_message(granted.iter().map(|one| &one.job));
        let rest = granted.split_off(fitting);
        if let Some(served) = session.queues.first() {
            let sequences = rest.iter().map(|one| one.sequence).collect();
            self.hand_back(&served.queue, sequences);
        }
        Ok(granted)
    }

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
        let queue = match self.open_existing(&facts.queue).await {
            Ok(queue) => queue,
            Err(OpenError::Unknown) => return Heartbeaten::Lost(LostReason::Expired),
            Err(_) => return Heartbeaten::TryAgain,
        };
        if queue.jobs.incarnation() != facts.incarnation {
            return Heartbeaten::Lost(LostReason::Expired);
        }
        let known = queue.state.lock().leases.get(facts.sequence).is_some();
        if known || facts.server == self.server() {
            return self.extend_here(&queue, &facts, token).await;
        }
        match peers::extend(self, facts.server, &queue.name, facts.sequence).await {
            Asked::Answered(Some(until)) => Heartbeaten::Extended(self.renewed(&facts, until)),
            Asked::Answered(None) => Heartbeaten::Lost(LostReason::Expired),
            Asked::Gone => self.adopt_and_extend(&queue, &facts, token).await,
        }
    }

    /// The server that gave the lease is gone: the token proves until when the lease was good.
    async fn adopt_and_extend(
        &self,
        queue: &Arc<Queue>,
        facts: &LeaseFacts,
        token: Bytes,
    ) -> Heartbeaten {
        let term = queue.lease_duration();
        let served = Served {
            queue: Arc::clone(queue),
            share: 1.0,
            term,
        };
        let Ok(worker) = WorkerId::parse(&format!("pull-{:016x}", facts.session)) else {
            return Heartbeaten::TryAgain;
        };
        let (session, _) = Session::new(facts.session, worker, clock::now(), vec![served], 0);
        session.close();
        self.admit(&session);
        match self
            .adopt(queue, &session, &token, facts, facts.valid_until)
            .await
        {
            Ok(_) => self.extend_here(queue, facts, token).await,
            Err(reason) => Heartbeaten::Lost(reason),
        }
    }

    async fn extend_here(
        &self,
        queue: &Arc<Queue>,
        facts: &LeaseFacts,
        token: Bytes,
    ) -> Heartbeaten {
        match queue.extend_own(facts.sequence, token).await {
            Ok(Some(until)) => Heartbeaten::Extended(self.renewed(facts, until)),
            Ok(None) => Heartbeaten::TryAgain,
            Err(reason) => Heartbeaten::Lost(reason),
        }
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

    /// Extends a lease of this server, as a peer asks.
    pub(crate) async fn extend_own(&self, queue: &str, sequence: u64) -> Option<UnixMillis> {
        let queue = self.open_already(&QueueName::parse(queue).ok()?)?;
        queue
            .extend_own(sequence, Bytes::new())
            .await
            .ok()
            .flatten()
    }

    /// Settles leases by their tokens. One result for each, in order.
    pub async fn ack(&self, items: Vec<SettleItem>) -> Vec<SettleResult> {
        let mut results: Vec<Option<SettleResult>> = items.iter().map(|_| None).collect();
        let mut completions: Completions<(usize, Quick)> = Completions::default();
        let mut slow = Vec::new();
        for (at, item) in items.into_iter().enumerate() {
            match settling::start(self, item, &mut completions, |quick| (at, quick)) {
                Start::Done(result) => results[at] = Some(result),
                Start::Quick => {}
                Start::Slow(future) => slow.push((at, future)),
            }
        }
        while !completions.is_empty() {
            let mut ended = Ended::default();
            for ((at, quick), reply) in completions.ready().await {
                match settling::finish(self, quick, reply, &mut ended) {
                    Ok(result) => results[at] = Some(result),
                    Err(future) => slow.push((at, future)),
                }
            }
            ended.give_back(self);
        }
        let finished = join_all(slow.into_iter().map(|(at, f)| async move { (at, f.await) })).await;
        for (at, result) in finished {
            results[at] = Some(result);
        }
        results.into_iter().flatten().collect()
    }
}

impl Queue {
    /// Extends a lease of this server. `None`: JetStream did not answer.
    async fn extend_own(
        self: &Arc<Self>,
        sequence: u64,
        token: Bytes,
    ) -> Result<Option<UnixMillis>, LostReason> {
        let extension = self.extension_of(sequence, token)?;
        let (n, c) = (extension.sequence, extension.consumer_sequence);
        if self.jobs.extend_now(n, c).await.is_err() {
            return Ok(None);
        }
        let deadline = beat::confirm(&extension, self.lease_duration())?;
        let left = deadline.saturating_duration_since(Instant::now());
        Ok(Some(clock::now().plus(left)))
    }

    fn extension_of(
        self: &Arc<Self>,
        sequence: u64,
        token: Bytes,
    ) -> Result<Extension, LostReason> {
        let now = Instant::now();
        let state = self.state.lock();
        let lease = state.leases.get(sequence).ok_or(LostReason::Expired)?;
        match lease.phase {
            Phase::Lost(reason) => Err(reason),
            Phase::Settled(_) => Err(LostReason::Expired),
            Phase::Held | Phase::Settling if now >= lease.deadline => Err(LostReason::Expired),
            Phase::Held | Phase::Settling => Ok(Extension {
                queue: Arc::clone(self),
                sequence,
                consumer_sequence: lease.consumer_sequence,
                token,
                sent: now,
            }),
        }
    }
}
