//! Hearing that somebody changed or deleted what a queue is made of. A hint alone: whoever may not hear it
//! finds out at the next look.

use async_nats::Subscriber;
use futures::{StreamExt, stream::SelectAll};
use keywork_model::QueueName;

use crate::{connect::Nats, names::CONSUMER};

/// What JetStream says of one queue's streams and consumer.
#[derive(Debug)]
pub struct QueueChanges(SelectAll<Subscriber>);

impl QueueChanges {
    /// Waits for the next one. Several that came together are one.
    pub async fn next(&mut self) {
        if self.0.next().await.is_none() {
            std::future::pending::<()>().await;
        }
        while let Some(Some(_)) = futures::FutureExt::now_or_never(self.0.next()) {}
    }
}

impl Nats {
    /// Hears of changes from now on.
    pub async fn queue_changes(&self, queue: &QueueName) -> QueueChanges {
        let (jobs, dead) = (
            self.names().jobs_stream(queue),
            self.names().dead_stream(queue),
        );
        let subjects = [
            format!("STREAM.UPDATED.{jobs}"),
            format!("STREAM.DELETED.{jobs}"),
            format!("STREAM.DELETED.{dead}"),
            format!("CONSUMER.CREATED.{jobs}.{CONSUMER}"),
            format!("CONSUMER.DELETED.{jobs}.{CONSUMER}"),
        ];
        let mut heard = SelectAll::new();
        for subject in subjects {
            let subject = format!("$JS.EVENT.ADVISORY.{subject}");
            match self.pulling().subscribe(subject).await {
                Ok(subscriber) => heard.push(subscriber),
                Err(error) => tracing::debug!(%queue, %error, "failed to listen for changes"),
            }
        }
        QueueChanges(heard)
    }
}
