//! For tests of programs that use Keywork: a server in this process, and a way to run a handler without one.
//!
//! [`FakeServer`] speaks the real contract over a real socket and keeps everything in memory: keys are unique, leases
//! have deadlines, dead letters are kept. It does what it is told wrong on purpose, by its [`Script`]. It stores
//! nothing and promises nothing about speed.

mod admin;
mod answers;
mod script;
mod sessions;
mod settlements;
mod state;
mod submits;
mod work_queue;

pub use script::{Script, Seen, SeenSettlement, SubmitFault};

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::watch, time::interval};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Status, transport::Server, transport::server::TcpIncoming};

use crate::{
    Client, Context, Error, Handler, Job,
    job::DeadJob,
    raw::{self, queue_admin_server::QueueAdminServer, work_queue_server::WorkQueueServer},
    tasks,
    worker::{CancelReason, Chain, Outcome},
};
use state::State;

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(5);
/// How long [`FakeServer::until`] waits.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a handler on one job, with a lease that lasts, and tells how it ended. No server is needed. With a [`Lease`]
/// the test can stop the handler.
pub async fn run_once(handler: impl Handler, job: Job) -> Outcome {
    Chain::new(Vec::new(), handler)
        .run(lasting_context(), job)
        .await
}

/// The lease of one job that is run without a server: a test cancels it when it likes. Clones are the same lease.
///
/// ```
/// use keywork_sdk::{testing::{Lease, job}, worker::{CancelReason, Outcome}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let handler = |context: keywork_sdk::Context, _job| async move {
///     context.cancelled().await;
///     Err("stopped".into())
/// };
/// let lease = Lease::new();
/// let run = lease.run_once(handler, job("mail", "user-7"));
/// let stop = async { lease.cancel(CancelReason::WorkerShutdown) };
/// let (outcome, ()) = tokio::join!(run, stop);
/// assert_eq!(outcome, Some(Outcome::Release));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lease(Context);

impl Lease {
    /// A lease that lasts.
    #[must_use]
    pub fn new() -> Self {
        Self(lasting_context())
    }

    /// Runs a handler on one job, and tells what a worker would settle. None: nothing, since what a handler returns is
    /// dropped when its lease was lost or its job cancelled.
    pub async fn run_once(&self, handler: impl Handler, job: Job) -> Option<Outcome> {
        let chain = Chain::new(Vec::new(), handler);
        let outcome = chain.run(self.0.clone(), job).await;
        outcome.after(self.0.reason())
    }

    /// Tells the handler to stop: before it starts, while it runs, from within it. The first reason stays.
    pub fn cancel(&self, reason: CancelReason) {
        self.0.cancel(reason);
    }
}

impl Default for Lease {
    fn default() -> Self {
        Self::new()
    }
}

fn lasting_context() -> Context {
    Context::new(Instant::now() + Duration::from_secs(3_600))
}

/// A job to run: its first attempt, without a payload. Its fields can be set.
#[must_use]
pub fn job(queue: impl Into<String>, key: impl Into<String>) -> Job {
    Job {
        id: uuid::Uuid::new_v4().to_string(),
        queue: queue.into(),
        key: key.into(),
        state: crate::job::JobState::Leased,
        attempt: 1,
        max_attempts: 10,
        fencing_number: 1,
        ..Job::default()
    }
}

/// A server for tests. It stops when it is dropped.
#[derive(Debug)]
pub struct FakeServer {
    endpoint: String,
    shared: Fake,
    _stop: DropGuard,
}

/// How a [`FakeServer`] treats leases.
#[derive(Clone, Copy, Debug)]
pub struct FakeServerBuilder {
    lease_duration: Duration,
    disconnect_grace: Option<Duration>,
    retry_delay: Duration,
}

impl FakeServerBuilder {
    /// How long a lease lasts from its last extension. Default: 15 s; here it may be shorter than servers allow.
    #[must_use]
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.lease_duration = duration;
        self
    }

    /// After a stream broke, its leases go to others after this long. Default: at their deadline.
    #[must_use]
    pub fn disconnect_grace(mut self, grace: Duration) -> Self {
        self.disconnect_grace = Some(grace);
        self
    }

    /// The wait before another attempt, where the handler chose none. Default: 10 ms.
    #[must_use]
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.retry_delay = delay;
        self
    }

    /// Starts it on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn start(self) -> io::Result<FakeServer> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let shared = Fake(Arc::new(Inner {
            state: Mutex::new(State::new(self)),
            changed: watch::Sender::new(0),
        }));
        let stop = CancellationToken::new();
        // Their fate: both end with the server that is dropped.
        drop(tasks::start(serve(shared.clone(), listener, stop.clone())));
        drop(tasks::start(keep_time(shared.clone(), stop.clone())));
        Ok(FakeServer {
            endpoint,
            shared,
            _stop: stop.drop_guard(),
        })
    }
}

