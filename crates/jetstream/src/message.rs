//! One stored message, as JetStream's API answers it.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use keywork_model::UnixMillis;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::{
    api::{self, ApiError, Failure},
    codec,
    connect::Nats,
};

/// The answer to a look.
#[derive(Deserialize)]
pub(crate) struct MessageAnswer {
    pub(crate) message: RawMessage,
}

/// One stored message.
#[derive(Deserialize)]
pub(crate) struct RawMessage {
    pub(crate) subject: String,
    #[serde(rename = "seq")]
    pub(crate) sequence: u64,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
    time: jiff::Timestamp,
}

impl RawMessage {
    pub(crate) fn headers(&self) -> Result<HeaderMap, ApiError> {
        Ok(codec::parse_headers(&codec::base64(&self.hdrs)?))
    }

    pub(crate) fn payload(&self) -> Result<Bytes, ApiError> {
        codec::base64(&self.data).map(Bytes::from)
    }

    pub(crate) fn stored_at(&self) -> UnixMillis {
        UnixMillis(u64::try_from(self.time.as_millisecond()).unwrap_or(0))
    }
}

/// The wait before a read that found nothing is made again: reads can be empty while leaders move.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How long a leader is waited for that can be believed.
const LOOK_FOR: Duration = Duration::from_secs(3);

impl Nats {
    /// Looks again for what was not found in a stream: that it is not there is believed only of a leader that
    /// is in touch with most of the stream's nodes.
    pub(crate) async fn look_again<T, F>(
        &self,
        stream: &str,
        look: impl Fn() -> F,
    ) -> Result<Option<T>, ApiError>
    where
        F: Future<Output = Result<Option<T>, ApiError>>,
    {
        let until = Instant::now() + LOOK_FOR;
        loop {
            sleep(LOOK_AGAIN_AFTER).await;
            let sure = self.in_touch(stream).await?;
            let found = look().await?;
            if sure || found.is_some() {
                return Ok(found);
            }
            if Instant::now() >= until {
                return Err(Failure::NoResponders.into());
            }
        }
    }

    /// As [`Nats::message`]; nothing is believed only after a second look.
    pub(crate) async fn message_twice(
        &self,
        stream: &str,
        which: &serde_json::Value,
    ) -> Result<Option<RawMessage>, ApiError> {
        let found = self.message(stream, which).await?;
        if found.is_some() || !self.in_cluster() {
            return Ok(found);
        }
        self.look_again(stream, || self.message(stream, which))
            .await
    }

    /// Reads one message of a stream, from the leader: by sequence, or the last or the next of a subject.
    pub(crate) async fn message(
        &self,
        stream: &str,
        which: &serde_json::Value,
    ) -> Result<Option<RawMessage>, ApiError> {
        let what = format!("STREAM.MSG.GET.{stream}");
        let answer = self
            .read::<MessageAnswer>(what, which.to_string().into())
            .await;
        Ok(api::found(answer)?.map(|answer| answer.message))
    }
}
