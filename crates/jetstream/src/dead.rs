//! The verbs on one queue's dead letters.

use async_nats::HeaderMap;
use bytes::Bytes;
use keywork_model::{DeadReason, Job, Mark, QueueConfig, QueueName, UnixMillis};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    api::{self, ApiError, Failure, Published},
    codec,
    connect::{ANSWER_WITHIN, Nats},
    jobs::Jobs,
    names::header,
    queues::{QueueError, nanoseconds},
};

/// How long the same death of a job is stored only once. JetStream allows no more than the retention.
const DEDUPE: std::time::Duration = std::time::Duration::from_secs(3_600);

/// One dead letter.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Its sequence among the queue's dead letters.
    pub sequence: u64,
    /// The job as it died.
    pub job: Job,
    /// Why.
    pub reason: DeadReason,
    /// When.
    pub died_at: UnixMillis,
}

#[derive(Deserialize)]
struct Info {
    config: Map<String, Value>,
    state: State,
}

#[derive(Deserialize)]
struct State {
    messages: u64,
}

impl Nats {
    /// Makes the stream of a queue's dead letters where it is not there.
    pub(crate) async fn ensure_dead(
        &self,
        queue: &QueueName,
        config: &QueueConfig,
        replicas: usize,
    ) -> Result<(), ApiError> {
        let stream = self.names().dead_stream(queue);
        let config = json!({
            "name": stream,
            "description": format!("Keywork: the dead letters of queue {queue}"),
            "subjects": [self.names().all_dead(queue)],
            "retention": "limits", "discard": "old", "storage": "file",
            "num_replicas": replicas, "allow_direct": true,
            "max_age": nanoseconds(config.dead_letter_retention),
            // A job may be stored here and its removal from the queue fail for long: it is stored once.
            "duplicate_window": nanoseconds(config.dead_letter_retention.min(DEDUPE)),
        });
        self.ensure_stream(&stream, &config).await
    }

    /// Keeps dead letters as long as the queue's configuration says.
    pub(crate) async fn set_dead_retention(
        &self,
        queue: &QueueName,
        config: &QueueConfig,
    ) -> Result<(), QueueError> {
        let stream = self.names().dead_stream(queue);
        let info = self.read::<Info>(format!("STREAM.INFO.{stream}"), Bytes::new());
        let Some(info) = unless_deleted(info.await)? else {
            return Ok(self.restore_beside(queue).await?);
        };
        let mut wanted = info.config;
        let age = json!(nanoseconds(config.dead_letter_retention));
        if wanted.insert("max_age".into(), age.clone()) == Some(age) {
            return Ok(());
        }
        let window = config.dead_letter_retention.min(DEDUPE);
        wanted.insert("duplicate_window".into(), json!(nanoseconds(window)));
        let body = Value::Object(wanted).to_string();
        self.read::<Value>(format!("STREAM.UPDATE.{stream}"), body.into())
            .await?;
        Ok(())
    }

    /// How many dead letters a queue has.
    ///
    /// # Errors
    /// What failed.
    pub async fn count_dead(&self, queue: &QueueName) -> Result<u64, ApiError> {
        let stream = self.names().dead_stream(queue);
        let info = self.read::<Info>(format!("STREAM.INFO.{stream}"), Bytes::new());
        Ok(unless_deleted(info.await)?.map_or(0, |info| info.state.messages))
    }
}

