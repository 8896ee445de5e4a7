//! Settlements of a session: the quick way for leases that are in time, the sure way for all others.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use keywork_jetstream::{Completions, Reply};
use keywork_model::{decide::Settlement, token::LeaseFacts};
use tokio::time::Instant;

use crate::{
    engine::Engine,
    lease::{Lease, Phase},
    peers,
    queue::Queue,
    session::{Asked, SettleItem, SettleResult},
    settle::{self, Outcome, Settling},
};

/// The quick way needs so much time before the deadline: its answer must come before.
const IN_TIME: Duration = Duration::from_millis(250);

/// A settlement that goes the quick way.
#[derive(Debug)]
pub(crate) struct Quick {
    pub(crate) queue: Arc<Queue>,
    pub(crate) facts: LeaseFacts,
    pub(crate) token: Bytes,
    pub(crate) deadline: Instant,
}

/// Leases that ended and whose places are not given back yet. Many go together: giving one back looks at
/// every queue of its session, and wakes their dispatchers.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Each session and queue with the number of places. There is one as a rule.
    places: Vec<(Arc<Queue>, u64, u32)>,
}

impl Ended {
    fn add(&mut self, queue: &Arc<Queue>, session: u64) {
        let same =
            |(of, id, _): &&mut (Arc<Queue>, u64, u32)| *id == session && Arc::ptr_eq(of, queue);
        match self.places.iter_mut().find(same) {
            Some((_, _, places)) => *places += 1,
            None => self.places.push((Arc::clone(queue), session, 1)),
        }
    }

    /// Makes room for others.
    pub(crate) fn give_back(self, engine: &Engine) {
        for (queue, session, places) in self.places {
            engine.give_back_places(&queue, session, places);
        }
    }
}

/// What a settlement needs to be done.
pub(crate) enum Start {
    /// It is answered already.
    Done(SettleResult),
    /// A request went out, under this ticket's entry.
    Quick,
    /// It takes longer.
    Slow(BoxFuture<'static, SettleResult>),
}

/// Starts a settlement. `remember` makes the ticket for a request that goes out.
pub(crate) fn start<T>(
    engine: &Engine,
    item: SettleItem,
    completions: &mut Completions<T>,
    remember: impl FnOnce(Quick) -> T,
) -> Start {
    let SettleItem { token, asked } = item;
    let done = |token, outcome| {
        Start::Done(SettleResult {
            token,
            outcome,
            refused: None,
        })
    };
    let Ok(facts) = engine.secret().open_lease(&token) else {
        return done(token, Outcome::InvalidLease);
    };
    let settlement = match asked {
        Asked::Settle(settlement) => settlement,
        Asked::Refuse(refused) => {
            let outcome = Outcome::Rejected;
            return Start::Done(SettleResult {
                token,
                outcome,
                refused: Some(refused),
            });
        }
    };
    let Some(queue) = engine.open_already(&facts.queue) else {
        return Start::Slow(open_and_settle(engine.clone(), facts, token, settlement));
    };
    if queue.jobs.incarnation() < facts.incarnation {
        return Start::Slow(open_and_settle(engine.clone(), facts, token, settlement));
    }
    if queue.jobs.incarnation() != facts.incarnation {
        return done(token, Outcome::LeaseLost);
    }
    queue.prove(&facts);
    match begin(&queue, facts.sequence) {
        Begun::Lost => done(token, Outcome::LeaseLost),
        Begun::Settled(before) if before == settlement => done(token, Outcome::AlreadySettled),
        Begun::Settled(_) => done(token, Outcome::LeaseLost),
        Begun::UnderWay => done(token, Outcome::TryAgain),
        Begun::Held(lease) if quick(&queue, lease, &settlement) => {
            let (sequence, consumer_sequence) = (facts.sequence, lease.consumer_sequence);
            let deadline = lease.deadline;
            let ticket = completions.ticket(remember(Quick {
                queue: Arc::clone(&queue),
                facts,
                token,
                deadline,
            }));
            if queue.jobs.replicated() {
                queue.jobs.delete(ticket, sequence);
            } else {
                queue.jobs.ack(ticket, sequence, consumer_sequence);
            }
            Start::Quick
        }
        Begun::Held(_) => Start::Slow(surely(engine.clone(), queue, facts, token, settlement)),
        Begun::Unknown if facts.server != engine.server() => Start::Slow(at_its_server(
            engine.clone(),
            queue,
            facts,
            token,
            settlement,
        )),
        Begun::Unknown => Start::Slow(surely(engine.clone(), queue, facts, token, settlement)),
    }
}

/// Takes in the answer of the quick way. An answer that is late or missing goes on the sure way. The caller
/// gives the places back that it finds in `ended`.
pub(crate) fn finish(
    engine: &Engine,
    quick: Quick,
    reply: Reply,
    ended: &mut Ended,
) -> Result<SettleResult, BoxFuture<'static, SettleResult>> {
    let confirmed = if quick.queue.jobs.replicated() {
        reply.deleted().ok()
    } else {
        reply.acked().ok().map(|()| true)
    };
    let outcome = match confirmed {
        Some(true) if Instant::now() < quick.deadline => Outcome::Settled,
        Some(false) if Instant::now() < quick.deadline => Outcome::AlreadySettled,
        Some(_) | None => {
            let Quick {
                queue,
                facts,
                token,
                ..
            } = quick;
            let settlement = Settlement::Complete;
            return Err(surely(engine.clone(), queue, facts, token, settlement));
        }
    };
    if outcome == Outcome::Settled {
        quick.queue.count_ended();
    }
    let lease = quick.queue.state.lock().leases.remove(quick.facts.sequence);
    if let Some(lease) = lease {
        ended.add(&quick.queue, lease.session);
    }
    Ok(SettleResult {
        token: quick.token,
        outcome,
        refused: None,
    })
}

