//! One pull loop for each queue: asks for what the sessions have room for, and deals with what comes.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use keywork_jetstream::{
    clock,
    pull::{Delivery, QueuePulls, TICK},
};
use keywork_model::{
    QueueConfig,
    decide::{self, DeliveryFacts, OnDelivery},
    token::LeaseFacts,
};
use tokio::time::{Duration, Instant, MissedTickBehavior, interval, sleep};

use crate::{
    engine::Engine,
    guard::Verdict,
    lease::{Granted, Lease, Phase},
    queue::Queue,
    session::{Session, SessionEvent},
    settle,
};

/// Most jobs of one pull.
const MOST_AT_ONCE: usize = 4_096;
/// Most deliveries that are dealt with at once without going to a session.
const MOST_CHORES: usize = 8_192;

/// Most deliveries to draw at once although nobody has room for them.
const DRAW: usize = 256;
/// How many to draw at first: a new job among them has to be given back.
const LEAST_DRAWN: usize = 4;
/// How long re-seats are held back while redeliveries are drawn.
const DRAW_FOR: Duration = Duration::from_millis(20);

type Chores = FuturesUnordered<BoxFuture<'static, ()>>;

struct Dispatcher {
    engine: Engine,
    queue: Arc<Queue>,
    pulls: QueuePulls,
    /// Deliveries that go to no session: stored anew, put off, buried.
    chores: Chores,
    /// How many redeliveries to draw next beyond what there is room for; 0: none.
    draw: usize,
    /// How many that was, the last time.
    drawn: usize,
    /// Nothing came since the last tick.
    quiet: bool,
}

/// Runs until the queue is closed.
pub(crate) async fn run(engine: Engine, queue: Arc<Queue>, pulls: QueuePulls) {
    let stop = queue.stop.clone();
    let mut dispatcher = Dispatcher {
        engine,
        queue,
        pulls,
        chores: Chores::new(),
        draw: 0,
        drawn: 0,
        quiet: false,
    };
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        dispatcher.ask().await;
        let Dispatcher {
            pulls,
            chores,
            queue,
            ..
        } = &mut dispatcher;
        tokio::select! {
            () = stop.cancelled() => return,
            () = queue.wake.notified() => {}
            _ = ticks.tick() => {
                pulls.tick().await;
                dispatcher.look_for_quiet();
            }
            Some(()) = chores.next(), if !chores.is_empty() => {}
            arrived = pulls.ready() => match arrived {
                Some(deliveries) => dispatcher.deal_with(deliveries).await,
                None => return,
            },
        }
    }
}

impl Dispatcher {
    /// Asks for what there is room for. Little by little only when nothing is asked for.
    async fn ask(&mut self) {
        if !self.queue.sound() || !certain(&self.queue).await {
            return;
        }
        let now = Instant::now();
        let room = self.queue.state.lock().roster.room();
        let room = if self.queue.guard.lock().must_draw(now) {
            room.max(DRAW)
        } else {
            room
        };
        if !self.queue.guard.lock().may_ask(now) || self.chores.len() >= MOST_CHORES {
            return;
        }
        let asked = self.pulls.asked();
        if room == 0 && asked == 0 {
            let chased = self.queue.chase.swap(false, Ordering::Relaxed);
            let draw = std::mem::take(&mut self.draw).max(chased.into());
            self.pulls.ask(draw, false).await;
            return;
        }
        let want = room.saturating_sub(asked).min(MOST_AT_ONCE);
        if want > 0 && (asked == 0 || want >= room.div_ceil(4)) {
            self.pulls.ask(want, true).await;
        }
    }

    /// What is asked for and does not come is not there.
    fn look_for_quiet(&mut self) {
        if std::mem::replace(&mut self.quiet, true) && self.pulls.asked() > 0 {
            self.queue.learn_waits(false);
        }
    }

    async fn deal_with(&mut self, deliveries: Vec<Delivery>) {
        let Some(last) = deliveries.last() else {
            return;
        };
        self.quiet = false;
        self.queue.learn_waits(last.pending > 0);
        let redelivered = deliveries.iter().any(|delivery| delivery.count > 1);
        if redelivered && !self.queue.look_at_keeper().await {
            // They stay pending, and come back when their time runs out.
            return;
        }
        if !self.queue.sound() || !certain(&self.queue).await {
            // They stay pending, and come back when their time runs out.
            return;
        }
        // JetStream hands out redeliveries first, and any re-seat makes it put off those that it has not
        // handed out by one more wait. So while they come, more are drawn than there is room for, and the
        // re-seats are held back a moment.
        let redelivered = deliveries.last().is_some_and(|last| last.count > 1);
        self.drawn = if redelivered {
            (self.drawn * 2).clamp(LEAST_DRAWN, DRAW)
        } else {
            0
        };
        self.draw = self.drawn;
        let (now, config) = (Instant::now(), self.queue.config());
        let mut to_lease = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            self.queue.saw_delivered(delivery.stored.sequence);
            match self.decide(&delivery, &config, now) {
                Some(OnDelivery::Lease) => to_lease.push(delivery),
                Some(other) => self
                    .chores
                    .push(chore(Arc::clone(&self.queue), delivery, other)),
                None => {}
            }
        }
        for left in lease(&self.engine, &self.queue, to_lease) {
            let again = decide_with(&left, &config, false, true);
            self.chores
                .push(chore(Arc::clone(&self.queue), left, again));
        }
    }

    /// What to do; `None`: drop it.
    fn decide(
        &self,
        delivery: &Delivery,
        config: &QueueConfig,
        now: Instant,
    ) -> Option<OnDelivery> {
        let may_have_run = match self.queue.judge(delivery, now) {
            Verdict::Drop => return None,
            Verdict::Forgiven => false,
            Verdict::Certain => true,
        };
        // What lay in a buffer for long is not worth a lease: too little of it would be left.
        let fresh = now.duration_since(delivery.not_before) < self.queue.lease_duration() / 2;
        Some(decide_with(delivery, config, fresh, may_have_run))
    }
}

