//! Holding up a queue's deliveries, and going on with them.

use std::time::Duration;

use keywork_model::QueueName;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{QueueError, known, nanoseconds};
use crate::{
    api::{ApiError, Failure},
    connect::{Nats, REPEAT_FOR},
    names::CONSUMER,
};

/// JetStream knows a pause only by its end.
const NEVER: &str = "2500-01-01T00:00:00Z";
/// How long the pull that wakes a consumer may wait there.
const WAKES_FOR: Duration = Duration::from_secs(1);

impl Nats {
    /// Stops deliveries, or goes on with them; answers when it has happened.
    ///
    /// # Errors
    /// What failed.
    pub async fn pause_queue(&self, queue: &QueueName, pause: bool) -> Result<(), QueueError> {
        let body = if pause {
            json!({ "pause_until": NEVER })
        } else {
            json!({})
        };
        let stream = self.names().jobs_stream(queue);
        let what = format!("CONSUMER.PAUSE.{stream}.{CONSUMER}");
        self.read::<Value>(what, body.to_string().into())
            .await
            .map_err(known(queue))?;
        self.until_paused(queue, pause).await?;
        if !pause {
            self.wake(&stream).await;
        }
        Ok(())
    }

    /// A cluster answers before the consumer's leader has heard of it.
    async fn until_paused(&self, queue: &QueueName, pause: bool) -> Result<(), QueueError> {
        let until = Instant::now() + REPEAT_FOR;
        let mut wait = Duration::from_millis(2);
        while self.consumer_info(queue).await?.paused != pause {
            if Instant::now() >= until {
                return Err(ApiError::from(Failure::TimedOut).into());
            }
            sleep(wait).await;
            wait = (wait * 2).min(Duration::from_millis(200));
        }
        Ok(())
    }

    /// Makes a consumer look again at the pulls that wait for it. The end of a pause does not: they would wait
    /// until they expire. Any pull does; this one is too small for a message, so it takes none.
    async fn wake(&self, stream: &str) {
        let client = self.pulling();
        let pull = json!({ "batch": 1, "max_bytes": 1, "expires": nanoseconds(WAKES_FOR) });
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{CONSUMER}");
        let sent = client
            .publish_with_reply(subject, client.new_inbox(), pull.to_string().into())
            .await;
        if let Err(error) = sent {
            tracing::debug!(%error, "failed to wake a consumer");
        }
    }
}
