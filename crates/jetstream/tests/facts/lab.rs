//! A jobs stream and its consumer on a real nats-server, and the verbs of the wire protocol.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use async_nats::{Client, HeaderMap, Message, Request, RequestErrorKind, StatusCode, jetstream};
use futures::StreamExt;
use keywork_testkit::{NatsCluster, NatsServer, eventually, eventually_some};
use serde_json::{Value, json};

pub(crate) const SOON: Duration = Duration::from_secs(10);
pub(crate) const AT_ONCE: Duration = Duration::from_millis(300);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Error codes of JetStream.
pub(crate) const STORE_FAILED: u64 = 10077;
pub(crate) const WRONG_LAST_SEQUENCE: u64 = 10071;
pub(crate) const PUBLISH_IN_FLIGHT: u64 = 10164;
pub(crate) const DUPLICATE_IN_FLIGHT: u64 = 10158;
/// Both say that there is nothing to delete.
pub(crate) const NO_SUCH_SEQUENCE: [u64; 2] = [10057, 10043];

/// How a jobs stream is to be, where it differs from the usual one.
#[derive(Clone)]
pub(crate) struct Setup {
    stream: Value,
    consumer: Value,
    front: bool,
}

/// The usual jobs stream: work queue, one message a subject, new ones rejected, rollups allowed.
pub(crate) fn jobs() -> Setup {
    Setup {
        stream: json!({
            "retention": "workqueue", "max_msgs_per_subject": 1, "discard": "new",
            "discard_new_per_subject": true, "storage": "file", "allow_direct": true,
            "allow_rollup_hdrs": true,
        }),
        consumer: json!({
            "durable_name": CONSUMER, "name": CONSUMER, "ack_policy": "explicit",
            "max_deliver": -1, "max_ack_pending": -1, "ack_wait": nanos(Duration::from_secs(30)),
        }),
        front: false,
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap()
}

pub(crate) const CONSUMER: &str = "c";

impl Setup {
    pub(crate) fn stream(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.stream[field] = value.into();
        self
    }

    pub(crate) fn consumer(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.consumer[field] = value.into();
        self
    }

    pub(crate) fn ack_wait(self, wait: Duration) -> Self {
        self.consumer("ack_wait", nanos(wait))
    }

    /// With a message at the front that the consumer does not see, and an ack floor above it.
    pub(crate) fn with_front(self) -> Self {
        Self {
            front: true,
            ..self
        }
    }

    /// On a nats-server of its own.
    pub(crate) async fn alone(self) -> Lab {
        Lab::open(Host::Alone(NatsServer::start().await), self).await
    }

    /// With three replicas, on a cluster that other tests use too.
    pub(crate) async fn of_three(self) -> Lab {
        Lab::open(Host::Three(NatsCluster::shared().await), self).await
    }

    pub(crate) async fn both(self) -> [Lab; 2] {
        [self.clone().alone().await, self.of_three().await]
    }
}

enum Host {
    Alone(NatsServer),
    Three(Arc<NatsCluster>),
}

/// One jobs stream with its consumer.
pub(crate) struct Lab {
    host: Host,
    setup: Setup,
    pub(crate) client: Client,
    pub(crate) stream: String,
}

/// What a publish was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Stored(u64),
    Duplicate(u64),
    Refused(u64, String),
}

impl Answer {
    pub(crate) fn sequence(&self) -> Option<u64> {
        match self {
            Self::Stored(sequence) => Some(*sequence),
            Self::Duplicate(_) | Self::Refused(..) => None,
        }
    }

    pub(crate) fn code(&self) -> Option<u64> {
        match self {
            Self::Refused(code, _) => Some(*code),
            Self::Stored(_) | Self::Duplicate(_) => None,
        }
    }