fn decide_with(
    delivery: &Delivery,
    config: &QueueConfig,
    room: bool,
    may_have_run: bool,
) -> OnDelivery {
    let facts = DeliveryFacts {
        count: delivery.count,
        may_have_run,
        room,
        now: clock::now(),
        jitter: rand::random(),
    };
    decide::on_delivery(&delivery.stored.job, config, facts)
}

/// Whether it is known that NATS was not restarted, or the wait has begun.
async fn certain(queue: &Queue) -> bool {
    let epoch = queue.jobs.nats().epoch();
    if !queue.guard.lock().must_check(epoch) {
        return true;
    }
    if !queue.jobs.nats().connected() {
        return false;
    }
    match queue.check_restart().await {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(queue = %queue.name, %error, "failed to look for a restart of NATS");
            false
        }
    }
}

/// Carries out what is decided of a delivery that goes to no session. Whatever fails comes back when
/// JetStream's wait runs out.
fn chore(queue: Arc<Queue>, delivery: Delivery, what: OnDelivery) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let stored = &delivery.stored;
        if delivery.count > 1 {
            sleep(DRAW_FOR).await;
        }
        let done = match what {
            OnDelivery::Lease => Ok(()),
            OnDelivery::Wait(delay) => {
                let (n, c) = (stored.sequence, delivery.consumer_sequence);
                let later = queue.jobs.deliver_later(n, c, delivery.count, delay).await;
                later.map_err(Into::into)
            }
            OnDelivery::Reseat(reseat) => settle::reseat(&queue, stored, reseat).await,
            OnDelivery::Doom(reason, error) => settle::doom(&queue, stored, reason, error).await,
            OnDelivery::FinishDead(reason) => {
                settle::finish_dead(
                    &queue,
                    &stored.subject,
                    stored.sequence,
                    &stored.job,
                    reason,
                )
                .await
            }
            OnDelivery::RemoveTombstone => settle::remove(&queue, stored).await.map(drop),
        };
        if let Err(error) = done {
            tracing::warn!(queue = %queue.name, %error, "failed to deal with a delivery");
        }
    })
}

/// Gives jobs to the sessions whose turn it is. Answers those that nobody had room for.
fn lease(engine: &Engine, queue: &Arc<Queue>, deliveries: Vec<Delivery>) -> Vec<Delivery> {
    let takers: Vec<Option<Arc<Session>>> = {
        let mut state = queue.state.lock();
        deliveries.iter().map(|_| state.roster.take()).collect()
    };
    let (mut left, mut leases) = (Vec::new(), Vec::with_capacity(deliveries.len()));
    let mut grants: HashMap<u64, (Arc<Session>, Vec<Granted>)> = HashMap::new();
    let (config, now, wall) = (queue.config(), Instant::now(), clock::now());
    for (delivery, taker) in deliveries.into_iter().zip(takers) {
        let Some(session) = taker else {
            left.push(delivery);
            continue;
        };
        let deadline = delivery.not_before + session.term(queue);
        let token = engine.secret().seal_lease(&LeaseFacts {
            queue: (*queue.name).clone(),
            incarnation: queue.jobs.incarnation(),
            sequence: delivery.stored.sequence,
            consumer_sequence: delivery.consumer_sequence,
            server: engine.server(),
            session: session.id,
            issued_at: wall,
            valid_until: wall.plus(deadline.saturating_duration_since(now)),
        });
        let reseated = delivery.stored.job.reseated;
        leases.push((
            delivery.stored.sequence,
            Lease {
                session: session.id,
                worker: session.worker.clone(),
                token: token.clone(),
                consumer_sequence: delivery.consumer_sequence,
                deadline,
                run_until: config.max_run_time.map(|most| delivery.not_before + most),
                give_up_at: None,
                epoch: delivery.epoch,
                reseated,
                phase: Phase::Held,
            },
        ));
        let granted = Granted {
            token,
            queue: Arc::clone(&queue.name),
            sequence: delivery.stored.sequence,
            max_attempts: delivery.stored.job.max_attempts(&config),
            job: delivery.stored.job,
            deadline,
        };
        let entry = grants
            .entry(session.id)
            .or_insert_with(|| (session, Vec::new()));
        entry.1.push(granted);
    }
    {
        let mut state = queue.state.lock();
        for (sequence, lease) in leases {
            // A sequence is leased at most once.
            drop(state.leases.insert(sequence, lease));
        }
    }
    for (session, granted) in grants.into_values() {
        if session.queues.len() > 1 {
            session.refresh();
        }
        if let Err(SessionEvent::Deliver(granted)) = session.tell(SessionEvent::Deliver(granted)) {
            engine.hand_back(queue, granted.iter().map(|g| g.sequence).collect());
        }
    }
    left
}
