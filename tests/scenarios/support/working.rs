//! Workers of the Rust SDK, and what they ran.

use super::*;

/// A client of the SDK that knows these servers.
pub(crate) fn sdk<'a>(endpoints: impl IntoIterator<Item = &'a str>) -> keywork_sdk::Client {
    let builder = keywork_sdk::Client::builder();
    let builder = endpoints
        .into_iter()
        .fold(builder, |builder, endpoint| builder.endpoint(endpoint));
    builder.build().expect("a client of the SDK")
}

/// One run of a handler.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) worker: String,
    pub(crate) key: String,
    pub(crate) attempt: u32,
    pub(crate) began: Instant,
    pub(crate) ended: Option<Instant>,
    pub(crate) stopped: Option<CancelReason>,
}

/// What ran, in the order in which it began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<Mutex<Vec<Run>>>);

impl Runs {
    /// A handler's run: takes `time`, unless it is told to stop.
    pub(crate) async fn run(
        &self,
        worker: &str,
        context: Context,
        job: Job,
        time: Duration,
    ) -> HandlerResult {
        let run = Run {
            worker: worker.into(),
            key: job.key,
            attempt: job.attempt,
            began: Instant::now(),
            ended: None,
            stopped: None,
        };
        let at = {
            let mut runs = self.lock();
            runs.push(run);
            runs.len() - 1
        };
        let stopped = tokio::select! {
            () = sleep(time) => None,
            () = context.cancelled() => context.reason(),
        };
        let mut runs = self.lock();
        runs[at].ended = Some(Instant::now());
        runs[at].stopped = stopped;
        match stopped {
            None => Ok(()),
            Some(_) => Err("told to stop".into()),
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Run> {
        self.lock().clone()
    }

    /// How many began.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Those of one key.
    pub(crate) fn of(&self, key: &str) -> Vec<Run> {
        let runs = self.lock();
        runs.iter().filter(|run| run.key == key).cloned().collect()
    }

    /// Panics when a key ran other than once, to its end, as its first attempt.
    pub(crate) fn assert_each_ran_once(&self, keys: impl IntoIterator<Item = String>) {
        let mut by_key: HashMap<String, Vec<Run>> = HashMap::new();
        for run in self.all() {
            by_key.entry(run.key.clone()).or_default().push(run);
        }
        for key in keys {
            let runs = by_key.remove(&key).unwrap_or_default();
            let once = runs.len() == 1 && runs[0].attempt == 1 && runs[0].stopped.is_none();
            assert!(once, "{key} did not run once, as it should: {runs:?}");
        }
        assert!(by_key.is_empty(), "keys that nobody submitted: {by_key:?}");
    }

    /// Panics when two runs of one key overlapped.
    pub(crate) fn assert_no_overlap(&self) {
        let mut last: HashMap<String, Run> = HashMap::new();
        for run in self.all() {
            if let Some(before) = last.insert(run.key.clone(), run.clone()) {
                let apart = before.ended.is_some_and(|ended| ended <= run.began);
                assert!(apart, "two runs overlapped: {before:?} and {run:?}");
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Run>> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A worker of the SDK that runs beside the test. Dropping it drops its handlers and gives their jobs back.
#[derive(Debug)]
pub(crate) struct Working {
    pub(crate) worker: Worker,
    events: Arc<Mutex<Vec<Event>>>,
    task: JoinSet<Result<(), WorkerError>>,
}

impl Working {
    /// Starts one whose every job takes `time`.
    pub(crate) fn start(
        client: keywork_sdk::Client,
        queue: &str,
        name: &str,
        concurrency: usize,
        runs: &Runs,
        time: Duration,
    ) -> Self {
        let (runs, named) = (runs.clone(), name.to_owned());
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let told = Arc::clone(&events);
        let worker = Worker::builder(client, [queue])
            .worker_id(name)
            .concurrency(concurrency)
            .on_event(move |event| {
                let mut told = told
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                told.push(event.clone());
            })
            .build_fn(move |context, job| {
                let (runs, named) = (runs.clone(), named.clone());
                async move { runs.run(&named, context, job, time).await }
            });
        let mut task = JoinSet::new();
        let running = worker.clone();
        task.spawn(async move { running.run_until(CancellationToken::new()).await });
        Self {
            worker,
            events,
            task,
        }
    }

    /// What it has said of itself.
    pub(crate) fn events(&self) -> Vec<Event> {
        let events = self.events.lock();
        events
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// The server that it connected to last.
    pub(crate) fn endpoint(&self) -> String {
        let events = self.events().into_iter().rev();
        let mut endpoints = events.filter_map(|event| match event {
            Event::Connecting { endpoint } => Some(endpoint),
            _ => None,
        });
        endpoints.next().unwrap_or_default()
    }

    /// Waits until its session is open.
    pub(crate) async fn ready(&self) {
        eventually(SOON, "a worker's session is open", async || {
            self.worker.healthy()
        })
        .await;
    }

    /// Waits until it has opened as many sessions.
    pub(crate) async fn sessions(&self, count: u64) {
        eventually(SOON, "a worker opens another session", async || {
            self.worker.counts().sessions >= count && self.worker.healthy()
        })
        .await;
    }

    /// How it ended.
    pub(crate) async fn ended(&mut self) -> Result<(), WorkerError> {
        let ended = timeout(SOON * 2, self.task.join_next()).await;
        let ended = ended.expect("a worker that ends").expect("one that ran");
        ended.expect("a worker that does not panic")
    }

    /// Drains it and waits for its end.
    pub(crate) async fn drain(&mut self) -> Result<(), WorkerError> {
        self.worker.drain();
        self.ended().await
    }
}
