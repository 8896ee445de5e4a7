//! Queues as streams: made, compared with what Keywork needs, changed, counted, deleted.

mod changes;
mod drift;
mod front;
mod pause;

use std::time::Duration;

use bytes::Bytes;
use keywork_model::{QueueConfig, QueueName, UnixMillis, time::millis};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    api::{ApiError, code},
    connect::Nats,
    jobs::Jobs,
    names::CONSUMER,
};

pub use changes::QueueChanges;
pub use front::Front;

use drift::{repaired, stream_config};

const METADATA: &str = "keywork.queue";
/// A leader that has heard of its followers within this time is the leader: no other is chosen sooner.
const IN_TOUCH: Duration = Duration::from_secs(3);

/// How often a queue that was there is looked for again before it is believed to be gone, where a cluster
/// keeps it.
pub const UNKNOWN_LOOKS: usize = 3;
/// The pause before each of these looks.
pub const UNKNOWN_PAUSE: Duration = Duration::from_millis(250);

/// How opening or changing a queue fails.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// There is no such queue.
    #[error("there is no queue {0}")]
    Unknown(QueueName),
    /// There is one that differs in these fields.
    #[error("the queue exists, with another {}", .0.join(", "))]
    Exists(Vec<&'static str>),
    /// Its stream or consumer was changed so that a law would break.
    #[error(
        "the {object} of queue {queue} has drifted: {field} is {found}, Keywork needs {needed}"
    )]
    Drift {
        /// The queue.
        queue: QueueName,
        /// `stream` or `consumer`.
        object: &'static str,
        /// The field at fault.
        field: &'static str,
        /// What it is.
        found: String,
        /// What it must be.
        needed: String,
    },
    /// JetStream failed.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// What a stream's info says.
