//! Leasing without a stream: pull, and settle by token, at any server.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use keywork_jetstream::{Completions, clock};
use keywork_model::{QueueName, WorkerId, fit_in_message};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    engine::Engine,
    error::OpenError,
    lease::Granted,
    session::{
        GoAwayReason, Served, Session, SessionEvent, SettleItem, SettleResult,
        settling::{self, Ended, Quick, Start},
    },
};

/// The pause before a pull that was sent away asks again.
const PULL_AGAIN: Duration = Duration::from_millis(50);

/// How one try of a pull ended.
enum Pulled {
    Jobs(Vec<Granted>),
    SentAway(GoAwayReason),
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
        loop {
            match self.pull_once(queue, worker.clone(), most, until).await? {
                Pulled::Jobs(granted) => return Ok(granted),
                Pulled::SentAway(GoAwayReason::Draining) => return Err(OpenError::Stopping),
                Pulled::SentAway(GoAwayReason::Superseded) => return Ok(Vec::new()),
                // The queue is made anew, or has other terms: what is left of the wait is waited there.
                Pulled::SentAway(GoAwayReason::QueueDeleted | GoAwayReason::TermsChanged) => {
                    if Instant::now() >= until {
                        return Ok(Vec::new());
                    }
                    sleep(PULL_AGAIN).await;
                }
            }
        }
    }

    async fn pull_once(
        &self,
        queue: &QueueName,
        worker: Option<WorkerId>,
        most: u32,
        until: Instant,
    ) -> Result<Pulled, OpenError> {
        let queue = self.open_sound(queue).await?;
        let id: u64 = rand::random();
        let named = worker.map_or_else(|| WorkerId::parse(&format!("pull-{id:016x}")), Ok)?;
        let served = Served {
            term: queue.lease_duration(),
            queue: Arc::clone(&queue),
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
        queue.state.lock().roster.add(Arc::clone(&session), 0);
        queue.wake.notify_one();
        let first = timeout_at(until, pull.events.recv()).await.ok().flatten();
        session.close();
        session.leave();
        pull.events.close();
        let mut events = Vec::from_iter(first);
        while let Some(event) = pull.events.recv().await {
            events.push(event);
        }
        let (mut granted, mut sent_away) = (Vec::new(), None);
        for event in events {
            match event {
                SessionEvent::Deliver(more) => granted.extend(more),
                SessionEvent::GoAway(away) => sent_away = Some(away.reason),
                // A lease that was given, and lost before the caller was told: it finds out.
                SessionEvent::Lost(_) => {}
            }
        }
        // One turn of the runtime: where the caller has hung up already, this future is dropped here, and
        // what it was given goes back instead of into an answer that nobody reads.
        tokio::task::yield_now().await;
        pull.done = true;
        if let Some(reason) = sent_away.filter(|_| granted.is_empty()) {
            return Ok(Pulled::SentAway(reason));
        }
        // More would be a message that clients refuse: the rest goes to whoever asks next.
        let fitting = fit_in_message(granted.iter().map(|one| &one.job));
        let rest = granted.split_off(fitting);
        self.hand_back(&queue, rest.iter().map(|one| one.sequence).collect());
        Ok(Pulled::Jobs(granted))
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
