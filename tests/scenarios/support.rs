//! What the scenarios are written with: servers, clients, and a worker that does only what it is told.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use keywork::proto::{
    self, Delivery, LostLease, SettlementOutcome, SubmitOutcome, lease_request::Message as Up,
    lease_response::Message as Down, queue_admin_client::QueueAdminClient, settlement::Outcome,
    work_queue_client::WorkQueueClient,
};
use keywork_sdk::{
    Context, Job, Worker,
    worker::{CancelReason, Event, HandlerResult, WorkerError},
};
use keywork_testkit::{KeyworkServer, NatsCluster, NatsServer, eventually, eventually_some};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming, transport::Channel};
use tonic_types::StatusExt;

pub(crate) type Client = WorkQueueClient<Channel>;
pub(crate) type Admin = QueueAdminClient<Channel>;

/// How long anything that should come is waited for.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// The shortest lease that a queue may have.
pub(crate) const SHORT_LEASE: Duration = Duration::from_secs(2);

/// Most items of one request.
const MOST_AT_ONCE: usize = 1_000;

/// The binary under test.
pub(crate) const KEYWORK: &str = env!("CARGO_BIN_EXE_keywork");

/// One NATS and one server on it.
pub(crate) async fn one_server() -> (NatsServer, KeyworkServer) {
    let nats = NatsServer::start().await;
    let server = server_on(&nats.url()).await;
    (nats, server)
}

/// One more server on a NATS.
pub(crate) async fn server_on(url: &str) -> KeyworkServer {
    KeyworkServer::at(KEYWORK).nats(url).start().await
}

/// Three NATS nodes and two servers whose queues have three replicas.
pub(crate) async fn cluster_with_two_servers() -> (NatsCluster, KeyworkServer, KeyworkServer) {
    let cluster = NatsCluster::start().await;
    let a = replicated_server_on(&cluster).await;
    let b = replicated_server_on(&cluster).await;
    (cluster, a, b)
}

/// A server whose queues have three replicas.
pub(crate) async fn replicated_server_on(cluster: &NatsCluster) -> KeyworkServer {
    let builder = KeyworkServer::at(KEYWORK).nats(cluster.url());
    builder.arg("--replicas").arg("3").start().await
}

/// A client of a server.
pub(crate) async fn client(server: &KeyworkServer) -> Client {
    WorkQueueClient::new(channel(&server.endpoint()).await)
}

/// A client for queues.
pub(crate) async fn admin(server: &KeyworkServer) -> Admin {
    QueueAdminClient::new(channel(&server.endpoint()).await)
}

/// A connection to an endpoint such as `http://127.0.0.1:50051`.
pub(crate) async fn channel(endpoint: &str) -> Channel {
    let endpoint = Channel::from_shared(endpoint.to_owned()).expect("an endpoint");
    endpoint
        .tcp_nodelay(true)
        .connect()
        .await
        .expect("a server that listens")
}

/// Makes a queue. A cluster that was just formed may say for a while that nobody answers.
pub(crate) async fn make_queue(server: &KeyworkServer, name: &str, config: proto::QueueConfig) {
    let mut admin = admin(server).await;
    eventually(2 * SOON, "a queue is made", async || {
        let request = proto::CreateQueueRequest {
            name: name.into(),
            config: Some(config),
        };
        match admin.create_queue(request).await {
            Ok(_) => true,
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
                false
            }
        }
    })
    .await;
}

/// A configuration with the shortest lease and short waits.
pub(crate) fn short_lease() -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(SHORT_LEASE)),
        backoff: Some(proto::Backoff {
            initial: Some(wire(Duration::from_millis(100))),
            max: Some(wire(Duration::from_secs(1))),
        }),
        ..proto::QueueConfig::default()
    }
}

/// A duration on the wire.
pub(crate) fn wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).expect("a duration that fits")
}

