//! The verbs on one queue's stream of jobs.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use keywork_model::{Job, JobKey, QueueName, UnixMillis};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    api::{self, ApiError, Failure, Published},
    codec::{self, Fields, Origin},
    connect::{ANSWER_WITHIN, Nats, REPEAT_FOR},
    digits,
    message::{MessageAnswer, RawMessage},
    names::{CONSUMER, header},
    queues::{QueueError, QueueInfo, UNKNOWN_LOOKS, UNKNOWN_PAUSE},
    requester::Ticket,
};

/// How long an extension's answer is waited for: later it would not hold the lease any more.
const EXTEND_WITHIN: Duration = Duration::from_secs(2);
/// How long one try may take where several nodes keep the queue. While leaders move, what is asked is lost
/// without a word, and has to be asked again: soon, for a worker waits, and its place with it.
const TRY_WITHIN: Duration = Duration::from_millis(1_500);

/// One queue's stream of jobs.
#[derive(Clone, Debug)]
pub struct Jobs {
    nats: Nats,
    queue: QueueName,
    stream: String,
    /// What the subjects of this queue's acks begin with.
    acks: String,
    incarnation: u64,
    replicas: usize,
}

/// A job where it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its subject.
    pub subject: String,
    /// Its sequence.
    pub sequence: u64,
    /// The sequence whose place it took.
    pub from: Option<u64>,
    /// What the re-seat that wrote it called itself.
    pub nonce: String,
    /// The job.
    pub job: Job,
}

/// What became of a re-seat.
#[derive(Clone, Debug)]
pub enum Reseated {
    /// The job has this new sequence.
    Now(u64),
    /// The old sequence is not the key's last any more: this is.
    Lost(Box<Stored>),
    /// The key holds nothing.
    Gone,
}

impl Jobs {
    pub(crate) fn new(nats: Nats, queue: QueueName, incarnation: u64, replicas: usize) -> Self {
        let stream = nats.names().jobs_stream(&queue);
        Self {
            nats,
            queue,
            acks: format!("$JS.ACK.{stream}.{CONSUMER}."),
            stream,
            incarnation,
            replicas,
        }
    }

    /// The queue.
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// The connections.
    pub fn nats(&self) -> &Nats {
        &self.nats
    }

    /// Which making of the stream this is.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// How many nodes keep it.
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    /// Whether more than one node keeps it: what settles and what excludes what differs then.
    pub fn replicated(&self) -> bool {
        self.replicas > 1
    }

    /// How long one try of what may be repeated may take.
    fn try_within(&self) -> Duration {
        if self.replicated() {
            TRY_WITHIN
        } else {
            ANSWER_WITHIN
        }
    }

    /// The subject of a key's job.
    pub fn subject(&self, key: &JobKey) -> String {
        self.nats.names().job(&self.queue, key)
    }

    pub(crate) fn stream(&self) -> &str {
        &self.stream
    }

    /// The queue as it is now.
    ///
    /// # Errors
    /// What failed.
    pub async fn info(&self) -> Result<QueueInfo, QueueError> {
        let mut info = self.nats.queue_info(&self.queue).await;
        let looks = if self.replicated() { UNKNOWN_LOOKS } else { 0 };
        for _ in 0..looks {
            if !matches!(info, Err(QueueError::Unknown(_))) {
                break;
            }
            sleep(UNKNOWN_PAUSE).await;
            info = self.nats.queue_info(&self.queue).await;
        }
        info
    }

    /// Offers a new job; the answer is a [`crate::Reply::published`]. With `dedupe`, JetStream
    /// remembers that id for its window.
    pub fn submit(&self, ticket: Ticket, subject: String, job: &Job, dedupe: Option<String>) {
        let mut headers = codec::encode(job, false);
        if let Some(id) = dedupe {
            headers.insert(header::MSG_ID, id);
        }
        let payload = job.payload.clone();
        self.nats
            .publishing()
            .send(ticket, subject, Some(headers), payload, ANSWER_WITHIN);
    }

    /// Offers a new job and waits for the answer.
    pub async fn submit_now(
        &self,
        subject: String,
        job: &Job,
        dedupe: Option<String>,
    ) -> Published {
        let mut headers = codec::encode(job, false);
        if let Some(id) = dedupe {
            headers.insert(header::MSG_ID, id);
        }
        let (publishing, payload) = (self.nats.publishing(), job.payload.clone());
        publishing
            .request(subject, Some(headers), payload, ANSWER_WITHIN)
            .await
            .published()
    }

