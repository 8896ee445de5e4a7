//! What all servers share beside jobs: small values under names, in one stream.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    api::{ApiError, Published, code},
    connect::{ANSWER_WITHIN, Nats},
    names::header,
};

/// How long a setting that the server cannot do without is asked for.
const SET_FOR: Duration = Duration::from_secs(20);

impl Nats {
    /// Makes the stream of settings where it is not there.
    ///
    /// # Errors
    /// What failed.
    pub async fn ensure_settings(&self, replicas: usize) -> Result<(), ApiError> {
        let stream = self.names().settings_stream();
        let config = json!({
            "name": stream, "subjects": [self.names().all_settings()], "retention": "limits",
            "max_msgs_per_subject": 1, "storage": "file", "num_replicas": replicas,
            "discard": "old", "allow_direct": true,
        });
        self.ensure_stream(&stream, &config).await
    }

    /// Whether the stream of settings is there.
    ///
    /// # Errors
    /// What failed.
    pub async fn has_settings(&self) -> Result<bool, ApiError> {
        let what = format!("STREAM.INFO.{}", self.names().settings_stream());
        match self.read::<serde_json::Value>(what, Bytes::new()).await {
            Ok(_) => Ok(true),
            Err(error) if error.no_stream() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a stream; one of that name that is there already will do.
    pub(crate) async fn ensure_stream(
        &self,
        stream: &str,
        config: &serde_json::Value,
    ) -> Result<(), ApiError> {
        let body = Bytes::from(config.to_string());
        let made = self
            .make::<serde_json::Value>(format!("STREAM.CREATE.{stream}"), body)
            .await;
        match made {
            Err(error) if error.code() == Some(code::STREAM_EXISTS) => Ok(()),
            made => made.map(drop),
        }
    }

    /// Reads a setting.
    ///
    /// # Errors
    /// What failed.
    pub async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, ApiError> {
        let last = json!({ "last_by_subj": self.names().setting(name) });
        let stream = self.names().settings_stream();
        let found = self.message_twice(&stream, &last).await?;
        found
            .map(|message| message.payload().map(Vec::from))
            .transpose()
    }

    /// Writes a setting.
    ///
    /// # Errors
    /// What failed.
    pub async fn set(&self, name: &str, value: Vec<u8>) -> Result<(), ApiError> {
        match self.publish_setting(name, None, value).await {
            Published::Failed(failure) => Err(failure.into()),
            Published::Refused(refusal) | Published::Full(refusal) => Err(refusal.into()),
            Published::Stored(_)
            | Published::Duplicate(_)
            | Published::KeyBusy
            | Published::WrongLast(_)
            | Published::InFlight => Ok(()),
        }
    }

    /// Writes a setting unless it is there, and answers what is there then. Where the stream was just
    /// made it may take a while until its leader answers everybody.
    ///
    /// # Errors
    /// What failed.
    pub async fn set_once(&self, name: &str, value: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        let until = Instant::now() + SET_FOR;
        loop {
            match self.try_set_once(name, value.clone()).await {
                Err(ApiError::Failed(_) | ApiError::Unreadable(_)) if Instant::now() < until => {
                    sleep(Duration::from_millis(100)).await;
                }
                answer => return answer,
            }
        }
    }

    async fn try_set_once(&self, name: &str, value: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::EXPECTED_LAST, "0");
        if let Some(there) = self.setting(name).await? {
            return Ok(there);
        }
        match self.publish_setting(name, Some(headers), value).await {
            Published::Failed(failure) => return Err(failure.into()),
            Published::Refused(refusal) | Published::Full(refusal) => return Err(refusal.into()),
            Published::Stored(_)
            | Published::Duplicate(_)
            | Published::KeyBusy
            | Published::WrongLast(_)
            | Published::InFlight => {}
        }
        self.setting(name)
            .await?
            .ok_or_else(|| ApiError::Unreadable("a setting vanished".into()))
    }

    async fn publish_setting(
        &self,
        name: &str,
        headers: Option<HeaderMap>,
        value: Vec<u8>,
    ) -> Published {
        let subject = self.names().setting(name);
        self.publishing()
            .request(subject, headers, value.into(), ANSWER_WITHIN)
            .await
            .published()
    }
}
