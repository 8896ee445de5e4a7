//! One stored message, as JetStream's API answers it.

use async_nats::HeaderMap;
use bytes::Bytes;
use keywork_model::UnixMillis;
use serde::Deserialize;

use crate::{
    api::{self, ApiError},
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

impl Nats {
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
