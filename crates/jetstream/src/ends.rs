//! Records that a re-seated job ended, for queues with one replica.
//!
//! There a re-seated and ended job can come back when nats-server is killed: the message that the
//! re-seat replaced leaves no trace on disk for about two minutes. Before such a job is removed its
//! last sequence is recorded under its key; after a restart, whatever is stored at or below a recorded
//! sequence is deleted. Sequences of a key only grow, so a later job of the key is never touched.

use async_nats::HeaderMap;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use crate::{
    api::{ApiError, Published},
    connect::Nats,
    jobs::Jobs,
    names::{header, key_token},
    queues::nanoseconds,
};

const KEEP: std::time::Duration = std::time::Duration::from_secs(600);
const AT_ONCE: usize = 64;

impl Nats {
    /// Makes the stream of end records where it is not there.
    pub(crate) async fn ensure_ends(&self) -> Result<(), ApiError> {
        let stream = self.names().ends_stream();
        let config = json!({
            "name": stream, "subjects": [self.names().all_ends()], "retention": "limits",
            "max_msgs_per_subject": 1, "max_age": nanoseconds(KEEP), "storage": "file",
            "num_replicas": 1, "discard": "old",
        });
        self.ensure_stream(&stream, &config).await
    }
}

impl Jobs {
    /// Records that the key's job at `sequence` is about to be removed.
    ///
    /// # Errors
    /// What failed: then it must not be removed yet.
    pub async fn record_end(&self, subject: &str, sequence: u64) -> Result<(), ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ENDED, sequence.to_string());
        let subject = self.nats().names().end(self.queue(), subject);
        match self.publish_beside(subject, headers, Bytes::new()).await? {
            Published::Stored(_) | Published::Duplicate(_) => Ok(()),
            Published::Failed(failure) => Err(failure.into()),
            Published::Refused(refusal) | Published::Full(refusal) => Err(refusal.into()),
            Published::KeyBusy | Published::WrongLast(_) | Published::InFlight => Err(
                ApiError::Unreadable("the stream of end records refused one".into()),
            ),
        }
    }

    /// Deletes every stored job whose end is recorded. Answers how many.
    ///
    /// # Errors
    /// What failed.
    pub async fn delete_ended(&self) -> Result<usize, ApiError> {
        let ends = self.recorded_ends().await?;
        let deleted: Vec<bool> = stream::iter(ends)
            .map(|(token, ended)| self.delete_if_ended(token, ended))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(deleted.into_iter().filter(|deleted| *deleted).count())
    }

    async fn delete_if_ended(&self, token: String, ended: u64) -> Result<bool, ApiError> {
        let all = self.nats().names().all_jobs(self.queue());
        let subject = all.replace('*', &token);
        match self.read_key(&subject).await? {
            Some(stored) if stored.sequence <= ended => self.delete_now(stored.sequence).await,
            Some(_) | None => Ok(false),
        }
    }

    async fn recorded_ends(&self) -> Result<Vec<(String, u64)>, ApiError> {
        let stream = self.nats().names().ends_stream();
        let filter = self.nats().names().ends_of(self.queue());
        let (mut ends, mut from) = (Vec::new(), 1);
        loop {
            let next = json!({ "seq": from, "next_by_subj": filter });
            let message = match self.nats().message(&stream, &next).await {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(ends),
                // Somebody deleted it: the next end makes it again.
                Err(error) if error.no_stream() => return Ok(ends),
                Err(error) => return Err(error),
            };
            from = message.sequence + 1;
            let headers = message.headers()?;
            let ended = headers
                .get(header::ENDED)
                .and_then(|n| n.as_str().parse().ok());
            ends.extend(ended.map(|ended| (key_token(&message.subject).to_owned(), ended)));
        }
    }
}
