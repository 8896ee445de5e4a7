//! One connection, its inbox, and what comes back through it.

use async_nats::{Client, ConnectOptions, Message, Subject, Subscriber};
use bytes::Bytes;
use futures::{StreamExt, stream::ReadyChunks};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Error;

const CONSUMER: &str = "workers";
const CHUNK: usize = 512;
/// What JetStream says of a publish on a subject that holds its one message.
const STORE_FAILED: u32 = 10077;

/// A connection to nats-server, with a stream that is like one of Keywork's.
#[derive(Debug)]
pub(crate) struct Wire {
    client: Client,
    stream: String,
    inbox: String,
    arriving: ReadyChunks<Subscriber>,
}

/// One thing that came back.
#[derive(Debug)]
pub(super) enum Arrival {
    /// The publish of this number was stored.
    Stored(u64),
    /// The publish of this number was rejected: its subject is taken.
    Busy(u64),
    /// A message of so many bytes, and where to acknowledge it.
    Delivery(usize, Subject),
    /// The ack of this number is confirmed.
    Acked(u64),
    /// A pull ended before it was filled.
    PullEnded,
}

#[derive(Deserialize)]
struct PubAck {
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    err_code: u32,
}

impl Wire {
    /// Connects and makes the stream and its consumer.
    pub(crate) async fn open(url: &str, stream: &str) -> Result<Self, Error> {
        let options = ConnectOptions::new()
            .subscription_capacity(262_144)
            .client_capacity(16_384);
        let client = options.connect(url).await.map_err(Error::nats)?;
        let inbox = client.new_inbox();
        let answers = client.subscribe(format!("{inbox}.>")).await;
        let wire = Self {
            client,
            stream: stream.into(),
            inbox,
            arriving: answers.map_err(Error::nats)?.ready_chunks(CHUNK),
        };
        wire.make_stream().await?;
        Ok(wire)
    }

    /// Deletes the stream.
    pub(crate) async fn close(self) -> Result<(), Error> {
        self.call(format!("STREAM.DELETE.{}", self.stream), Bytes::new())
            .await
    }

    async fn make_stream(&self) -> Result<(), Error> {
        let stream = &self.stream;
        let config = json!({
            "name": stream, "subjects": [format!("{stream}.*")], "retention": "workqueue",
            "max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": true,
            "storage": "file", "num_replicas": 1, "allow_direct": true, "allow_rollup_hdrs": true,
            "duplicate_window": 120_000_000_000_u64,
        });
        self.call(format!("STREAM.CREATE.{stream}"), config.to_string().into())
            .await?;
        let consumer = json!({
            "stream_name": stream,
            "config": {
                "name": CONSUMER, "durable_name": CONSUMER, "ack_policy": "explicit",
                "ack_wait": 18_000_000_000_u64, "max_deliver": -1, "max_ack_pending": -1,
                "deliver_policy": "all", "replay_policy": "instant",
            },
        });
        self.call(
            format!("CONSUMER.CREATE.{stream}.{CONSUMER}"),
            consumer.to_string().into(),
        )
        .await
    }

    async fn call(&self, what: String, body: Bytes) -> Result<(), Error> {
        let answer = self
            .client
            .request(format!("$JS.API.{what}"), body)
            .await
            .map_err(Error::nats)?;
        let value: Value = serde_json::from_slice(&answer.payload).map_err(Error::nats)?;
        match value.get("error") {
            None => Ok(()),
            Some(error) => Err(Error::Nats(format!("{what}: {error}"))),
        }
    }

    /// Publishes under a key. The answer carries `number`.
    pub(super) async fn publish(
        &self,
        key: &str,
        number: u64,
        payload: Bytes,
    ) -> Result<(), Error> {
        let subject = format!("{}.{key}", self.stream);
        let reply = format!("{}.p.{number}", self.inbox);
        let sent = self.client.publish_with_reply(subject, reply, payload);
        sent.await.map_err(Error::nats)
    }

    /// Acknowledges a delivery. The answer carries `number`.
    pub(super) async fn ack(&self, delivery: Subject, number: u64) -> Result<(), Error> {
        let reply = format!("{}.a.{number}", self.inbox);
        let body = Bytes::from_static(b"+ACK");
        let sent = self.client.publish_with_reply(delivery, reply, body);
        sent.await.map_err(Error::nats)
    }

    /// Asks for up to `count` messages.
    pub(super) async fn pull(&self, count: u64) -> Result<(), Error> {
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{CONSUMER}", self.stream);
        let body = json!({ "batch": count, "expires": 30_000_000_000_u64 }).to_string();
        let reply = format!("{}.d.0", self.inbox);
        let sent = self.client.publish_with_reply(subject, reply, body.into());
        sent.await.map_err(Error::nats)
    }

    /// Waits for something and takes all that is there.
    pub(super) async fn arrivals(&mut self) -> Result<Vec<Arrival>, Error> {
        let chunk = self.arriving.next().await;
        let chunk = chunk.ok_or_else(|| Error::nats("the connection is closed"))?;
        chunk.into_iter().map(|m| self.arrival(m)).collect()
    }

    fn arrival(&self, message: Message) -> Result<Arrival, Error> {
        let Some(tail) = message.subject.strip_prefix(&self.inbox) else {
            let reply = message.reply;
            let reply = reply.ok_or_else(|| Error::wrong("a delivery that cannot be acked"))?;
            return Ok(Arrival::Delivery(message.payload.len(), reply));
        };
        let number = |text: &str| text.parse().map_err(|_| Error::wrong(tail));
        match tail.split_at_checked(3) {
            Some((".p.", n)) => published(&message, number(n)?),
            Some((".a.", n)) => Ok(Arrival::Acked(number(n)?)),
            Some(_) | None => Ok(Arrival::PullEnded),
        }
    }
}

fn published(message: &Message, number: u64) -> Result<Arrival, Error> {
    let ack: PubAck = serde_json::from_slice(&message.payload).map_err(Error::nats)?;
    match ack.error {
        None => Ok(Arrival::Stored(number)),
        Some(Refusal {
            err_code: STORE_FAILED,
        }) => Ok(Arrival::Busy(number)),
        Some(Refusal { err_code }) => Err(Error::Nats(format!("err_code {err_code}"))),
    }
}