/// A duration from the wire.
pub(crate) fn unwire(duration: Option<&prost_types::Duration>) -> Duration {
    duration
        .copied()
        .and_then(|d| Duration::try_from(d).ok())
        .unwrap_or_default()
}

/// A submit of a key with a payload.
pub(crate) fn submit(queue: &str, key: &str, payload: &str) -> proto::SubmitRequest {
    proto::SubmitRequest {
        queue: queue.into(),
        key: key.into(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        ..proto::SubmitRequest::default()
    }
}

/// Submits and answers the outcome and the job.
pub(crate) async fn offer(
    client: &mut Client,
    request: proto::SubmitRequest,
) -> (SubmitOutcome, proto::Job) {
    let until = Instant::now() + SOON;
    let response = loop {
        match client.submit(request.clone()).await {
            Ok(response) => break response.into_inner(),
            // On a cluster leaders move. A client tries again where nothing happened, and where its
            // request has a name.
            Err(status) if may_try_again(&request, &status) && Instant::now() < until => {
                sleep(Duration::from_millis(100)).await;
            }
            Err(status) => panic!("no answer to a submit: {status:?}"),
        }
    };
    (response.outcome(), response.job.unwrap_or_default())
}

/// Whether trying again can neither harm nor hide anything.
fn may_try_again(request: &proto::SubmitRequest, status: &Status) -> bool {
    let said = status.metadata().get("side_effects");
    let nothing_happened = said.is_some_and(|value| value == "none");
    let named = !request.request_id.is_empty();
    status.code() == tonic::Code::Unavailable && (nothing_happened || named)
}

/// Submits a key that must be free.
pub(crate) async fn create(client: &mut Client, queue: &str, key: &str) -> proto::Job {
    let (outcome, job) = offer(client, submit(queue, key, "payload")).await;
    assert_eq!(
        outcome,
        SubmitOutcome::Created,
        "{key} is not free: {job:?}"
    );
    job
}

/// Leases one job by a unary pull; `None` when none came in time. While leaders move, a pull may be told to
/// try again.
pub(crate) async fn pull(client: &mut Client, queue: &str, wait: Duration) -> Option<Delivery> {
    let until = Instant::now() + wait;
    loop {
        let request = proto::PullRequest {
            queue: queue.into(),
            wait: Some(wire(wait)),
            ..Default::default()
        };
        match client.pull(request).await {
            Ok(response) => return response.into_inner().deliveries.into_iter().next(),
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
                if Instant::now() >= until {
                    return None;
                }
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Settles one lease by a unary ack.
pub(crate) async fn ack(client: &mut Client, token: &Bytes, outcome: Outcome) -> SettlementOutcome {
    let request = proto::AckRequest {
        settlements: vec![settlement(token, outcome)],
    };
    let response = client
        .ack(request)
        .await
        .expect("an answer to an ack")
        .into_inner();
    response.results[0].outcome()
}

/// Settles many leases by unary acks. One outcome for each, in order.
pub(crate) async fn ack_all(
    client: &mut Client,
    settlements: Vec<proto::Settlement>,
) -> Vec<SettlementOutcome> {
    let mut outcomes = Vec::with_capacity(settlements.len());
    for part in settlements.chunks(MOST_AT_ONCE) {
        let settlements = part.to_vec();
        let response = client.ack(proto::AckRequest { settlements }).await;
        let response = response.expect("an answer to an ack").into_inner();
        outcomes.extend(response.results.iter().map(|r| r.outcome()));
    }
    outcomes
}

/// Extends many leases by unary heartbeats. One result for each, in order.
pub(crate) async fn beat_all(client: &mut Client, tokens: &[Bytes]) -> Vec<proto::HeartbeatResult> {
    let mut results = Vec::with_capacity(tokens.len());
    for part in tokens.chunks(MOST_AT_ONCE) {
        let lease_tokens = part.to_vec();
        let response = client
            .heartbeat(proto::HeartbeatRequest { lease_tokens })
            .await;
        results.extend(
            response
                .expect("an answer to a heartbeat")
                .into_inner()
                .results,
        );
    }
    results
}

/// Submits keys that must be free, in batches.
pub(crate) async fn create_all(client: &mut Client, queue: &str, keys: &[String]) {
    for part in keys.chunks(MOST_AT_ONCE) {
        let items = part.iter().map(|key| submit(queue, key, "payload"));
        let request = proto::SubmitBatchRequest {
            items: items.collect(),
        };
        let response = client.submit_batch(request).await.expect("verdicts");
        for (result, key) in response.into_inner().results.iter().zip(part) {
            let created = matches!(&result.result,
                Some(proto::submit_result::Result::Response(r)) if r.outcome() == SubmitOutcome::Created);
            assert!(created, "{key} is not free: {result:?}");
        }
    }
}

/// Keys with a number at the end.
pub(crate) fn keys(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}

/// The key of a delivery's job.
pub(crate) fn key_of(delivery: &Delivery) -> String {
    delivery
        .job
        .as_ref()
        .map(|job| job.key.clone())
        .unwrap_or_default()
}

/// Extends one lease by a unary heartbeat.
pub(crate) async fn beat(client: &mut Client, token: &Bytes) -> proto::HeartbeatResult {
    let request = proto::HeartbeatRequest {
        lease_tokens: vec![token.clone()],
    };
    let response = client
        .heartbeat(request)
        .await
        .expect("an answer to a heartbeat");
    response.into_inner().results.remove(0)
}

/// A settlement.
pub(crate) fn settlement(token: &Bytes, outcome: Outcome) -> proto::Settlement {
    proto::Settlement {
        lease_token: token.clone(),
        outcome: Some(outcome),
    }
}

/// Done.
pub(crate) fn complete() -> Outcome {
    Outcome::Complete(proto::Complete::default())
}

/// Try again after the queue's backoff.
pub(crate) fn retry() -> Outcome {
    Outcome::Retry(proto::Retry {
        delay: None,
        error: "it did not work".into(),
    })
}

/// Try again after a while.
pub(crate) fn retry_after(delay: Duration) -> Outcome {
    Outcome::Retry(proto::Retry {
        delay: Some(wire(delay)),
        error: "not yet".into(),
    })
}

/// Give it back.
pub(crate) fn release() -> Outcome {
    Outcome::Release(proto::Release {})
}

/// Dead.
pub(crate) fn fail() -> Outcome {
    Outcome::Fail(proto::Fail {
        error: "hopeless".into(),
    })
}

/// The dead letters of a queue.
pub(crate) async fn dead(client: &mut Client, queue: &str) -> Vec<proto::DeadJob> {
    let request = proto::ListDeadJobsRequest {
        queue: queue.into(),
        ..Default::default()
    };
    client
        .list_dead_jobs(request)
        .await
        .expect("a page of dead letters")
        .into_inner()
        .jobs
}

/// The job that holds a key; `None`: the key is free.
pub(crate) async fn job(client: &mut Client, queue: &str, key: &str) -> Option<proto::Job> {
    let request = proto::GetJobRequest {
        queue: queue.into(),
        key: key.into(),
    };
    match client.get_job(request).await {
        Ok(response) => response.into_inner().job,
        Err(status) if status.code() == tonic::Code::NotFound => None,
        Err(status) => panic!("failed to look at {key}: {status:?}"),
    }
}

/// A session that does only what it is told: no heartbeats, no settlements of its own.
pub(crate) struct Session {
    up: mpsc::Sender<proto::LeaseRequest>,
    down: Streaming<proto::LeaseResponse>,
    /// The answer to Hello.
    pub(crate) welcome: proto::Welcome,
    beats: u64,
    waiting: VecDeque<Down>,
}

/// A Hello for one queue.
pub(crate) fn hello(worker: &str, queue: &str, capacity: u32) -> proto::Hello {
    let subscription = proto::QueueSubscription {
        queue: queue.into(),
        weight: 1,
    };
    proto::Hello {
        worker_id: worker.into(),
        queues: vec![subscription],
        capacity,
        ..proto::Hello::default()
    }
}

impl Session {
    /// Opens a session. A server that says "not now" is asked again, as every worker does: a cluster that was just
    /// formed may not make a queue's streams in time.
    pub(crate) async fn open(client: &mut Client, hello: proto::Hello) -> Self {
        eventually_some(3 * SOON, "a Welcome", async || {
            match Self::try_open(client, hello.clone()).await {
                Ok(session) => Some(session),
                Err(status) if status.code() == tonic::Code::Unavailable => None,
                Err(status) => panic!("a session was refused: {status:?}"),
            }
        })
        .await
    }

    /// Opens a session, or answers what the server said instead of Welcome.
    pub(crate) async fn try_open(client: &mut Client, hello: proto::Hello) -> Result<Self, Status> {
        let (up, rx) = mpsc::channel(1_024);
        let first = proto::LeaseRequest {
            message: Some(Up::Hello(hello)),
        };
        up.send(first).await.expect("room for Hello");
        let mut down = client.lease(ReceiverStream::new(rx)).await?.into_inner();
        match timeout(SOON, down.message())
            .await
            .expect("Welcome in time")?
        {
            Some(proto::LeaseResponse {
                message: Some(Down::Welcome(welcome)),
            }) => Ok(Self {
                up,
                down,
                welcome,
                beats: 0,
                waiting: VecDeque::new(),
            }),
            other => panic!("something other than Welcome: {other:?}"),
        }
    }

    /// Sends a message.
    pub(crate) async fn send(&self, message: Up) {
        let request = proto::LeaseRequest {
            message: Some(message),
        };
        self.up
            .send(request)
            .await
            .expect("a stream that takes messages");
    }

    /// Sends a message; false where the stream has ended.
    pub(crate) async fn offer(&self, message: Up) -> bool {
        let message = Some(message);
        self.up.send(proto::LeaseRequest { message }).await.is_ok()
    }

    /// The next message, or how the stream ended: `None` is an end without an error.
    pub(crate) async fn next(&mut self) -> Result<Option<Down>, Status> {
        if let Some(message) = self.waiting.pop_front() {
            return Ok(Some(message));
        }
        let message = timeout(SOON, self.down.message())
            .await
            .expect("a message in time")?;
        Ok(message.and_then(|response| response.message))
    }

    /// The first message that `pick` takes; others wait for their turn.
    pub(crate) async fn wait_for<T>(&mut self, mut pick: impl FnMut(&Down) -> Option<T>) -> T {
        for at in 0..self.waiting.len() {
            if let Some(found) = pick(&self.waiting[at]) {
                self.waiting.remove(at);
                return found;
            }
        }
        loop {
            let next = timeout(SOON, self.down.message())
                .await
                .expect("a message in time");
            let message = next
                .expect("a stream without an error")
                .and_then(|r| r.message);
            let message = message.expect("a stream that goes on");
            match pick(&message) {
                Some(found) => return found,
                None => self.waiting.push_back(message),
            }
        }
    }

    /// The next deliveries.
    pub(crate) async fn deliveries(&mut self) -> Vec<Delivery> {
        self.wait_for(|message| match message {
            Down::Deliveries(list) => Some(list.deliveries.clone()),
            _ => None,
        })
        .await
    }

    /// The next delivery, which must come alone.
    pub(crate) async fn delivery(&mut self) -> Delivery {
        let mut deliveries = self.deliveries().await;
        assert_eq!(deliveries.len(), 1, "one delivery: {deliveries:?}");
        deliveries.remove(0)
    }

    /// Forgets deliveries that have come and were not asked for yet.
    pub(crate) fn deliveries_before_now(&mut self) {
        self.waiting
            .retain(|message| !matches!(message, Down::Deliveries(_)));
    }

    /// Whether nothing is delivered for so long.
    pub(crate) async fn nothing_for(&mut self, time: Duration) -> bool {
        timeout(time, self.deliveries()).await.is_err()
    }

    /// Sends a heartbeat and answers what it says is lost.
    pub(crate) async fn beat(&mut self, tokens: &[&Bytes]) -> Vec<LostLease> {
        self.beats += 1;
        let sequence = self.beats;
        let lease_tokens = tokens.iter().map(|token| (*token).clone()).collect();
        self.send(Up::Heartbeat(proto::LeaseHeartbeat {
            sequence,
            lease_tokens,
        }))
        .await;
        self.wait_for(|message| match message {
            Down::HeartbeatAck(ack) if ack.sequence == sequence => Some(ack.lost.clone()),
            _ => None,
        })
        .await
    }

    /// Sends a heartbeat and answers all that is said to it.
    pub(crate) async fn beat_ack(&mut self, tokens: &[Bytes]) -> proto::HeartbeatAck {
        self.beats += 1;
        let sequence = self.beats;
        let lease_tokens = tokens.to_vec();
        self.send(Up::Heartbeat(proto::LeaseHeartbeat {
            sequence,
            lease_tokens,
        }))
        .await;
        self.wait_for(|message| match message {
            Down::HeartbeatAck(ack) if ack.sequence == sequence => Some(ack.clone()),
            _ => None,
        })
        .await
    }

    /// Goes on with heartbeats for these leases until what is answered is dropped. With none, the stream
    /// lives while its leases run out.
    pub(crate) fn keep_beating(&self, lease_tokens: Vec<Bytes>) -> JoinSet<()> {
        const APART: u64 = 1 << 32;
        let interval = unwire(self.welcome.heartbeat_interval.as_ref()) / 2;
        let up = self.up.clone();
        let mut beating = JoinSet::new();
        beating.spawn(async move {
            for sequence in APART.. {
                let lease_tokens = lease_tokens.clone();
                let beat = Up::Heartbeat(proto::LeaseHeartbeat {
                    sequence,
                    lease_tokens,
                });
                let message = Some(beat);
                if up.send(proto::LeaseRequest { message }).await.is_err() {
                    return;
                }
                tokio::time::sleep(interval).await;
            }
        });
        beating
    }

    /// The next deliveries, until there are so many.
    pub(crate) async fn deliveries_of(&mut self, count: usize) -> Vec<Delivery> {
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            all.extend(self.deliveries().await);
        }
        assert_eq!(all.len(), count, "as many deliveries as there are jobs");
        all
    }

    /// What is delivered until `time` is over.
    pub(crate) async fn deliveries_for(&mut self, time: Duration) -> Vec<Delivery> {
        let (mut all, end) = (Vec::new(), Instant::now() + time);
        while let Ok(more) = timeout_at(end, self.deliveries()).await {
            all.extend(more);
        }
        all
    }

    /// Settles a lease and answers the outcome.
    pub(crate) async fn settle(&mut self, token: &Bytes, outcome: Outcome) -> SettlementOutcome {
        let settlements = vec![settlement(token, outcome)];
        self.send(Up::Settlements(proto::Settlements { settlements }))
            .await;
        self.wait_for(|message| match message {
            Down::SettlementResults(list) => list
                .results
                .iter()
                .find(|r| r.lease_token == *token)
                .map(|r| r.outcome()),
            _ => None,
        })
        .await
    }

    /// Leases that the server says are lost.
    pub(crate) async fn lost(&mut self) -> Vec<LostLease> {
        self.wait_for(|message| match message {
            Down::LeasesLost(list) => Some(list.leases.clone()),
            _ => None,
        })
        .await
    }

    /// Closes this side of the stream.
    pub(crate) fn close(self) {
        drop(self);
    }
}

/// The reason that an error carries.
pub(crate) fn reason(status: &Status) -> String {
    let info = status.get_details_error_info();
    info.map(|info| info.reason).unwrap_or_default()
}

/// The field that an error names.
pub(crate) fn field(status: &Status) -> String {
    let bad = status.get_details_bad_request();
    let first = bad.and_then(|bad| bad.field_violations.into_iter().next());
    first.map(|violation| violation.field).unwrap_or_default()
}

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

impl Session {
    /// As [`Session::wait_for`], but `None` when nothing that `pick` takes comes within this time.
    pub(crate) async fn within<T>(
        &mut self,
        time: Duration,
        pick: impl FnMut(&Down) -> Option<T>,
    ) -> Option<T> {
        timeout(time, self.wait_for(pick)).await.ok()
    }

    /// The next deliveries, with heartbeats that list nothing until they come: a session that waits for
    /// longer than its liveness timeout needs them.
    pub(crate) async fn beating(&mut self) -> Vec<Delivery> {
        const EVERY: Duration = Duration::from_millis(500);
        let waits = SOON.as_millis() * 2 / EVERY.as_millis();
        for _ in 0..waits {
            let deliveries = self
                .within(EVERY, |message| match message {
                    Down::Deliveries(list) => Some(list.deliveries.clone()),
                    _ => None,
                })
                .await;
            if let Some(deliveries) = deliveries {
                return deliveries;
            }
            self.beat(&[]).await;
        }
        panic!("no delivery comes");
    }

    /// As [`Session::beating`], for a delivery that must come alone.
    pub(crate) async fn beating_delivery(&mut self) -> Delivery {
        let mut deliveries = self.beating().await;
        assert_eq!(deliveries.len(), 1, "one delivery: {deliveries:?}");
        deliveries.remove(0)
    }
}

/// What the workers of a test hold, as they were told, and whatever they were told that must not be.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    held: Mutex<HashMap<String, Holding>>,
    settled: Mutex<HashMap<String, u32>>,
    asked: Mutex<HashSet<String>>,
    faults: Mutex<Vec<String>>,
}

#[derive(Clone, Debug)]
struct Holding {
    fencing: u64,
    worker: String,
    /// No later than the deadline that the server told.
    until: Instant,
}

impl Ledger {
    /// Nobody may be given a key while another's lease holds, and fencing numbers grow.
    fn granted(&self, worker: &str, delivery: &Delivery, until: Instant) {
        let (key, now) = (key_of(delivery), Instant::now());
        let fencing = delivery.fencing_number;
        let holding = Holding {
            fencing,
            worker: worker.into(),
            until,
        };
        let before = self.held.lock().expect("held").insert(key.clone(), holding);
        if let Some(before) = before
            && (before.until > now || before.fencing >= fencing)
        {
            let early = before.until.saturating_duration_since(now);
            self.fault(format!(
                "{key} went to {worker} as {fencing}, {early:?} before the end of {} with {}",
                before.fencing, before.worker
            ));
        }
    }

    fn extended(&self, key: &str, fencing: u64, until: Instant) {
        if let Some(holding) = self.held.lock().expect("held").get_mut(key)
            && holding.fencing == fencing
        {
            holding.until = holding.until.max(until);
        }
    }

    /// No lease is lost before its deadline.
    fn lost(&self, key: &str, fencing: u64, how: &str) {
        let holding = self.held.lock().expect("held").get(key).cloned();
        if let Some(holding) = holding
            && holding.fencing == fencing
        {
            let early = holding.until.saturating_duration_since(Instant::now());
            if !early.is_zero() {
                self.fault(format!("{key} was lost {early:?} too early: {how}"));
            }
        }
    }

    fn settled(&self, key: &str, fencing: u64) {
        let mut held = self.held.lock().expect("held");
        if let Some(holding) = held.get_mut(key)
            && holding.fencing == fencing
        {
            holding.until = Instant::now();
        }
        drop(held);
        let mut settled = self.settled.lock().expect("settled");
        *settled.entry(key.into()).or_default() += 1;
    }

    /// A settlement was sent: its answer may get lost.
    fn asked(&self, key: &str) {
        self.asked.lock().expect("asked").insert(key.into());
    }

    fn fault(&self, fault: String) {
        self.faults.lock().expect("faults").push(fault);
    }

    /// How often each key was settled.
    pub(crate) fn settlements(&self) -> HashMap<String, u32> {
        self.settled.lock().expect("settled").clone()
    }

    /// Whether a key was settled, as far as its worker can know.
    pub(crate) fn asked_for(&self, key: &str) -> bool {
        self.asked.lock().expect("asked").contains(key)
    }

    /// Fails the test where a worker was told what must not be.
    pub(crate) fn check(&self) {
        let faults = self.faults.lock().expect("faults");
        assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
    }
}

/// A worker that does as an SDK should: it extends what it holds, goes on with it at another server when
/// its stream breaks, and settles each lease after a while. Tells the ledger all that it is told.
#[derive(Clone)]
pub(crate) struct Careful {
    pub(crate) name: String,
    pub(crate) queue: String,
    pub(crate) endpoints: Vec<String>,
    pub(crate) capacity: u32,
    /// The longest time that it keeps a job.
    pub(crate) longest: Duration,
    pub(crate) ledger: Arc<Ledger>,
}

/// One lease of a [`Careful`].
struct Kept {
    key: String,
    fencing: u64,
    done_at: Instant,
    until: Instant,
    settling: bool,
}

impl Careful {
    /// Works until it is dropped, which is like a SIGKILL.
    pub(crate) fn start(self) -> JoinSet<()> {
        let mut working = JoinSet::new();
        working.spawn(async move {
            let (mut kept, mut ticket) = (HashMap::new(), Bytes::new());
            for at in 0.. {
                let endpoint = &self.endpoints[at % self.endpoints.len()];
                let now = Instant::now();
                kept.retain(|_, k: &mut Kept| k.until > now);
                if let Some(session) = self.open(endpoint, &mut kept, &ticket).await {
                    self.serve(session, &mut kept, &mut ticket).await;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        working
    }

    async fn open(
        &self,
        endpoint: &str,
        kept: &mut HashMap<Bytes, Kept>,
        ticket: &Bytes,
    ) -> Option<Session> {
        let channel = Channel::from_shared(endpoint.to_owned()).ok()?;
        let mut client = WorkQueueClient::new(channel.connect().await.ok()?);
        let hello = proto::Hello {
            held_leases: kept.keys().cloned().collect(),
            session_ticket: ticket.clone(),
            ..hello(&self.name, &self.queue, self.capacity)
        };
        let opening = Session::try_open(&mut client, hello);
        let session = timeout(SOON, opening).await.ok()?.ok()?;
        for lost in &session.welcome.lost {
            self.lost(kept, &lost.lease_token, "at Hello");
        }
        for lease in kept.values_mut() {
            lease.settling = false;
        }
        Some(session)
    }

    async fn serve(
        &self,
        mut session: Session,
        kept: &mut HashMap<Bytes, Kept>,
        ticket: &mut Bytes,
    ) {
        let term = unwire(session.welcome.queues[0].lease_duration.as_ref());
        *ticket = session.welcome.session_ticket.clone();
        let mut ticks = tokio::time::interval(term / 8);
        let mut beats: HashMap<u64, (Instant, Vec<Bytes>)> = HashMap::new();
        for beat in 0.. {
            let message = tokio::select! {
                _ = ticks.tick() => {
                    let now = Instant::now();
                    kept.retain(|_, k| k.settling || k.until > now);
                    let held = kept.iter().filter(|(_, k)| !k.settling);
                    let lease_tokens: Vec<Bytes> = held.map(|(token, _)| token.clone()).collect();
                    beats.insert(beat, (now, lease_tokens.clone()));
                    let beating = proto::LeaseHeartbeat { sequence: beat, lease_tokens };
                    let due = kept.iter_mut().filter(|(_, k)| !k.settling && k.done_at <= now);
                    let settlements = due.map(|(token, k)| {
                        k.settling = true;
                        self.ledger.asked(&k.key);
                        settlement(token, complete())
                    });
                    let settlements = proto::Settlements { settlements: settlements.collect() };
                    if !session.offer(Up::Heartbeat(beating)).await
                        || !session.offer(Up::Settlements(settlements)).await
                    {
                        return;
                    }
                    continue;
                }
                message = session.down.message() => message,
            };
            let Ok(Some(proto::LeaseResponse {
                message: Some(message),
            })) = message
            else {
                return;
            };
            match message {
                Down::Deliveries(list) => self.take(kept, list.deliveries),
                Down::HeartbeatAck(ack) => {
                    *ticket = ack.session_ticket;
                    for lost in &ack.lost {
                        self.lost(kept, &lost.lease_token, "at a heartbeat");
                    }
                    let (sent, tokens) = beats.remove(&ack.sequence).expect("a heartbeat of ours");
                    for token in tokens.iter().filter(|t| !ack.unconfirmed.contains(t)) {
                        // A lease that is being settled is not extended.
                        if let Some(k) = kept.get_mut(token).filter(|k| !k.settling) {
                            k.until = k.until.max(sent + term);
                            self.ledger.extended(&k.key, k.fencing, k.until);
                        }
                    }
                }
                Down::LeasesLost(list) => {
                    for lost in &list.leases {
                        self.lost(kept, &lost.lease_token, "pushed");
                    }
                }
                Down::SettlementResults(list) => {
                    for result in &list.results {
                        self.settled(kept, &result.lease_token, result.outcome());
                    }
                }
                Down::GoAway(_) => return,
                Down::Welcome(_) | Down::DrainAck(_) => {}
            }
        }
    }

    fn take(&self, kept: &mut HashMap<Bytes, Kept>, deliveries: Vec<Delivery>) {
        // What the message took on its way is not known: the margin is more than that.
        const ON_THE_WAY: Duration = Duration::from_millis(700);
        for delivery in deliveries {
            let now = Instant::now();
            let left = unwire(delivery.time_left.as_ref()).saturating_sub(ON_THE_WAY);
            self.ledger.granted(&self.name, &delivery, now + left);
            let lease = Kept {
                key: key_of(&delivery),
                fencing: delivery.fencing_number,
                done_at: now + self.longest.mul_f64(rand::random()),
                until: now + left,
                settling: false,
            };
            kept.insert(delivery.lease_token, lease);
        }
    }

    fn lost(&self, kept: &mut HashMap<Bytes, Kept>, token: &Bytes, how: &str) {
        // One that is being settled may have ended so.
        if kept.get(token).is_none_or(|k| k.settling) {
            return;
        }
        if let Some(lease) = kept.remove(token) {
            self.ledger.lost(&lease.key, lease.fencing, how);
        }
    }

    fn settled(&self, kept: &mut HashMap<Bytes, Kept>, token: &Bytes, outcome: SettlementOutcome) {
        if outcome == SettlementOutcome::TryAgain {
            if let Some(lease) = kept.get_mut(token) {
                lease.settling = false;
            }
            return;
        }
        let Some(lease) = kept.remove(token) else {
            return;
        };
        match outcome {
            SettlementOutcome::Settled | SettlementOutcome::AlreadySettled => {
                self.ledger.settled(&lease.key, lease.fencing);
            }
            other => self
                .ledger
                .lost(&lease.key, lease.fencing, other.as_str_name()),
        }
    }
}
