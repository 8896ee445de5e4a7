//! Pulling deliveries of one queue.
//!
//! The inbox also carries a mark that this server sends to itself several times a second. NATS keeps the
//! order of what it sends on one connection, so whatever arrives after a mark was delivered after the mark
//! was sent: that gives each delivery a time before which it cannot have been made, however long this
//! process or its buffers stood still. Deadlines count from there.

use std::{collections::VecDeque, time::Duration};

use async_nats::{Message, StatusCode, SubscribeError, Subscriber};
use futures::{StreamExt, stream::ReadyChunks};
use keywork_model::UnixMillis;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    digits,
    jobs::{Jobs, Stored},
    names::CONSUMER,
    queues::nanoseconds,
};

/// How often [`QueuePulls::tick`] should be called.
pub const TICK: Duration = Duration::from_millis(200);
/// How long a pull waits at JetStream. A pull that was sent while the consumer had no leader is lost without a
/// word, and nothing is asked for in its place until it counts as over: so not for long.
const EXPIRES: Duration = Duration::from_secs(2);
/// When a pull of which nothing was heard counts as over.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3);
const CHUNK: usize = 512;
/// Most bytes of one pull, where no single message may be larger. nats-server closes a connection that has more than
/// 64 MiB to read, and what was on its way then waits for a whole AckWait and costs an attempt.
const PULL_BYTES: usize = 8 << 20;
/// What a message may have besides its payload and headers: its subject, which no limit of NATS counts.
const SUBJECT_BYTES: usize = 4 << 10;

/// One delivery.
#[derive(Debug)]
pub struct Delivery {
    /// The job.
    pub stored: Stored,
    /// The delivery's own sequence.
    pub consumer_sequence: u64,
    /// How often this sequence was delivered, this time included.
    pub count: u64,
    /// How many more JetStream had then that were never delivered.
    pub pending: u64,
    /// It was not delivered before this.
    pub not_before: Instant,
    /// Which connection it came over: see [`crate::Nats::epoch`].
    pub epoch: u64,
}

struct Pull {
    id: u64,
    remaining: usize,
    until: Instant,
}

/// The pulls of one queue on one server.
pub struct QueuePulls {
    jobs: Jobs,
    inbox: String,
    arriving: ReadyChunks<Subscriber>,
    base: Instant,
    not_before: Instant,
    epoch: u64,
    next: u64,
    pulls: VecDeque<Pull>,
}

impl std::fmt::Debug for QueuePulls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueuePulls")
            .field("inbox", &self.inbox)
            .finish_non_exhaustive()
    }
}

impl QueuePulls {
    /// Opens the inbox.
    ///
    /// # Errors
    /// Why there is no subscription.
    pub async fn open(jobs: Jobs) -> Result<Self, SubscribeError> {
        let client = jobs.nats().pulling();
        let inbox = client.new_inbox();
        let arriving = client
            .subscribe(format!("{inbox}.*"))
            .await?
            .ready_chunks(CHUNK);
        let (base, epoch) = (Instant::now(), jobs.nats().epoch());
        let pulls = VecDeque::new();
        Ok(Self {
            jobs,
            inbox,
            arriving,
            base,
            not_before: base,
            epoch,
            next: 0,
            pulls,
        })
    }

    /// How many jobs are asked for and have not come.
    pub fn asked(&self) -> usize {
        self.pulls.iter().map(|pull| pull.remaining).sum()
    }

    /// Asks for up to `count` jobs. With `wait` unset JetStream answers at once.
    pub async fn ask(&mut self, count: usize, wait: bool) {
        if count == 0 || !self.jobs.nats().publishing().connected() {
            return;
        }
        self.mark().await;
        self.next += 1;
        let id = self.next;
        let bytes = self.most_bytes();
        let body = if wait {
            json!({ "batch": count, "max_bytes": bytes, "expires": nanoseconds(EXPIRES) })
        } else {
            json!({ "batch": count, "max_bytes": bytes, "no_wait": true })
        };
        let subject = format!(
            "$JS.API.CONSUMER.MSG.NEXT.{}.{CONSUMER}",
            self.jobs.stream()
        );
        let (client, reply) = (self.jobs.nats().pulling(), format!("{}.{id}", self.inbox));
        match client
            .publish_with_reply(subject, reply, body.to_string().into())
            .await
        {
            Ok(()) => {
                let until = Instant::now() + FORGOTTEN_AFTER;
                self.pulls.push_back(Pull {
                    id,
                    remaining: count,
                    until,
                });
            }
            Err(error) => tracing::debug!(%error, "failed to ask for jobs"),
        }
    }

    /// The bytes of one pull: the largest message that NATS takes always fits.
    fn most_bytes(&self) -> usize {
        let largest = self.jobs.nats().pulling().server_info().max_payload;
        PULL_BYTES.max(largest) + SUBJECT_BYTES
    }