impl FakeServer {
    /// A server with the defaults.
    ///
    /// # Errors
    /// No port could be bound.
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// A server with options.
    #[must_use]
    pub fn builder() -> FakeServerBuilder {
        FakeServerBuilder {
            lease_duration: Duration::from_secs(15),
            disconnect_grace: None,
            retry_delay: Duration::from_millis(10),
        }
    }

    /// Where it listens, as a URI.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A client of it.
    ///
    /// # Errors
    /// None that a test can cause: the endpoint is a URI.
    pub fn client(&self) -> Result<Client, Error> {
        Client::new(&self.endpoint)
    }

    /// Changes what it does wrong from now on.
    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        self.shared.change(|state| change(&mut state.script));
    }

    /// What it has seen so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.shared.0.state.lock().seen.clone()
    }

    /// The outstanding job of a key, or none.
    #[must_use]
    pub fn outstanding(&self, queue: &str, key: &str) -> Option<Job> {
        self.shared
            .0
            .state
            .lock()
            .outstanding(queue, key)
            .map(Job::from)
    }

    /// The dead letters of a queue.
    #[must_use]
    pub fn dead(&self, queue: &str) -> Vec<DeadJob> {
        self.shared
            .0
            .state
            .lock()
            .dead(queue)
            .into_iter()
            .map(DeadJob::from)
            .collect()
    }

    /// Waits until what it has seen fulfils `is_so`, and gives that.
    ///
    /// # Panics
    /// It is not so after 20 s; the message is `what`.
    pub async fn until(&self, what: &str, is_so: impl Fn(&Seen) -> bool) -> Seen {
        let mut changes = self.shared.0.changed.subscribe();
        let wait = async {
            loop {
                changes.mark_unchanged();
                let seen = self.seen();
                if is_so(&seen) || changes.changed().await.is_err() {
                    return seen;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(seen) => seen,
            Err(_) => panic!("waited in vain: {what}; seen: {:#?}", self.seen()),
        }
    }

    /// Ends every session: with this status, or with OK. Its leases live on until their deadline.
    pub fn end_sessions(&self, status: Option<Status>) {
        self.shared
            .change(|state| state.end_sessions(status.as_ref()));
    }

    /// Takes the lease of a key away. Its session is told when `tell` is set.
    pub fn lose_lease(&self, queue: &str, key: &str, reason: raw::LostReason, tell: bool) {
        self.shared
            .change(|state| state.lose_lease(queue, key, reason, tell));
    }

    /// Says GoAway to every session. It does not end them.
    pub fn go_away(&self, reason: raw::GoAwayReason, reconnect_delay: Duration) {
        self.shared
            .change(|state| state.go_away(reason, reconnect_delay));
    }
}

/// The state, and a bell that rings at every change of it.
#[derive(Clone, Debug)]
struct Fake(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

impl Fake {
    /// Changes the state and hands out what became ready by it.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = {
            let mut state = self.0.state.lock();
            let result = change(&mut state);
            state.dispatch();
            result
        };
        self.0.changed.send_modify(|version| *version += 1);
        result
    }
}

async fn serve(fake: Fake, listener: TcpListener, stop: CancellationToken) {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let served = Server::builder()
        .add_service(WorkQueueServer::new(fake.clone()).max_decoding_message_size(64 << 20))
        .add_service(QueueAdminServer::new(fake))
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned());
    // A server that could not go on is seen by the test that talks to it.
    let _ = served.await;
}

async fn keep_time(fake: Fake, stop: CancellationToken) {
    let mut ticks = interval(TICK);
    while !stop.is_cancelled() {
        ticks.tick().await;
        let due = fake.0.state.lock().is_due(Instant::now());
        if due {
            fake.change(|state| state.on_time(Instant::now()));
        }
    }
}