enum Begun {
    Held(Held),
    UnderWay,
    Lost,
    Settled(Settlement),
    Unknown,
}

/// What the quick way asks of a lease.
#[derive(Clone, Copy)]
struct Held {
    consumer_sequence: u64,
    deadline: Instant,
    epoch: u64,
    reseated: bool,
}

impl Held {
    fn of(lease: &Lease) -> Self {
        Self {
            consumer_sequence: lease.consumer_sequence,
            deadline: lease.deadline,
            epoch: lease.epoch,
            reseated: lease.reseated,
        }
    }
}

/// Marks a lease as being settled: from now on nothing else is done with it.
fn begin(queue: &Queue, sequence: u64) -> Begun {
    let mut state = queue.state.lock();
    let Some(lease) = state.leases.get_mut(sequence) else {
        return Begun::Unknown;
    };
    match &lease.phase {
        Phase::Settling => Begun::UnderWay,
        Phase::Lost(_) => Begun::Lost,
        Phase::Settled(how) => Begun::Settled(how.clone()),
        Phase::Held => {
            lease.phase = Phase::Settling;
            Begun::Held(Held::of(lease))
        }
    }
}

/// Whether one confirmed request is enough: a complete, well in time, of a job that a killed NATS would
/// not bring back, delivered over the connection that still stands.
fn quick(queue: &Queue, lease: Held, settlement: &Settlement) -> bool {
    let sure =
        queue.jobs.replicated() || (!lease.reseated && lease.epoch == queue.jobs.nats().epoch());
    *settlement == Settlement::Complete && sure && Instant::now() + IN_TIME < lease.deadline
}

/// Settles a lease that another server gave. That one knows whether it was lost, and goes on to extend
/// and settle it: so it is asked. Where it is gone, the token proves until when the lease was good.
fn at_its_server(
    engine: Engine,
    queue: Arc<Queue>,
    facts: LeaseFacts,
    token: Bytes,
    settlement: Settlement,
) -> BoxFuture<'static, SettleResult> {
    Box::pin(async move {
        if let Some(outcome) = peers::settle(&engine, facts.server, &token, &settlement).await {
            return SettleResult {
                token,
                outcome,
                refused: None,
            };
        }
        surely(engine, queue, facts, token, settlement).await
    })
}

fn surely(
    engine: Engine,
    queue: Arc<Queue>,
    facts: LeaseFacts,
    token: Bytes,
    settlement: Settlement,
) -> BoxFuture<'static, SettleResult> {
    Box::pin(async move {
        let sequence = facts.sequence;
        let (server, session) = (facts.server, facts.session);
        let good_until = queue.good_until(&facts);
        let settling = Settling {
            facts,
            settlement,
            good_until,
        };
        let outcome = settle::settle(&queue, &settling).await;
        queue.settled(&engine, sequence, outcome, settling.settlement);
        if server != engine.server() && outcome != Outcome::TryAgain {
            engine
                .tell_ended(server, &queue.name, sequence, session)
                .await;
        }
        SettleResult {
            token,
            outcome,
            refused: None,
        }
    })
}

fn open_and_settle(
    engine: Engine,
    facts: LeaseFacts,
    token: Bytes,
    settlement: Settlement,
) -> BoxFuture<'static, SettleResult> {
    Box::pin(async move {
        let outcome = match engine.open_leased(&facts).await {
            Ok(queue) if queue.jobs.incarnation() == facts.incarnation => {
                if facts.server != engine.server() {
                    return at_its_server(engine, queue, facts, token, settlement).await;
                }
                return surely(engine, queue, facts, token, settlement).await;
            }
            Ok(_) | Err(crate::OpenError::Unknown(_)) => Outcome::LeaseLost,
            Err(_) => Outcome::TryAgain,
        };
        SettleResult {
            token,
            outcome,
            refused: None,
        }
    })
}

impl Queue {
    /// The deadline of a lease, as far as this server knows it; of one that it does not know, by its token.
    fn good_until(&self, facts: &LeaseFacts) -> Instant {
        let known = self
            .state
            .lock()
            .leases
            .get(facts.sequence)
            .map(|l| l.deadline);
        known.unwrap_or_else(|| self.proven(facts.valid_until))
    }

    /// Takes in what the sure way found. How a lease ended whose job goes on is remembered until its
    /// deadline: the same settlement again is one that counted, and any other comes from a lost lease.
    fn settled(&self, engine: &Engine, sequence: u64, outcome: Outcome, how: Settlement) {
        match (outcome, how) {
            (Outcome::TryAgain, _) => {
                let mut state = self.state.lock();
                if let Some(lease) = state.leases.get_mut(sequence)
                    && lease.phase == Phase::Settling
                {
                    lease.phase = Phase::Held;
                }
            }
            (Outcome::Settled, how @ (Settlement::Retry { .. } | Settlement::Release)) => {
                let ended = self.state.lock().leases.settle(sequence, how);
                if let Some(session) = ended {
                    engine.give_back_place(self, session);
                }
            }
            (_, _) => self.end_leases(engine, &[sequence]),
        }
    }
}