    /// Sends a mark while jobs may come, and forgets pulls that nothing was heard of.
    pub async fn tick(&mut self) {
        let now = Instant::now();
        self.pulls.retain(|pull| pull.until > now);
        self.notice_reconnect();
        if !self.pulls.is_empty() {
            self.mark().await;
        }
    }

    async fn mark(&self) {
        let sent = u64::try_from(self.base.elapsed().as_micros()).unwrap_or(0);
        let body = sent.to_be_bytes().to_vec().into();
        let subject = format!("{}.mark", self.inbox);
        if let Err(error) = self.jobs.nats().pulling().publish(subject, body).await {
            tracing::debug!(%error, "failed to send a mark");
        }
    }

    /// Waits for deliveries and takes all that are there. Can be dropped while it waits, and loses
    /// nothing. `None`: the inbox is closed.
    pub async fn ready(&mut self) -> Option<Vec<Delivery>> {
        let chunk = self.arriving.next().await?;
        // Looked at after the chunk was read: what came over an older connection counts as of the newer one.
        self.notice_reconnect();
        let mut deliveries = Vec::with_capacity(chunk.len());
        for message in chunk {
            match message.subject.strip_prefix(&self.inbox) {
                // A delivery keeps the subject that it was stored under.
                None => {
                    self.count_delivery();
                    deliveries.extend(self.delivery(message));
                }
                Some(".mark") => self.not_before = self.mark_of(&message),
                Some(id) => self.ended(id, message.status),
            }
        }
        Some(deliveries)
    }

    /// A new connection knows nothing of the pulls that went over an older one.
    fn notice_reconnect(&mut self) {
        let epoch = self.jobs.nats().epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.pulls.clear();
        }
    }

    /// JetStream serves the oldest pull first.
    fn count_delivery(&mut self) {
        if let Some(pull) = self.pulls.front_mut() {
            pull.remaining -= 1;
            if pull.remaining == 0 {
                self.pulls.pop_front();
            }
        }
    }

    /// Whatever JetStream says of a pull but a heartbeat, and we ask for none, means that it is over.
    fn ended(&mut self, id: &str, status: Option<StatusCode>) {
        tracing::trace!(?status, id, "a pull ended");
        let id = id.trim_start_matches('.').parse().unwrap_or(0);
        self.pulls.retain(|pull| pull.id != id);
    }

    fn mark_of(&self, message: &Message) -> Instant {
        let sent = message
            .payload
            .as_ref()
            .try_into()
            .map_or(0, u64::from_be_bytes);
        (self.base + Duration::from_micros(sent)).max(self.not_before)
    }

    fn delivery(&self, message: Message) -> Option<Delivery> {
        let numbers = AckNumbers::parse(message.reply.as_deref()?)?;
        let headers = message.headers.unwrap_or_default();
        let stored = self.jobs.stored_from(
            message.subject.into_string(),
            numbers.sequence,
            numbers.stored_at,
            &headers,
            message.payload,
        );
        Some(Delivery {
            stored,
            consumer_sequence: numbers.consumer_sequence,
            count: numbers.count,
            pending: numbers.pending,
            not_before: self.not_before,
            epoch: self.epoch,
        })
    }
}

/// What the reply subject of a delivery says.
#[derive(Debug, PartialEq, Eq)]
struct AckNumbers {
    count: u64,
    sequence: u64,
    consumer_sequence: u64,
    stored_at: UnixMillis,
    pending: u64,
}

impl AckNumbers {
    /// `$JS.ACK.<stream>.<consumer>.<count>.<sequence>.<consumer sequence>.<time>.<pending>`; a newer form
    /// has a domain and an account before the stream, and a random token at the end.
    fn parse(reply: &str) -> Option<Self> {
        let reply = reply.as_bytes();
        let dots = reply.iter().filter(|byte| **byte == b'.').count();
        let first = if dots >= 10 { 6 } else { 4 };
        let mut numbers = reply.split(|byte| *byte == b'.').skip(first);
        let mut number = || digits::parse(numbers.next()?);
        Some(Self {
            count: number()?,
            sequence: number()?,
            consumer_sequence: number()?,
            stored_at: UnixMillis(number()? / 1_000_000),
            pending: number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_reply_subject_are_read() {
        let numbers = AckNumbers {
            count: 2,
            sequence: 17,
            consumer_sequence: 5,
            stored_at: UnixMillis(9),
            pending: 3,
        };
        let short = AckNumbers::parse("$JS.ACK.WORK_q.workers.2.17.5.9000000.3");
        let long = AckNumbers::parse("$JS.ACK._.hash.WORK_q.workers.2.17.5.9000000.3.rnd");
        assert_eq!(short.as_ref(), Some(&numbers));
        assert_eq!(long.as_ref(), Some(&numbers));
        assert_eq!(AckNumbers::parse("_INBOX.x"), None);
    }
}
