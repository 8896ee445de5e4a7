//! Running jobs: one session with a server, a handler for each job, and the fences around them.
//!
//! A [`Worker`] keeps its leases alive from a thread of its own, cancels a handler before its lease can have been
//! given to somebody else, reconnects by itself, and stops without losing an attempt. It never settles what a
//! handler returned after its lease was lost.

mod beats;
mod builder;
mod context;
mod driver;
mod event;
mod handler;
mod leases;
mod link;
mod outbox;
mod run_one;
mod sending;
mod session;
mod stop;
mod tell;

pub use builder::{Subscription, WorkerBuilder};
pub use context::{CancelReason, Context};
pub use event::{Counts, Event, SettledOutcome};
pub use handler::{
    BoxFuture, Fail, Handler, HandlerError, HandlerResult, Interceptor, Next, Outcome, Release,
    Rerun, Retry,
};

pub(crate) use handler::Chain;
#[cfg(feature = "otel")]
pub(crate) use handler::panicked;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
};
use tokio_util::sync::CancellationToken;

use crate::{Client, Error, client::Options, raw, tasks};
use driver::Driver;
use event::{Counters, OnEvent};
use stop::{Order, Stopper};
use tell::Teller;

/// Runs the jobs of one or more queues. Clones are handles to the same worker.
#[derive(Clone)]
pub struct Worker(Arc<Shared>);

/// What the worker's owner, its loop and its handlers share.
pub(crate) struct Shared {
    /// An option that breaks its limit.
    fault: Option<Error>,
    options: Options,
    queues: Vec<raw::QueueSubscription>,
    concurrency: usize,
    shutdown_grace: Duration,
    cancel_grace: Duration,
    worker_id: String,
    chain: Chain,
    on_event: Option<OnEvent>,
    orders: watch::Sender<Order>,
    healthy: AtomicBool,
    started: AtomicBool,
    counters: Counters,
}

/// Why a worker stopped, other than because it was asked to.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// An option breaks its limit; nothing was started.
    #[error("failed to start: {0}")]
    Options(Error),
    /// The server refuses what the worker asks for, and would again.
    #[error("failed to open the session: {0}")]
    Refused(Error),
    /// A newer session has the same worker id; going on would only take turns with it.
    #[error("failed to go on: a newer worker has the same worker id")]
    Superseded,
    /// It was told to stop at once: handlers were dropped and their jobs released.
    #[error("failed to finish the running jobs: stopped at once")]
    Forced,
    /// It runs already, or has run: make another.
    #[error("failed to start: this worker has been started before")]
    StartedBefore,
    /// The operating system refused a thread or a signal handler.
    #[error("failed to start: {0}")]
    System(Arc<io::Error>),
    /// The worker's loop ended unexpectedly; handlers were cancelled.
    #[error("failed to go on: the worker's loop ended unexpectedly")]
    Broken,
}

impl Worker {
    /// A worker of these queues, at the servers that the client knows.
    pub fn builder<Q>(client: Client, queues: impl IntoIterator<Item = Q>) -> WorkerBuilder
    where
        Q: Into<Subscription>,
    {
        WorkerBuilder::new(client, queues.into_iter().map(Into::into).collect())
    }

    /// Works until SIGTERM or SIGINT, then drains. A second signal releases everything and makes this an error.
    ///
    /// Dropping the future drops the handlers and releases their jobs.
    ///
    /// # Errors
    /// See [`WorkerError`]. A lost connection is not an error: the worker reconnects.
    pub async fn run(&self) -> Result<(), WorkerError> {
        self.run_with(Stopper::signals).await
    }

    /// Works until the token is cancelled, then drains. Signals are the caller's.
    ///
    /// # Errors
    /// See [`WorkerError`].
    pub async fn run_until(&self, stop: CancellationToken) -> Result<(), WorkerError> {
        self.run_with(move || Ok(Stopper::Token(stop))).await
    }

    /// Takes no more jobs, finishes what runs within the shutdown grace, and ends `run`.
    pub fn drain(&self) {
        self.0.order(Order::Drain);
    }

    /// Drops every handler, releases its job, and ends `run` with [`WorkerError::Forced`]: what a second signal does.
    pub fn release_all(&self) {
        self.0.order(Order::ReleaseAll);
    }

    /// True while the session with a server is live.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.0.healthy.load(Ordering::Acquire)
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.counters.read()
    }

    /// Its name, as servers know it.
    #[must_use]
    pub fn worker_id(&self) -> &str {
        &self.0.worker_id
    }

    async fn run_with(
        &self,
        stopper: impl FnOnce() -> io::Result<Stopper> + Send + 'static,
    ) -> Result<(), WorkerError> {
        if let Some(fault) = &self.0.fault {
            return Err(WorkerError::Options(fault.clone()));
        }
        if self.0.started.swap(true, Ordering::AcqRel) {
            return Err(WorkerError::StartedBefore);
        }
        let (sender, receiver) = oneshot::channel();
        let (shared, handlers) = (self.0.clone(), Handle::current());
        let (teller, told) = Teller::start(shared.clone()).map_err(system)?;
        let guard = self.release_on_drop();
        tasks::own_thread("keywork-worker", move || async move {
            let _silent = tell::silence();
            let driver = Driver::new(shared, handlers, teller);
            let result = drive(driver, stopper).await;
            told.wait().await;
            // Nobody listens any more when the run was dropped.
            let _ = sender.send(result);
        })
        .map_err(system)?;
        let result = receiver.await.unwrap_or(Err(WorkerError::Broken));
        // Also where the loop broke.
        self.0.healthy.store(false, Ordering::Release);
        guard.disarm();
        result
    }

    /// Releases everything when the future of `run` is dropped.
    fn release_on_drop(&self) -> ReleaseOnDrop {
        ReleaseOnDrop(Some(self.clone()))
    }
}

struct ReleaseOnDrop(Option<Worker>);

impl ReleaseOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        if let Some(worker) = &self.0 {
            worker.release_all();
        }
    }
}

async fn drive(
    driver: Driver,
    stopper: impl FnOnce() -> io::Result<Stopper>,
) -> Result<(), WorkerError> {
    driver.run(stopper().map_err(system)?).await
}

fn system(error: io::Error) -> WorkerError {
    WorkerError::System(Arc::new(error))
}

impl Shared {
    fn order(&self, order: Order) {
        stop::give(&self.orders, order);
    }

    fn queue_name(&self, number: usize) -> String {
        self.queues
            .get(number)
            .map(|queue| queue.queue.clone())
            .unwrap_or_default()
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("worker_id", &self.0.worker_id)
            .field("healthy", &self.healthy())
            .finish_non_exhaustive()
    }
}