/// A stream that somebody deleted holds nothing.
fn unless_deleted<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.no_stream() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Jobs {
    fn dead_stream(&self) -> String {
        self.nats().names().dead_stream(self.queue())
    }

    /// Stores a doomed job among the dead letters. Storing the same one again within an hour changes
    /// nothing.
    ///
    /// # Errors
    /// What failed; try again.
    pub async fn bury(
        &self,
        subject: &str,
        sequence: u64,
        job: &Job,
        reason: DeadReason,
    ) -> Result<(), ApiError> {
        let mut headers = codec::encode(
            &Job {
                mark: Mark::None,
                ..job.clone()
            },
            true,
        );
        headers.insert(header::REASON, reason.as_str());
        headers.insert(header::MSG_ID, format!("{}.{sequence}", job.id));
        let subject = self.nats().names().dead(self.queue(), subject);
        let payload = job.payload.clone();
        match self.publish_beside(subject, headers, payload).await? {
            Published::Stored(_) | Published::Duplicate(_) | Published::InFlight => Ok(()),
            Published::Failed(failure) => Err(failure.into()),
            Published::Refused(refusal) | Published::Full(refusal) => Err(refusal.into()),
            Published::KeyBusy | Published::WrongLast(_) => Err(ApiError::Unreadable(
                "the stream of dead letters refused one".into(),
            )),
        }
    }

    /// Publishes to a stream beside the jobs. One that does not answer may have been deleted: then it is made
    /// again.
    pub(crate) async fn publish_beside(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Published, ApiError> {
        let publishing = self.nats().publishing();
        let publish = || {
            let (subject, headers, payload) = (subject.clone(), headers.clone(), payload.clone());
            publishing.request(subject, Some(headers), payload, ANSWER_WITHIN)
        };
        let published = publish().await.published();
        if published != Published::Failed(Failure::NoResponders) {
            return Ok(published);
        }
        self.nats().restore_beside(self.queue()).await?;
        Ok(publish().await.published())
    }

    /// The first dead letter at or after a sequence; of one key, where a subject is given.
    ///
    /// # Errors
    /// What failed.
    pub async fn dead_from(
        &self,
        sequence: u64,
        job_subject: Option<&str>,
    ) -> Result<Option<DeadLetter>, ApiError> {
        let names = self.nats().names();
        let subject = job_subject.map_or_else(
            || names.all_dead(self.queue()),
            |s| names.dead(self.queue(), s),
        );
        self.dead(json!({ "seq": sequence.max(1), "next_by_subj": subject }))
            .await
    }

    /// One dead letter.
    ///
    /// # Errors
    /// What failed.
    pub async fn dead_letter(&self, sequence: u64) -> Result<Option<DeadLetter>, ApiError> {
        self.dead(json!({ "seq": sequence })).await
    }

    async fn dead(&self, body: Value) -> Result<Option<DeadLetter>, ApiError> {
        let stream = self.dead_stream();
        let found = self.nats().message_twice(&stream, &body).await;
        let Some(raw) = unless_deleted(found)?.flatten() else {
            return Ok(None);
        };
        let (headers, payload, died_at) = (raw.headers()?, raw.payload()?, raw.stored_at());
        let reason = headers
            .get(header::REASON)
            .and_then(|r| DeadReason::from_name(r.as_str()));
        let stored = self.stored_from(raw.subject, raw.sequence, died_at, &headers, payload);
        Ok(Some(DeadLetter {
            sequence: raw.sequence,
            job: stored.job,
            reason: reason.unwrap_or(DeadReason::Failed),
            died_at,
        }))
    }

    /// Deletes one dead letter. Answers whether it was there.
    ///
    /// # Errors
    /// What failed.
    pub async fn delete_dead(&self, sequence: u64) -> Result<bool, ApiError> {
        #[derive(Deserialize)]
        struct Success {
            success: bool,
        }
        let what = format!("STREAM.MSG.DELETE.{}", self.dead_stream());
        let body = json!({ "seq": sequence, "no_erase": true }).to_string();
        let answer = self.nats().change::<Success>(what, body.into()).await;
        Ok(unless_deleted(api::found(answer))?
            .flatten()
            .is_some_and(|a| a.success))
    }

    /// Deletes all dead letters. Answers how many.
    ///
    /// # Errors
    /// What failed.
    pub async fn purge_dead(&self) -> Result<u64, ApiError> {
        #[derive(Deserialize)]
        struct Purged {
            purged: u64,
        }
        let what = format!("STREAM.PURGE.{}", self.dead_stream());
        let answer = self.nats().change::<Purged>(what, Bytes::new()).await;
        Ok(unless_deleted(answer)?.map_or(0, |a| a.purged))
    }
}
