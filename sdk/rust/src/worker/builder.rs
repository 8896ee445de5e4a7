//! A worker's options.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use super::{
    Context, Event, Interceptor, Shared, Worker, driver,
    event::{Counters, OnEvent},
    handler::{Chain, Handler, HandlerResult},
};
use crate::{Client, Error, Job, errors::FieldViolation, raw, wire};

/// The most handlers that run at once.
const MOST_HANDLERS: usize = 100_000;
/// The largest share of a queue.
const HEAVIEST: u32 = 100;

/// A queue that a worker serves, and its share of the worker against its other queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    queue: String,
    weight: u32,
}

impl Subscription {
    /// A queue with the weight 1.
    pub fn new(queue: impl Into<String>) -> Self {
        Self {
            queue: queue.into(),
            weight: 1,
        }
    }

    /// Its share: 1 to 100.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }
}

impl<S: Into<String>> From<S> for Subscription {
    fn from(queue: S) -> Self {
        Self::new(queue)
    }
}

/// The options of a [`Worker`].
pub struct WorkerBuilder {
    client: Client,
    queues: Vec<Subscription>,
    concurrency: usize,
    shutdown_grace: Duration,
    cancel_grace: Duration,
    worker_id: String,
    interceptors: Vec<Arc<dyn Interceptor>>,
    on_event: Option<OnEvent>,
}

impl WorkerBuilder {
    pub(crate) fn new(client: Client, queues: Vec<Subscription>) -> Self {
        Self {
            client,
            queues,
            concurrency: 16,
            shutdown_grace: Duration::from_secs(25),
            cancel_grace: Duration::from_secs(1),
            worker_id: worker_id(),
            interceptors: Vec::new(),
            on_event: None,
        }
    }

    /// How many handlers run at once, which is how many leases the worker holds: 1 to 100,000. Default: 16.
    #[must_use]
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.concurrency = handlers;
        self
    }

    /// How long running handlers may take to end after the worker was told to stop, before they are cancelled.
    /// Default: 25 s.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// How long a handler may take to end after it was cancelled because the worker stops, before it is dropped.
    /// Default: 1 s.
    #[must_use]
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = grace;
        self
    }

    /// Names this process at the servers. A newer worker of the same name takes over from an older one, so no
    /// two that run at once may share it. Default: a random one.
    #[must_use]
    pub fn worker_id(mut self, id: impl Into<String>) -> Self {
        self.worker_id = id.into();
        self
    }

    /// Told of everything that happens, one event after the other, on a thread of its own. Where it is 10,000 events
    /// late, the next ones are dropped, those of single jobs first, and the logs say how many.
    #[must_use]
    pub fn on_event(mut self, on_event: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Box::new(on_event));
        self
    }

    /// Wraps every handler call; the first one added is the outermost.
    #[must_use]
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Makes the worker from a closure: like [`WorkerBuilder::build`], and the closure's arguments need no types.
    pub fn build_fn<F, Fut>(self, handler: F) -> Worker
    where
        F: Fn(Context, Job) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + Send,
    {
        self.build(handler)
    }

    /// Makes the worker. Nothing is connected yet; an option that breaks its limit is what `run` returns.
    pub fn build(self, handler: impl Handler) -> Worker {
        let faults = self.faults();
        let queues = self.queues.into_iter();
        let queues =
            queues.map(|Subscription { queue, weight }| raw::QueueSubscription { queue, weight });
        Worker(Arc::new(Shared {
            fault: (!faults.is_empty()).then(|| Error::invalid(faults)),
            options: self.client.options().clone(),
            queues: queues.collect(),
            concurrency: self.concurrency,
            shutdown_grace: wire::countable(self.shutdown_grace),
            cancel_grace: wire::countable(self.cancel_grace),
            worker_id: self.worker_id,
            chain: Chain::new(self.interceptors, handler),
            on_event: self.on_event,
            orders: driver::orders(),
            healthy: AtomicBool::new(false),
            started: AtomicBool::new(false),
            counters: Counters::default(),
        }))
    }
}

impl WorkerBuilder {
    /// Every option that breaks its limit.
    fn faults(&self) -> Vec<FieldViolation> {
        let mut faults = Vec::new();
        if !(1..=MOST_HANDLERS).contains(&self.concurrency) {
            let given = self.concurrency;
            let text = format!("must be from 1 to 100,000, and is {given}");
            faults.push(FieldViolation::new("concurrency", text));
        }
        if self.queues.is_empty() {
            faults.push(FieldViolation::new(
                "queues",
                "must name at least one queue",
            ));
        }
        let mut seen = HashSet::new();
        for (number, Subscription { queue, weight }) in self.queues.iter().enumerate() {
            if !seen.insert(queue) {
                let text = format!("must name each queue once, and names {queue:?} again");
                faults.push(FieldViolation::new(format!("queues[{number}]"), text));
            }
            if !(1..=HEAVIEST).contains(weight) {
                let text = format!("must be from 1 to 100, and is {weight}");
                faults.push(FieldViolation::new(
                    format!("queues[{number}].weight"),
                    text,
                ));
            }
        }
        faults
    }
}

/// Host, process and chance: what helps those who look for the worker that holds a job.
fn worker_id() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok());
    let host = host.as_deref().map(str::trim).filter(|host| is_fit(host));
    let chance = rand::random::<u32>();
    format!(
        "{}-{}-{chance:08x}",
        host.unwrap_or("rust"),
        std::process::id()
    )
}

/// Servers take a name of at most 256 bytes, without control characters.
fn is_fit(host: &str) -> bool {
    (1..=200).contains(&host.len()) && !host.chars().any(char::is_control)
}

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("queues", &self.queues)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
