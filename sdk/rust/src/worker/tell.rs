//! What happens in a worker, told to its owner's `on_event` and to the logs.
//!
//! Both are code of somebody else's, which may block or panic. So they run on a thread of their own, and the thread
//! that keeps the leases alive only hands over what is to be told: where there is no room, it is told no more.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tracing::{
    Dispatch, Span, debug,
    dispatcher::{DefaultGuard, get_default, set_default, with_default},
    info,
    subscriber::NoSubscriber,
    warn,
};

use super::{Event, Shared};
use crate::{client::LostReason, outage::Outage, tasks};

/// What all log events of a worker are under.
const TARGET: &str = "keywork_sdk::worker";
/// How much is kept for an owner who is slow.
const KEPT: usize = 10_000;
/// Room that what happens with every job leaves to what happens seldom.
const SPARED: usize = 1_000;
/// How long the end of `run` waits for the last of it to be told.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// Something to tell.
enum News {
    Event(Event),
    /// A handler's ordinary error, or the end of its job: only the logs are told.
    HandlerFailed(Failure),
}

/// A handler that failed.
pub(crate) struct Failure {
    pub(crate) queue: String,
    pub(crate) key: String,
    pub(crate) attempt: u32,
    pub(crate) what: What,
    pub(crate) error: String,
}

/// What failed.
pub(crate) enum What {
    /// An attempt, and there is another.
    Attempt,
    /// The last attempt that the job has.
    LastAttempt,
    /// The job: the handler wants no other attempt.
    Fail,
}

/// Hands over what is to be told. Never waits.
pub(crate) struct Teller {
    to: mpsc::Sender<News>,
    /// What found no room.
    missed: Arc<AtomicU64>,
    /// Somebody listens to what happens with every job.
    often: bool,
}

/// The end of what there was to tell.
pub(crate) struct Told(oneshot::Receiver<()>);

impl Told {
    /// Waits for it, though not for an owner who blocks.
    pub(crate) async fn wait(self) {
        let _ = timeout(TOLD_WITHIN, self.0).await;
    }
}