    fn read(message: &Message) -> Self {
        let answer: Value = serde_json::from_slice(&message.payload).unwrap();
        if let Some(error) = answer.get("error") {
            let text = error["description"].as_str().unwrap_or_default();
            return Self::Refused(error["err_code"].as_u64().unwrap(), text.into());
        }
        let sequence = answer["seq"].as_u64().unwrap();
        match answer["duplicate"].as_bool() {
            Some(true) => Self::Duplicate(sequence),
            Some(false) | None => Self::Stored(sequence),
        }
    }
}

/// What came of an ack that was sent as a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    Yes,
    NobodyThere,
}

/// One delivery to one worker.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) subject: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) ack_subject: String,
    pub(crate) sequence: u64,
    pub(crate) consumer_sequence: u64,
    pub(crate) count: i64,
}

impl Delivery {
    fn read(message: Message, context: &jetstream::Context) -> Self {
        let message = jetstream::Message {
            message,
            context: context.clone(),
        };
        let info = message.info().unwrap();
        Self {
            sequence: info.stream_sequence,
            consumer_sequence: info.consumer_sequence,
            count: info.delivered,
            subject: message.subject.to_string(),
            payload: message.payload.to_vec(),
            ack_subject: message.reply.clone().unwrap().to_string(),
        }
    }
}