    /// Whether JetStream remembers a dedupe id, and from which sequence. It is asked by a publish that it
    /// refuses otherwise: the front message's subject is always taken, and ids are looked at first.
    ///
    /// # Errors
    /// What failed.
    pub async fn remembered(&self, dedupe: &str) -> Result<Option<u64>, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(header::MSG_ID, dedupe);
        let subject = self.nats.names().front(&self.queue);
        let publishing = self.nats.publishing();
        let reply = publishing
            .request(subject, Some(headers), Bytes::new(), ANSWER_WITHIN)
            .await;
        match reply.published() {
            Published::Duplicate(sequence) => Ok(Some(sequence)),
            Published::Failed(failure) => Err(failure),
            Published::Stored(_)
            | Published::KeyBusy
            | Published::Full(_)
            | Published::WrongLast(_)
            | Published::InFlight
            | Published::Refused(_) => Ok(None),
        }
    }

    /// Acknowledges a delivery; the answer is a [`crate::Reply::acked`].
    pub fn ack(&self, ticket: Ticket, sequence: u64, consumer_sequence: u64) {
        let subject = self.ack_subject(sequence, consumer_sequence);
        let body = Bytes::from_static(b"+ACK");
        self.nats
            .settling()
            .send(ticket, subject, None, body, ANSWER_WITHIN);
    }

    /// Extends a delivery; the answer is a [`crate::Reply::acked`]. The answer alone does not
    /// prove that the lease holds: it must also come before the deadline.
    pub fn extend(&self, ticket: Ticket, sequence: u64, consumer_sequence: u64) {
        let subject = self.ack_subject(sequence, consumer_sequence);
        let body = Bytes::from_static(b"+WPI");
        self.nats
            .settling()
            .send(ticket, subject, None, body, EXTEND_WITHIN);
    }

    /// Extends a delivery and waits for the answer.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn extend_now(&self, sequence: u64, consumer_sequence: u64) -> Result<(), Failure> {
        let subject = self.ack_subject(sequence, consumer_sequence);
        let body = Bytes::from_static(b"+WPI");
        self.nats
            .settling()
            .request(subject, None, body, EXTEND_WITHIN)
            .await
            .acked()
    }

    /// Asks for a delivery again after `delay`. Only for a job that has a not-before time: a lost
    /// request costs one wait, and the header is looked at again.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn deliver_later(
        &self,
        sequence: u64,
        consumer_sequence: u64,
        count: u64,
        delay: Duration,
    ) -> Result<(), Failure> {
        let subject = self.ack_subject_of(sequence, consumer_sequence, count);
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let body = format!("-NAK {{\"delay\": {nanos}}}");
        self.nats
            .settling()
            .request(subject, None, body.into(), ANSWER_WITHIN)
            .await
            .acked()
    }

    /// Deletes a sequence; the answer is a [`crate::Reply::deleted`].
    pub fn delete(&self, ticket: Ticket, sequence: u64) {
        let (subject, body) = self.delete_request(sequence);
        self.nats
            .settling()
            .send(ticket, subject, None, body, self.try_within());
    }

    /// Deletes a sequence, repeating while nobody answers. Answers whether it was there.
    ///
    /// # Errors
    /// What failed.
    pub async fn delete_now(&self, sequence: u64) -> Result<bool, ApiError> {
        let until = Instant::now() + REPEAT_FOR;
        loop {
            let (subject, body) = self.delete_request(sequence);
            let reply = self
                .nats
                .settling()
                .request(subject, None, body, self.try_within())
                .await;
            match reply.deleted() {
                Err(ApiError::Failed(_)) if Instant::now() < until => {
                    sleep(Duration::from_millis(50)).await;
                }
                answer => return answer,
            }
        }
    }

    fn delete_request(&self, sequence: u64) -> (String, Bytes) {
        let body = json!({ "seq": sequence, "no_erase": true }).to_string();
        (
            format!("$JS.API.STREAM.MSG.DELETE.{}", self.stream),
            body.into(),
        )
    }

    /// Removes all jobs up to and with this sequence. Answers how many.
    ///
    /// # Errors
    /// What failed.
    pub async fn purge(&self, up_to: u64) -> Result<u64, QueueError> {
        #[derive(Deserialize)]
        struct Purged {
            purged: u64,
        }
        let what = format!("STREAM.PURGE.{}", self.stream);
        let filter = self.nats.names().all_jobs(&self.queue);
        let body = json!({ "seq": up_to + 1, "filter": filter }).to_string();
        Ok(self.nats.change::<Purged>(what, body.into()).await?.purged)
    }

    /// Reads what a key holds, from the leader.
    ///
    /// # Errors
    /// What failed.
    pub async fn read_key(&self, subject: &str) -> Result<Option<Stored>, ApiError> {
        self.read(json!({ "last_by_subj": subject })).await
    }

    /// Reads what a key holds; nothing is believed only after a second look.
    ///
    /// # Errors
    /// What failed.
    pub async fn read_key_twice(&self, subject: &str) -> Result<Option<Stored>, ApiError> {
        self.read_twice(json!({ "last_by_subj": subject })).await
    }

    async fn read_twice(&self, body: serde_json::Value) -> Result<Option<Stored>, ApiError> {
        let found = self.read(body.clone()).await?;
        if found.is_some() || !self.replicated() {
            return Ok(found);
        }
        let look = || self.read(body.clone());
        self.nats.look_again(&self.stream, look).await
    }

    /// Reads one sequence, from the leader; nothing is believed only after a second look.
    ///
    /// # Errors
    /// What failed.
    pub async fn read_sequence(&self, sequence: u64) -> Result<Option<Stored>, ApiError> {
        self.read_twice(json!({ "seq": sequence })).await
    }

    /// Reads the first message at or after a sequence.
    ///
    /// # Errors
    /// What failed.
    pub async fn read_from(&self, sequence: u64) -> Result<Option<Stored>, ApiError> {
        let all = self.nats.names().all_jobs(&self.queue);
        self.read(json!({ "seq": sequence, "next_by_subj": all }))
            .await
    }

    async fn read(&self, body: serde_json::Value) -> Result<Option<Stored>, ApiError> {
        let subject = format!("$JS.API.STREAM.MSG.GET.{}", self.stream);
        let body = Bytes::from(body.to_string());
        let until = Instant::now() + ANSWER_WITHIN;
        let answer = loop {
            let publishing = self.nats.publishing();
            let reply = publishing
                .request(subject.clone(), None, body.clone(), self.try_within())
                .await;
            match reply.json::<MessageAnswer>() {
                Err(ApiError::Failed(Failure::NoResponders | Failure::TimedOut))
                    if Instant::now() < until =>
                {
                    sleep(Duration::from_millis(50)).await;
                }
                answer => break answer,
            }
        };
        api::found(answer)?
            .map(|answer| self.stored(answer.message))
            .transpose()
    }

    fn stored(&self, raw: RawMessage) -> Result<Stored, ApiError> {
        let (headers, payload, stored_at) = (raw.headers()?, raw.payload()?, raw.stored_at());
        Ok(self.stored_from(raw.subject, raw.sequence, stored_at, &headers, payload))
    }

    pub(crate) fn stored_from(
        &self,
        subject: String,
        sequence: u64,
        stored_at: UnixMillis,
        headers: &HeaderMap,
        payload: Bytes,
    ) -> Stored {
        let origin = Origin {
            subject: &subject,
            incarnation: self.incarnation,
            sequence,
            stored_at,
        };
        let fields = Fields::of(headers);
        let job = codec::decode(origin, &fields, payload);
        Stored {
            sequence,
            from: fields.from.and_then(|n| n.parse().ok()),
            nonce: fields.nonce.unwrap_or_default().into(),
            job,
            subject,
        }
    }

    /// Replaces the job at sequence `from` by `job`, atomically: the key is never free between them,
    /// and whatever is said of the old sequence afterwards changes nothing.
    ///
    /// # Errors
    /// What failed. The re-seat may still happen when that is a time-out.
    pub async fn reseat(
        &self,
        subject: &str,
        from: u64,
        job: &Job,
        nonce: &str,
    ) -> Result<Reseated, ApiError> {
        let mut headers = codec::encode(job, true);
        headers.insert(header::FROM, from.to_string());
        headers.insert(header::NONCE, nonce);
        headers.insert(header::ROLLUP, "sub");
        headers.insert(header::EXPECTED_LAST, from.to_string());
        let until = Instant::now() + REPEAT_FOR;
        let mut pause = Duration::from_millis(2);
        loop {
            let (headers, payload) = (headers.clone(), job.payload.clone());
            let publishing = self.nats.publishing();
            let reply = publishing
                .request(subject.into(), Some(headers), payload, self.try_within())
                .await;
            let failed: ApiError = match reply.published() {
                Published::Stored(sequence) => return Ok(Reseated::Now(sequence)),
                Published::WrongLast(_) | Published::Duplicate(_) => {
                    return self.who_took(subject, nonce).await;
                }
                Published::InFlight => Failure::TimedOut.into(),
                Published::Failed(failure) => failure.into(),
                Published::Refused(refusal) | Published::Full(refusal) => {
                    return Err(refusal.into());
                }
                Published::KeyBusy => {
                    return Err(ApiError::Unreadable("the key is busy in itself".into()));
                }
            };
            if Instant::now() >= until {
                return Err(failed);
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Whose re-seat won: an earlier try of the same one is told by its nonce.
    async fn who_took(&self, subject: &str, nonce: &str) -> Result<Reseated, ApiError> {
        Ok(match self.read_key_twice(subject).await? {
            None => Reseated::Gone,
            Some(stored) if stored.nonce == nonce => Reseated::Now(stored.sequence),
            Some(stored) => Reseated::Lost(Box::new(stored)),
        })
    }

    /// JetStream looks at the numbers alone, so an ack's subject is made from them and never taken
    /// from a client. A lease is always a first delivery.
    fn ack_subject(&self, sequence: u64, consumer_sequence: u64) -> String {
        self.ack_subject_of(sequence, consumer_sequence, 1)
    }

    fn ack_subject_of(&self, sequence: u64, consumer_sequence: u64, count: u64) -> String {
        let mut subject = String::with_capacity(self.acks.len() + 48);
        subject.push_str(&self.acks);
        digits::push(&mut subject, count);
        subject.push('.');
        digits::push(&mut subject, sequence);
        subject.push('.');
        digits::push(&mut subject, consumer_sequence);
        subject.push_str(".0.0");
        subject
    }
}
