//! What is done for a queue again and again: deadlines are watched, the configuration is read, what a
//! crash left behind is mended.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use keywork_jetstream::{
    ApiError,
    queues::{QueueError, QueueInfo},
    tasks::Fate,
};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{
    engine::{Engine, send_away},
    lease::{Lease, LostReason},
    peers,
    queue::Queue,
    session::GoAwayReason,
};

/// How often deadlines are looked at.
const WATCH_EVERY: Duration = Duration::from_millis(100);
/// How often the queue is read.
const READ_EVERY: Duration = Duration::from_secs(3);
/// How long sessions of the old terms have to go.
const TERMS_GRACE: Duration = Duration::from_secs(5);
/// Added to the old wait before JetStream's wait is shortened: until then every server has read the new
/// configuration, and every session of the old terms has gone.
const SHORTEN_AFTER: Duration = Duration::from_secs(10);
/// How often sessions that are closed and hold nothing are forgotten, and the servers' settings looked for.
const KEEP_EVERY: Duration = Duration::from_secs(5);

/// Runs until the queue is closed.
pub(crate) async fn run(engine: Engine, queue: Arc<Queue>) {
    let stop = queue.stop.clone();
    let mut watch = interval(WATCH_EVERY);
    watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut read = interval(READ_EVERY);
    read.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut changes = queue.jobs.nats().queue_changes(&queue.name).await;
    let mut shorten_at = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = watch.tick() => {
                watch_deadlines(&engine, &queue);
                continue;
            }
            _ = read.tick() => {}
            () = changes.next() => {}
        }
        let Some(info) = look(&engine, &queue).await else {
            continue;
        };
        if let Err(error) = mend(&engine, &queue, &info, &mut shorten_at).await {
            tracing::debug!(queue = %queue.name, %error, "failed to mend");
        }
    }
}

fn watch_deadlines(engine: &Engine, queue: &Arc<Queue>) {
    let due = queue.state.lock().leases.take_due(Instant::now());
    let open = |lease: &Lease| {
        let session = engine.session(lease.session);
        session.is_some_and(|session| !session.is_closed())
    };
    let (told, over): (Vec<_>, Vec<_>) = due.expired.into_iter().partition(|(_, l)| open(l));
    queue.tell_lost(engine, &over, LostReason::Expired);
    if !told.is_empty() {
        let telling = tell_expired(engine.clone(), Arc::clone(queue), told);
        engine
            .tasks()
            .start("tell-expired", Fate::OneCaller, telling);
    }
    engine.give_up(queue, due.given_up);
}

/// Tells sessions what they lost, but for what another server extended meanwhile: that goes on.
async fn tell_expired(engine: Engine, queue: Arc<Queue>, mut expired: Vec<(u64, Lease)>) {
    let sequences = expired.iter().map(|(n, _)| *n).collect();
    let held = peers::holders(&engine, &queue.name, sequences).await;
    expired.retain(|(sequence, lease)| {
        let Some(holder) = held.get(sequence) else {
            return true;
        };
        let lease = Lease {
            deadline: queue.proven(holder.deadline),
            ..lease.clone()
        };
        let session = lease.session;
        let goes_on = queue.state.lock().leases.insert_new(*sequence, lease);
        if !goes_on {
            engine.give_back_place(&queue, session);
        }
        false
    });
    queue.tell_lost(&engine, &expired, LostReason::Expired);
}

/// Reads the queue again, as when a peer says that it changed.
pub(crate) async fn refresh(engine: Engine, queue: Arc<Queue>) {
    look(&engine, &queue).await;
}

/// Reads the queue. One that is gone, or was made anew, is closed: whoever names it opens it again.
async fn look(engine: &Engine, queue: &Arc<Queue>) -> Option<QueueInfo> {
    let before = queue.before_read();
    match queue.jobs.info().await {
        Ok(info) if info.incarnation == queue.jobs.incarnation() => {
            queue.guard.lock().saw_keeper(&info.keeper);
            if queue.learn(&info, before) {
                for session in queue.state.lock().roster.sessions() {
                    send_away(&session, GoAwayReason::TermsChanged, TERMS_GRACE);
                }
            }
            Some(info)
        }
        Ok(_) | Err(QueueError::Unknown(_)) => {
            engine.close_queue(queue);
            None
        }
        Err(error) => {
            tracing::debug!(queue = %queue.name, %error, "failed to read a queue");
            None
        }
    }
}

async fn mend(
    engine: &Engine,
    queue: &Arc<Queue>,
    info: &QueueInfo,
    shorten_at: &mut Option<Instant>,
) -> Result<(), QueueError> {
    if info.drift.is_some() {
        // What is in the stream may not be what Keywork takes it for.
        return Ok(());
    }
    if info.to_repair {
        queue.jobs.nats().repair_queue(&queue.name).await?;
    }
    queue.close_wait(engine).await?;
    adjust_wait(queue, info, shorten_at).await?;
    chase(queue, info);
    queue.jobs.nats().ensure_front(&queue.name).await?;
    queue.rescue_stranded(engine).await
}

/// Without a session nothing would be drawn, and a lease that ran out would not be dealt with: a job
/// that used up its attempts would hold its key until a worker comes.
fn chase(queue: &Queue, info: &QueueInfo) {
    let (sessions, live) = {
        let state = queue.state.lock();
        (state.roster.len(), state.leases.live())
    };
    let ours = u64::try_from(live).unwrap_or(u64::MAX);
    if sessions == 0 && info.in_flight > ours && !info.paused {
        queue.chase.store(true, Ordering::Relaxed);
        queue.wake.notify_one();
    }
}

/// Brings JetStream's wait in line with the lease duration: a longer one at once, a shorter one when no
/// lease of the old one can be out.
async fn adjust_wait(
    queue: &Queue,
    info: &QueueInfo,
    shorten_at: &mut Option<Instant>,
) -> Result<(), QueueError> {
    let wanted = info.config.ack_wait();
    if info.ack_wait < wanted {
        queue.jobs.nats().set_ack_wait(&queue.name, wanted).await?;
    }
    if info.ack_wait <= wanted {
        *shorten_at = None;
        return Ok(());
    }
    let at = *shorten_at.get_or_insert_with(|| Instant::now() + info.ack_wait + SHORTEN_AFTER);
    if Instant::now() >= at {
        queue.jobs.nats().set_ack_wait(&queue.name, wanted).await?;
        *shorten_at = None;
    }
    Ok(())
}

/// Forgets sessions that are closed and hold nothing, and keeps the servers' settings.
pub(crate) async fn keep(engine: Engine) {
    let stop = engine.tasks().stopping().clone();
    let mut ticks = interval(KEEP_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        engine.forget_closed();
        let keeping = tokio::select! {
            () = stop.cancelled() => return,
            keeping = engine.keep_settings() => keeping,
        };
        if let Err(error) = keeping {
            tracing::debug!(%error, "failed to look for the servers' settings");
        }
    }
}

/// What cannot be told from "not there" by one error.
impl From<ApiError> for crate::look::LookError {
    fn from(error: ApiError) -> Self {
        Self::Nats(error)
    }
}
