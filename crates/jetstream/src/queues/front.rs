//! The message before all jobs, and the consumer's ack floor behind it: together they keep JetStream from
//! forgetting older leases when a job is re-seated.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use keywork_model::{QueueConfig, QueueName};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{ConsumerInfo, QueueError, drift::consumer_config, known};
use crate::{
    api::{ApiError, Published},
    connect::{ANSWER_WITHIN, Nats, REPEAT_FOR},
    names::{CONSUMER, header},
};

/// The message before all jobs.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    /// Its sequence.
    pub sequence: u64,
    /// Whether this call wrote it.
    ours: bool,
}

impl Nats {
    /// Makes sure of the message before all jobs, which the consumer does not see. While it is there,
    /// the stream's first sequence never passes the consumer's ack floor: when it does, the next re-seat
    /// makes JetStream forget all older leases.
    ///
    /// # Errors
    /// What failed.
    pub async fn ensure_front(&self, queue: &QueueName) -> Result<Front, QueueError> {
        let subject = self.names().front(queue);
        let stream = self.names().jobs_stream(queue);
        let last = json!({ "last_by_subj": subject });
        if let Some(message) = self.message(&stream, &last).await? {
            return Ok(Front {
                sequence: message.sequence,
                ours: false,
            });
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::EXPECTED_LAST, "0");
        let publishing = self.publishing();
        let reply = publishing
            .request(subject, Some(headers), Bytes::new(), ANSWER_WITHIN)
            .await;
        match reply.published() {
            Published::Stored(sequence) => Ok(Front {
                sequence,
                ours: true,
            }),
            Published::WrongLast(sequence) => Ok(Front {
                sequence,
                ours: false,
            }),
            Published::Failed(failure) => Err(ApiError::from(failure).into()),
            Published::Refused(refusal) | Published::Full(refusal) => {
                Err(ApiError::from(refusal).into())
            }
            Published::Duplicate(_) | Published::KeyBusy | Published::InFlight => {
                Err(ApiError::Unreadable("the stream refused its first message".into()).into())
            }
        }
    }

    /// The consumer, with its ack floor at the front message or above it. Whoever wrote that message makes
    /// the consumer and puts the floor there, before anything is leased; others wait for that, and do it
    /// themselves where it does not come and nothing is out.
    pub(super) async fn consumer_behind(
        &self,
        queue: &QueueName,
        config: &QueueConfig,
        front: Front,
    ) -> Result<ConsumerInfo, QueueError> {
        let until = Instant::now() + REPEAT_FOR;
        loop {
            let patient = !front.ours && Instant::now() < until;
            match self.consumer_info(queue).await {
                Ok(info) if info.ack_floor.stream_seq >= front.sequence => return Ok(info),
                Ok(info) if info.num_ack_pending > 0 => {
                    tracing::warn!(%queue, "jobs are out while the consumer's floor is below its front");
                    return Ok(info);
                }
                Ok(_) if patient => sleep(Duration::from_millis(100)).await,
                Ok(_) => self.put_floor(queue, front.sequence).await?,
                Err(QueueError::Unknown(_)) if patient => sleep(Duration::from_millis(100)).await,
                Err(QueueError::Unknown(_)) => {
                    let wanted = consumer_config(self, queue, config.ack_wait());
                    self.make_consumer(queue, wanted).await?;
                    self.put_floor(queue, front.sequence).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) async fn put_floor(&self, queue: &QueueName, front: u64) -> Result<(), QueueError> {
        let stream = self.names().jobs_stream(queue);
        let what = format!("CONSUMER.RESET.{stream}.{CONSUMER}");
        let body = json!({ "seq": front + 1 }).to_string();
        self.change::<Value>(what, body.into())
            .await
            .map(drop)
            .map_err(known(queue))
    }
}
