//! What the SDK's tests share: a gate for handlers, a place for what they saw, waits with a deadline.

use std::{future::Future, sync::Arc, time::Duration};

use keywork_sdk::{
    Client, Submit, Worker,
    testing::FakeServer,
    worker::{CancelReason, Event, WorkerBuilder, WorkerError},
};
use tokio::{sync::watch, task::JoinHandle, time::timeout};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of a test.
pub(crate) type Tested = Result<(), Box<dyn std::error::Error>>;

/// Waits, but not for ever.
pub(crate) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, wait).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

/// Something that grows, and can be waited for.
#[derive(Clone, Debug)]
pub(crate) struct Log<T>(Arc<watch::Sender<Vec<T>>>);

impl<T: Clone + Send + Sync + std::fmt::Debug> Log<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    pub(crate) fn add(&self, entry: T) {
        self.0.send_modify(|log| log.push(entry));
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.0.borrow().clone()
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&[T]) -> bool) -> Vec<T> {
        let mut log = self.0.subscribe();
        match timeout(PATIENCE, log.wait_for(|log| is_so(log))).await {
            Ok(Ok(log)) => log.clone(),
            _ => panic!("waited in vain: {what}; log: {:#?}", self.all()),
        }
    }
}

/// What a handler of [`Scene::worker`] went through.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Started(String),
    Cancelled(String, CancelReason),
    Ended(String),
}

/// A server, and a worker whose handlers wait at a gate until they are let through or cancelled.
pub(crate) struct Scene {
    pub(crate) server: FakeServer,
    pub(crate) client: Client,
    pub(crate) steps: Log<Step>,
    pub(crate) events: Log<Event>,
    gate: watch::Sender<bool>,
}

impl Scene {
    pub(crate) fn new(server: FakeServer) -> Self {
        let client = server.client().expect("the endpoint is a URI");
        Self {
            server,
            client,
            steps: Log::new(),
            events: Log::new(),
            gate: watch::Sender::new(false),
        }
    }

    /// A server whose leases last one second: the shortest that a busy machine keeps to.
    pub(crate) async fn with_short_leases() -> Self {
        let server = FakeServer::builder().lease_duration(Duration::from_millis(1_500));
        Self::new(server.start().await.expect("a port is free"))
    }

    pub(crate) async fn with_long_leases() -> Self {
        Self::new(FakeServer::start().await.expect("a port is free"))
    }

    pub(crate) async fn submit(&self, keys: &[&str]) {
        for key in keys {
            let outcome = self
                .client
                .submit(Submit::new("q", *key))
                .await
                .expect("a submit");
            assert!(outcome.is_accepted(), "{outcome:?}");
        }
    }

    pub(crate) fn builder(&self) -> WorkerBuilder {
        let events = self.events.clone();
        Worker::builder(self.client.clone(), ["q"])
            .concurrency(4)
            .on_event(move |event| events.add(event.clone()))
    }

    /// Starts a worker whose handlers wait at the gate.
    pub(crate) fn start(&self, builder: WorkerBuilder) -> Running {
        let (steps, gate) = (self.steps.clone(), self.gate.subscribe());
        let worker = builder.build_fn(move |context, job| {
            let (steps, mut gate) = (steps.clone(), gate.clone());
            async move {
                steps.add(Step::Started(job.key.clone()));
                tokio::select! {
                    _ = gate.wait_for(|open| *open) => {
                        steps.add(Step::Ended(job.key.clone()));
                        Ok(())
                    }
                    () = context.cancelled() => {
                        let reason = context.reason().expect("a cancelled context has a reason");
                        steps.add(Step::Cancelled(job.key.clone(), reason));
                        Err("stopped before the end".into())
                    }
                }
            }
        });
        Running::start(worker)
    }

    pub(crate) fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    pub(crate) async fn until_started(&self, count: usize) {
        self.steps
            .until("handlers to start", |steps| {
                steps
                    .iter()
                    .filter(|step| matches!(step, Step::Started(_)))
                    .count()
                    >= count
            })
            .await;
    }

    pub(crate) async fn until_cancelled(&self, key: &str, reason: CancelReason) {
        let step = Step::Cancelled(key.to_owned(), reason);
        self.steps
            .until(&format!("{step:?}"), |steps| steps.contains(&step))
            .await;
    }
}

/// A worker that runs.
pub(crate) struct Running {
    pub(crate) worker: Worker,
    run: JoinHandle<Result<(), WorkerError>>,
}

impl Running {
    #[expect(clippy::disallowed_methods, reason = "a test's own task")]
    pub(crate) fn start(worker: Worker) -> Self {
        let running = worker.clone();
        let run = tokio::spawn(async move { running.run_until(Default::default()).await });
        Self { worker, run }
    }

    /// Waits for the end that something else has caused.
    pub(crate) async fn end(self) -> Result<(), WorkerError> {
        within("the worker to end", self.run)
            .await
            .expect("run does not panic")
    }

    pub(crate) async fn drain(self) -> Result<(), WorkerError> {
        self.worker.drain();
        self.end().await
    }

    /// Drops the future of `run`.
    pub(crate) fn abort(&self) {
        self.run.abort();
    }
}
