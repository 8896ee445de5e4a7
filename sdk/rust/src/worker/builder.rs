//! A worker's options.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use uuid::Uuid;

use super::{
    Context, Event, Interceptor, Shared, Worker, driver,
    event::{Counters, OnEvent},
    handler::{Chain, Handler, HandlerResult},
};
use crate::{Client, Job, raw};

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
            worker_id: format!("rust-{}", Uuid::new_v4()),
            interceptors: Vec::new(),
            on_event: None,
        }
    }

    /// How many handlers run at once, which is how many leases the worker holds: 1 to 100,000. Default: 16.
    #[must_use]
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.concurrency = handlers.clamp(1, 100_000);
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

    /// Told of everything that happens. Called on the thread that keeps the leases alive: it must not block.
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

    /// Makes the worker. Nothing is connected yet.
    pub fn build(self, handler: impl Handler) -> Worker {
        let queues = self.queues.into_iter();
        let queues =
            queues.map(|Subscription { queue, weight }| raw::QueueSubscription { queue, weight });
        Worker(Arc::new(Shared {
            options: self.client.options().clone(),
            queues: queues.collect(),
            concurrency: self.concurrency,
            shutdown_grace: self.shutdown_grace,
            cancel_grace: self.cancel_grace,
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

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("queues", &self.queues)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