impl Lab {
    async fn open(host: Host, setup: Setup) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let (client, replicas) = match &host {
            Host::Alone(server) => (server.connect().await, 1),
            Host::Three(cluster) => (cluster.connect().await, 3),
        };
        let stream = format!("WORK{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut lab = Self {
            host,
            setup,
            client,
            stream,
        };
        lab.setup.stream["name"] = lab.stream.clone().into();
        lab.setup.stream["subjects"] = json!([lab.subject("*"), lab.front()]);
        lab.setup.consumer["filter_subject"] = lab.subject("*").into();
        lab.setup.stream["num_replicas"] = replicas.into();
        lab.create_stream().await;
        lab.create_consumer().await;
        if lab.setup.front {
            lab.put_front().await;
        }
        lab
    }

    /// The subject of the message at the front.
    fn front(&self) -> String {
        format!("{}-front", self.stream.to_lowercase())
    }

    async fn put_front(&self) {
        let answer = self
            .client
            .request(self.front(), "front".into())
            .await
            .unwrap();
        let front = Answer::read(&answer).sequence().unwrap();
        let verb = format!("CONSUMER.RESET.{}.{CONSUMER}", self.stream);
        accepted(&self.api(&verb, &json!({ "seq": front + 1 })).await);
        assert_eq!(self.floor().await, front);
    }

    /// The ack floor, as a sequence of the stream.
    pub(crate) async fn floor(&self) -> u64 {
        self.consumer_info().await["ack_floor"]["stream_seq"]
            .as_u64()
            .unwrap()
    }

    pub(crate) async fn create_stream(&self) {
        let verb = format!("STREAM.CREATE.{}", self.stream);
        accepted(&self.api(&verb, &self.setup.stream).await);
    }

    /// Creates the consumer, or updates it.
    pub(crate) async fn create_consumer(&self) {
        let verb = format!("CONSUMER.CREATE.{}.{CONSUMER}", self.stream);
        let request = json!({ "stream_name": self.stream, "config": self.setup.consumer });
        accepted(&self.api(&verb, &request).await);
    }

    pub(crate) async fn change_ack_wait(&mut self, wait: Duration) {
        self.setup.consumer["ack_wait"] = nanos(wait).into();
        self.create_consumer().await;
    }

    pub(crate) async fn delete_stream(&self) {
        accepted(
            &self
                .api(&format!("STREAM.DELETE.{}", self.stream), &Value::Null)
                .await,
        );
    }

    pub(crate) async fn delete_consumer(&self) {
        let verb = format!("CONSUMER.DELETE.{}.{CONSUMER}", self.stream);
        accepted(&self.api(&verb, &Value::Null).await);
    }

    pub(crate) fn is_three(&self) -> bool {
        matches!(self.host, Host::Three(_))
    }

    /// The nats-server of a lab that stands alone.
    pub(crate) fn server(&self) -> &NatsServer {
        match &self.host {
            Host::Alone(server) => server,
            Host::Three(_) => panic!("not the server of one test"),
        }
    }

    /// SIGKILL and start again, with a new connection.
    pub(crate) async fn crash(&mut self) {
        self.server().kill();
        self.server().restart().await;
        self.client = self.server().connect().await;
    }

    /// A clean stop and a start, with a new connection.
    pub(crate) async fn restart(&mut self) {
        self.server().stop().await;
        self.server().restart().await;
        self.client = self.server().connect().await;
    }

    pub(crate) fn subject(&self, key: &str) -> String {
        format!("{}.{key}", self.stream.to_lowercase())
    }

    /// A request to the JetStream API, and its answer, whatever it is.
    pub(crate) async fn api(&self, verb: &str, request: &Value) -> Value {
        let payload = if request.is_null() {
            Vec::new()
        } else {
            serde_json::to_vec(request).unwrap()
        };
        // A group that has no leader yet does not answer at all.
        eventually_some(3 * SOON, verb, async || {
            let request = Request::new()
                .payload(payload.clone().into())
                .timeout(Some(SOON / 5));
            let subject = format!("$JS.API.{verb}");
            let answer = self.client.send_request(subject, request).await.ok()?;
            serde_json::from_slice(&answer.payload).ok()
        })
        .await
    }

    pub(crate) async fn publish(
        &self,
        key: &str,
        payload: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, *value);
        }
        let answer = self
            .client
            .request_with_headers(self.subject(key), map, payload.to_owned().into())
            .await
            .unwrap();
        Answer::read(&answer)
    }

    /// A plain submit that is accepted.
    pub(crate) async fn submit(&self, key: &str) -> u64 {
        self.publish(key, "job", &[]).await.sequence().unwrap()
    }

    /// Replaces the job at `sequence`, if it is still there.
    pub(crate) async fn reseat(&self, key: &str, sequence: u64, payload: &str) -> Answer {
        self.reseat_with(key, sequence, payload, &[]).await
    }

    pub(crate) async fn reseat_with(
        &self,
        key: &str,
        sequence: u64,
        payload: &str,
        more: &[(&str, &str)],
    ) -> Answer {
        let sequence = sequence.to_string();
        let headers = [
            &[
                ("Nats-Rollup", "sub"),
                (EXPECTED_SEQUENCE, sequence.as_str()),
            ],
            more,
        ]
        .concat();
        self.publish(key, payload, &headers).await
    }

    /// `Ok`, or the error's code.
    pub(crate) async fn delete(&self, sequence: u64) -> Result<(), u64> {
        let request = json!({ "seq": sequence, "no_erase": true });
        let answer = self
            .api(&format!("STREAM.MSG.DELETE.{}", self.stream), &request)
            .await;
        match answer.get("error") {
            Some(error) => Err(error["err_code"].as_u64().unwrap()),
            None => Ok(()),
        }
    }

    /// The sequence that holds the key, by a read from the leader.
    pub(crate) async fn holder(&self, key: &str) -> Option<u64> {
        let request = json!({ "last_by_subj": self.subject(key) });
        let answer = self
            .api(&format!("STREAM.MSG.GET.{}", self.stream), &request)
            .await;
        answer.get("message")?["seq"].as_u64()
    }

    /// Up to `count` deliveries, those that come within `patience`. A pull that was refused is made again: a
    /// consumer of three replicas that was just made, or whose leader moves, takes none for a moment.
    pub(crate) async fn pull(&self, count: usize, patience: Duration) -> Vec<Delivery> {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let (deliveries, refused) = self.pull_once(count, left.max(MILLISECOND)).await;
            if !refused || !deliveries.is_empty() || Instant::now() >= end {
                return deliveries;
            }
            tokio::time::sleep(10 * MILLISECOND).await;
        }
    }

    /// What one pull brings, and whether it ended with another status than that its time was over.
    async fn pull_once(&self, count: usize, patience: Duration) -> (Vec<Delivery>, bool) {
        let inbox = self.client.new_inbox();
        let replies = self.client.subscribe(inbox.clone()).await.unwrap();
        let request = json!({ "batch": count, "expires": nanos(patience) }).to_string();
        let verb = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{CONSUMER}", self.stream);
        self.client
            .publish_with_reply(verb, inbox, request.into())
            .await
            .unwrap();
        let context = jetstream::new(self.client.clone());
        let mut refused = false;
        let deliveries = replies
            // The pull expires, which ends it; the time-out is for a server that has gone.
            .take_until(tokio::time::sleep(patience + Duration::from_secs(2)))
            .take_while(|reply| {
                refused = matches!(reply.status, Some(status) if status != StatusCode::TIMEOUT);
                std::future::ready(reply.status.is_none())
            })
            .take(count)
            .map(|message| Delivery::read(message, &context))
            .collect()
            .await;
        (deliveries, refused)
    }

    /// The one delivery that must come soon. A pull that was lost on its way to a leader that moves is made again.
    pub(crate) async fn take(&self) -> Delivery {
        eventually_some(3 * SOON, "a delivery", async || {
            self.pull(1, SOON).await.pop()
        })
        .await
    }

    /// Whether nothing is delivered at this moment.
    pub(crate) async fn is_quiet(&self) -> bool {
        self.pull(1, AT_ONCE).await.is_empty()
    }

    /// Sends an ack (`+ACK`, `-NAK`, `+WPI`, `+TERM`) as a request.
    pub(crate) async fn ack(&self, ack_subject: &str, kind: &str) -> Ack {
        let asked = self
            .client
            .request(ack_subject.to_owned(), kind.to_owned().into())
            .await;
        match asked.map_err(|error| error.kind()) {
            Ok(_) => Ack::Yes,
            Err(RequestErrorKind::NoResponders) => Ack::NobodyThere,
            Err(kind) => panic!("an ack failed: {kind:?}"),
        }
    }

    pub(crate) async fn consumer_info(&self) -> Value {
        self.api(
            &format!("CONSUMER.INFO.{}.{CONSUMER}", self.stream),
            &Value::Null,
        )
        .await
    }

    /// How many deliveries are out.
    pub(crate) async fn out(&self) -> u64 {
        self.consumer_info().await["num_ack_pending"]
            .as_u64()
            .unwrap()
    }

    /// Submits until it is accepted: an ack on three replicas frees the key a moment later.
    pub(crate) async fn submit_soon(&self, key: &str) -> u64 {
        eventually_some(SOON, "the key is free", async || {
            self.publish(key, "job", &[]).await.sequence()
        })
        .await
    }

    /// Pauses the consumer until that time, and waits until it has happened: on three replicas
    /// the answer comes before.
    pub(crate) async fn pause(&self, until: &str) {
        let verb = format!("CONSUMER.PAUSE.{}.{CONSUMER}", self.stream);
        let answer = self.api(&verb, &json!({ "pause_until": until })).await;
        accepted(&answer);
        let is_paused = |info: &Value| info["paused"].as_bool().unwrap_or(false);
        eventually(SOON, "the consumer is paused, or goes on", async || {
            is_paused(&self.consumer_info().await) == is_paused(&answer)
        })
        .await;
    }
}

pub(crate) const EXPECTED_SEQUENCE: &str = "Nats-Expected-Last-Subject-Sequence";
pub(crate) const MSG_ID: &str = "Nats-Msg-Id";

/// Fails when the answer of the JetStream API is an error.
pub(crate) fn accepted(answer: &Value) {
    assert_eq!(answer.get("error"), None);
}