impl Teller {
    /// Starts the thread, which ends when the teller is dropped. Log events go where the caller's would, in its span.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<(Self, Told)> {
        let (to, mut news) = mpsc::channel(KEPT);
        let (ended, told) = oneshot::channel();
        let missed = Arc::new(AtomicU64::new(0));
        let teller = Self {
            to,
            missed: missed.clone(),
            often: shared.on_event.is_some(),
        };
        let mut log = Log::new(shared);
        tasks::thread("keywork-events", move || {
            while let Some(one) = news.blocking_recv() {
                log.tell_missed(&missed);
                log.tell(&one);
            }
            log.tell_missed(&missed);
            // Nobody waits when the run was dropped.
            let _ = ended.send(());
        })?;
        Ok((teller, Told(told)))
    }

    pub(crate) fn tell(&self, event: Event) {
        self.hand_over(News::Event(event));
    }

    /// As `tell`, for what happens with every job: nothing is made where nobody listens.
    pub(crate) fn tell_often(&self, event: impl FnOnce() -> Event) {
        if !self.often {
            return;
        }
        if self.to.capacity() > SPARED {
            self.tell(event());
        } else {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn handler_failed(&self, failure: Failure) {
        self.hand_over(News::HandlerFailed(failure));
    }

    fn hand_over(&self, news: News) {
        if self.to.try_send(news).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Keeps what the libraries of the connection log off this thread: a subscriber that blocks would cost leases.
pub(crate) fn silence() -> DefaultGuard {
    set_default(&Dispatch::none())
}

/// The thread's part.
struct Log {
    shared: Arc<Shared>,
    /// The subscriber of whoever called `run`, where it is not the program's.
    dispatch: Option<Dispatch>,
    span: Span,
    outage: Outage,
}

impl Log {
    fn new(shared: Arc<Shared>) -> Self {
        let dispatch = get_default(Dispatch::clone);
        Self {
            shared,
            // The program's may be set later.
            dispatch: (!dispatch.is::<NoSubscriber>()).then_some(dispatch),
            span: Span::current(),
            outage: Outage::default(),
        }
    }

    fn tell(&mut self, news: &News) {
        self.where_the_caller_logs(|log| match news {
            News::Event(event) => log.log(event),
            News::HandlerFailed(failure) => log_failure(failure),
        });
        if let (Some(on_event), News::Event(event)) = (&self.shared.on_event, news) {
            let _ = catch_unwind(AssertUnwindSafe(|| on_event(event)));
        }
    }

    fn tell_missed(&mut self, missed: &AtomicU64) {
        let missed = missed.swap(0, Ordering::Relaxed);
        if missed > 0 {
            self.where_the_caller_logs(|_| {
                warn!(target: TARGET, missed, "on_event, or what takes the logs, is too slow: not all was told");
            });
        }
    }

    /// What the owner or the subscriber does wrong is no reason to stop telling.
    fn where_the_caller_logs(&mut self, log: impl FnOnce(&mut Self)) {
        let (dispatch, span) = (self.dispatch.clone(), self.span.clone());
        let log = || span.in_scope(|| log(self));
        let _ = catch_unwind(AssertUnwindSafe(|| match &dispatch {
            Some(dispatch) => with_default(dispatch, log),
            None => log(),
        }));
    }

    fn log(&mut self, event: &Event) {
        match event {
            Event::Connecting { endpoint } => debug!(target: TARGET, %endpoint, "connecting"),
            Event::Ready => self.log_ready(),
            Event::Degraded { endpoint, error } => self.log_degraded(endpoint, error),
            Event::Draining => info!(target: TARGET, "draining"),
            Event::Stopped {
                abandoned,
                unconfirmed,
            } => log_stopped(*abandoned, *unconfirmed),
            Event::LeaseLost { queue, key, reason } => {
                let reason = why_lost(*reason);
                warn!(target: TARGET, %queue, %key, %reason, "lease lost");
            }
            Event::HandlerIgnoresCancellation {
                queue,
                key,
                cancelled_for,
            } => {
                warn!(target: TARGET, %queue, %key, ?cancelled_for, "the handler ignores its cancellation");
            }
            Event::SettlementRejected { queue, key, error } => {
                warn!(target: TARGET, %queue, %key, %error, "settlement rejected");
            }
            // The first is a job's daily life; the second is what `run` returns.
            Event::Settled { .. } | Event::Failed { .. } => {}
        }
    }

    fn log_ready(&mut self) {
        self.outage.is_over();
        let queues: Vec<&str> = self.shared.queues.iter().map(|q| &*q.queue).collect();
        info!(target: TARGET, ?queues, worker_id = %self.shared.worker_id, "ready");
    }

    fn log_degraded(&mut self, endpoint: &str, error: &str) {
        let error = error.strip_prefix(endpoint).map_or(error, str::trim_start);
        if self.outage.is_to_be_warned_of(Instant::now()) {
            warn!(target: TARGET, %endpoint, %error, "no session with a server: trying again");
        } else {
            debug!(target: TARGET, %endpoint, %error, "still no session with a server");
        }
    }
}

fn log_stopped(handlers: usize, unconfirmed: usize) {
    match (handlers, unconfirmed) {
        (0, 0) => info!(target: TARGET, "stopped"),
        (_, 0) => warn!(target: TARGET, handlers, "stopped, and left handlers behind"),
        (0, _) => {
            warn!(target: TARGET, unconfirmed, "stopped with unconfirmed results: their jobs run again when their leases are over");
        }
        (_, _) => {
            warn!(target: TARGET, handlers, unconfirmed, "stopped with unconfirmed results, and left handlers behind: their jobs run again when their leases are over");
        }
    }
}

fn log_failure(failure: &Failure) {
    let Failure {
        queue,
        key,
        attempt,
        what,
        error,
    } = failure;
    match what {
        What::Attempt => {
            warn!(target: TARGET, %queue, %key, attempt, %error, "the handler failed: the job is tried again");
        }
        What::LastAttempt => {
            warn!(target: TARGET, %queue, %key, attempt, %error, "the handler failed in the job's last attempt: it is a dead letter");
        }
        What::Fail => {
            warn!(target: TARGET, %queue, %key, attempt, %error, "the handler failed the job for good: it is a dead letter");
        }
    }
}

fn why_lost(reason: Option<LostReason>) -> &'static str {
    match reason {
        Some(LostReason::Expired) => "its deadline passed, or the job ended",
        Some(LostReason::Cancelled) => "the job was cancelled, or its queue purged or deleted",
        Some(LostReason::Superseded) => "a newer session did not go on with it",
        Some(LostReason::Invalid) => "its token is invalid",
        Some(LostReason::Unknown) => "the server gave an unknown reason",
        None => "it could not be extended in time",
    }
}