#[derive(Clone, Debug, Deserialize)]
pub struct StreamInfo {
    config: Map<String, Value>,
    created: jiff::Timestamp,
    state: StreamState,
    cluster: Option<ClusterInfo>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct StreamState {
    messages: u64,
    first_seq: u64,
    last_seq: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct ClusterInfo {
    #[serde(default)]
    leader: Option<String>,
    #[serde(default)]
    leader_since: Option<String>,
    /// The nodes that follow the leader.
    #[serde(default)]
    replicas: Vec<Follower>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Follower {
    #[serde(default)]
    offline: bool,
    /// When the leader last heard of it, in nanoseconds ago.
    #[serde(default)]
    active: u64,
}

impl ClusterInfo {
    /// Whether it comes from a leader that most nodes follow: one that was away for a while answers from
    /// what it knew then, until it hears of its successor.
    fn in_touch(&self) -> bool {
        let followed = |f: &&Follower| !f.offline && Duration::from_nanos(f.active) < IN_TOUCH;
        let followed = self.replicas.iter().filter(followed).count();
        (followed + 1) * 2 > self.replicas.len() + 1
    }
}

/// What a consumer's info says.
#[derive(Clone, Debug, Deserialize)]
pub struct ConsumerInfo {
    config: Map<String, Value>,
    created: jiff::Timestamp,
    delivered: Position,
    ack_floor: Position,
    /// Delivered and not settled.
    pub num_ack_pending: u64,
    /// Never delivered.
    pub num_pending: u64,
    #[serde(default)]
    paused: bool,
    cluster: Option<ClusterInfo>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Position {
    stream_seq: u64,
}

/// A queue as JetStream keeps it, at one moment.
#[derive(Clone, Debug)]
pub struct QueueInfo {
    /// The configuration.
    pub config: QueueConfig,
    /// Which making of the stream this is.
    pub incarnation: u64,
    /// When it was made.
    pub created_at: UnixMillis,
    /// How many nodes keep it.
    pub replicas: usize,
    /// Outstanding jobs.
    pub messages: u64,
    /// The oldest stored sequence.
    pub first_sequence: u64,
    /// The newest stored sequence.
    pub last_sequence: u64,
    /// The newest sequence that was ever delivered.
    pub delivered: u64,
    /// Nothing at or below it will be delivered again.
    pub ack_floor: u64,
    /// Delivered and not settled.
    pub in_flight: u64,
    /// Never delivered.
    pub ready: u64,
    /// Whether deliveries are stopped.
    pub paused: bool,
    /// What changes when the NATS server that keeps a single replica is restarted.
    pub keeper: String,
    /// How long JetStream waits for a settlement now.
    pub ack_wait: Duration,
    /// What somebody changed so that a law would break.
    pub drift: Option<String>,
    /// Whether something was changed that [`Nats::repair_queue`] puts right.
    pub to_repair: bool,
}

impl Nats {
    /// Makes a queue.
    ///
    /// # Errors
    /// [`QueueError::Exists`] when there is one with another configuration.
    pub async fn create_queue(
        &self,
        queue: &QueueName,
        config: &QueueConfig,
        replicas: usize,
    ) -> Result<Jobs, QueueError> {
        let stream = self.names().jobs_stream(queue);
        let wanted = stream_config(self, queue, config, replicas);
        let what = format!("STREAM.CREATE.{stream}");
        match self
            .make::<Value>(what, Bytes::from(wanted.to_string()))
            .await
        {
            Ok(_) => {}
            Err(error) if error.code() == Some(code::STREAM_EXISTS) => {
                let jobs = self.open_queue(queue).await?;
                let differing = jobs.info().await?.config.differences(config);
                return if differing.is_empty() {
                    Ok(jobs)
                } else {
                    Err(QueueError::Exists(differing))
                };
            }
            Err(error) => return Err(error.into()),
        }
        self.open_queue(queue).await
    }

    /// Opens a queue: compares it with what Keywork needs, makes and repairs what it can.
    ///
    /// # Errors
    /// [`QueueError::Unknown`], or [`QueueError::Drift`] where a law would break.
    pub async fn open_queue(&self, queue: &QueueName) -> Result<Jobs, QueueError> {
        let stream = self.stream_info(queue).await?;
        self.check_stream(queue, &stream)?;
        let config = stored_config(&stream);
        let replicas = replicas(&stream);
        self.repair_stream(queue, &stream, &config).await?;
        self.ensure_beside(queue, &config, replicas).await?;
        let front = self.ensure_front(queue).await?;
        let consumer = self.consumer_behind(queue, &config, front).await?;
        self.check_consumer(queue, &consumer)?;
        Ok(Jobs::new(
            self.clone(),
            queue.clone(),
            incarnation(&stream),
            replicas,
        ))
    }

    /// Makes the streams beside a queue's jobs where they are not there.
    async fn ensure_beside(
        &self,
        queue: &QueueName,
        config: &QueueConfig,
        replicas: usize,
    ) -> Result<(), ApiError> {
        self.ensure_dead(queue, config, replicas).await?;
        if replicas == 1 {
            self.ensure_ends().await?;
        }
        Ok(())
    }

    /// Makes the streams beside a queue's jobs again, as where somebody deleted them. Where one of them does
    /// not answer, that may be why.
    ///
    /// # Errors
    /// What failed.
    pub(crate) async fn restore_beside(&self, queue: &QueueName) -> Result<(), ApiError> {
        let what = format!("STREAM.INFO.{}", self.names().jobs_stream(queue));
        let stream: StreamInfo = self.read(what, Bytes::new()).await?;
        let config = stored_config(&stream);
        self.ensure_beside(queue, &config, replicas(&stream)).await
    }

    /// A queue as it is now.
    ///
    /// # Errors
    /// [`QueueError::Unknown`] when it is not there.
    pub async fn queue_info(&self, queue: &QueueName) -> Result<QueueInfo, QueueError> {
        let stream = self.stream_info(queue).await?;
        let consumer = self.consumer_info(queue).await?;
        let config = stored_config(&stream);
        let sound = self.check_stream(queue, &stream);
        let sound = sound.and_then(|()| self.check_consumer(queue, &consumer));
        Ok(QueueInfo {
            drift: sound.err().map(|drift| drift.to_string()),
            to_repair: repaired(&stream, &config).is_some(),
            config,
            incarnation: incarnation(&stream),
            created_at: UnixMillis(u64::try_from(stream.created.as_millisecond()).unwrap_or(0)),
            replicas: replicas(&stream),
            messages: stream.state.messages.saturating_sub(1),
            first_sequence: stream.state.first_seq,
            last_sequence: stream.state.last_seq,
            delivered: consumer.delivered.stream_seq,
            ack_floor: consumer.ack_floor.stream_seq,
            in_flight: consumer.num_ack_pending,
            ready: consumer.num_pending,
            paused: consumer.paused,
            keeper: self.keeper(&stream, &consumer),
            ack_wait: nanos(consumer.config.get("ack_wait")),
        })
    }

    /// The names of all queues, in order.
    ///
    /// # Errors
    /// What failed.
    pub async fn queue_names(&self) -> Result<Vec<QueueName>, ApiError> {
        #[derive(Deserialize)]
        struct Names {
            total: usize,
            streams: Option<Vec<String>>,
        }
        let (mut seen, mut queues) = (0, Vec::new());
        loop {
            let body = json!({ "offset": seen }).to_string();
            let page: Names = self.read("STREAM.NAMES".into(), body.into()).await?;
            let streams = page.streams.unwrap_or_default();
            seen += streams.len();
            queues.extend(
                streams
                    .iter()
                    .filter_map(|s| self.names().queue_of_stream(s)),
            );
            if streams.is_empty() || seen >= page.total {
                queues.sort();
                return Ok(queues);
            }
        }
    }

    /// Stores a queue's configuration. JetStream's own wait for settlements is changed apart:
    /// see [`Nats::set_ack_wait`].
    ///
    /// # Errors
    /// [`QueueError::Unknown`] when the queue is not there.
    pub async fn update_queue(
        &self,
        queue: &QueueName,
        config: &QueueConfig,
    ) -> Result<(), QueueError> {
        let mut stream = self.stream_info(queue).await?;
        stream.config.insert(
            "duplicate_window".into(),
            json!(nanoseconds(config.dedupe_window)),
        );
        let metadata = stream.config.entry("metadata").or_insert_with(|| json!({}));
        metadata[METADATA] = json!(serde_json::to_string(config).unwrap_or_default());
        self.update_stream(queue, stream.config).await?;
        self.set_dead_retention(queue, config).await?;
        Ok(())
    }

    /// Changes how long JetStream waits for a settlement.
    ///
    /// # Errors
    /// What failed.
    pub async fn set_ack_wait(&self, queue: &QueueName, wait: Duration) -> Result<(), QueueError> {
        let mut config = self.consumer_info(queue).await?.config;
        config.insert("ack_wait".into(), json!(nanoseconds(wait)));
        self.make_consumer(queue, Value::Object(config)).await
    }

    /// Deletes a queue with its jobs and dead letters. One that is gone already will do.
    ///
    /// # Errors
    /// What failed.
    pub async fn delete_queue(&self, queue: &QueueName) -> Result<(), ApiError> {
        for stream in [
            self.names().jobs_stream(queue),
            self.names().dead_stream(queue),
        ] {
            let what = format!("STREAM.DELETE.{stream}");
            match self.read::<Value>(what, Bytes::new()).await {
                Err(error) if error.code() != Some(code::NO_STREAM) => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    async fn stream_info(&self, queue: &QueueName) -> Result<StreamInfo, QueueError> {
        let what = format!("STREAM.INFO.{}", self.names().jobs_stream(queue));
        self.read(what, Bytes::new()).await.map_err(known(queue))
    }

    /// Whether a stream's leader, which just answered, is in touch with most of its nodes.
    pub(crate) async fn in_touch(&self, stream: &str) -> Result<bool, ApiError> {
        let what = format!("STREAM.INFO.{stream}");
        let info: StreamInfo = self.read(what, Bytes::new()).await?;
        Ok(info.cluster.is_none_or(|cluster| cluster.in_touch()))
    }

    async fn consumer_info(&self, queue: &QueueName) -> Result<ConsumerInfo, QueueError> {
        let what = format!(
            "CONSUMER.INFO.{}.{CONSUMER}",
            self.names().jobs_stream(queue)
        );
        self.read(what, Bytes::new()).await.map_err(known(queue))
    }

    async fn update_stream(
        &self,
        queue: &QueueName,
        config: Map<String, Value>,
    ) -> Result<(), QueueError> {
        let what = format!("STREAM.UPDATE.{}", self.names().jobs_stream(queue));
        let body = Value::Object(config).to_string();
        self.read::<Value>(what, body.into())
            .await
            .map(drop)
            .map_err(known(queue))
    }

    /// Makes the consumer, or changes it.
    async fn make_consumer(&self, queue: &QueueName, config: Value) -> Result<(), QueueError> {
        let stream = self.names().jobs_stream(queue);
        let what = format!("CONSUMER.CREATE.{stream}.{CONSUMER}");
        let body = json!({ "stream_name": stream, "config": config });
        self.make::<Value>(what, body.to_string().into())
            .await
            .map(drop)
            .map_err(known(queue))
    }

    /// What changes when deliveries are forgotten, or when they were made. A consumer that was made anew knows
    /// none. With one replica a killed server forgets the last ones: alone it then has another id, in a cluster
    /// its leadership begins anew. With more, a new leader of the consumer knows all deliveries, and takes those
    /// that were not extended since for as old as their jobs.
    fn keeper(&self, stream: &StreamInfo, consumer: &ConsumerInfo) -> String {
        let made = consumer.created;
        let cluster = if replicas(stream) > 1 {
            consumer.cluster.as_ref()
        } else {
            stream.cluster.as_ref()
        };
        match cluster.and_then(|c| c.leader.as_ref().zip(c.leader_since.as_ref())) {
            Some((leader, since)) => format!("{leader} since {since}, consumer of {made}"),
            None => format!("{}, consumer of {made}", self.server_id()),
        }
    }
}

/// An error about a queue, which may be that it is not there.
fn known(queue: &QueueName) -> impl Fn(ApiError) -> QueueError {
    |error| match error.code() {
        Some(code::NO_STREAM | code::NO_CONSUMER) => QueueError::Unknown(queue.clone()),
        Some(_) | None => error.into(),
    }
}

fn stored_config(stream: &StreamInfo) -> QueueConfig {
    let metadata = stream.config.get("metadata").and_then(|m| m.get(METADATA));
    metadata
        .and_then(Value::as_str)
        .and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_default()
}

fn replicas(stream: &StreamInfo) -> usize {
    let replicas = stream
        .config
        .get("num_replicas")
        .and_then(Value::as_u64)
        .unwrap_or(1);
    usize::try_from(replicas).unwrap_or(1)
}

/// A stream that is deleted and made again has another time of making.
fn incarnation(stream: &StreamInfo) -> u64 {
    u64::try_from(stream.created.as_nanosecond()).unwrap_or(0)
}

/// JetStream's unit for durations.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    millis(duration).saturating_mul(1_000_000)
}

fn nanos(value: Option<&Value>) -> Duration {
    Duration::from_nanos(value.and_then(Value::as_u64).unwrap_or(0))
}
