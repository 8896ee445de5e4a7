//! Looking at outstanding jobs.

use super::Client;
use crate::{Error, Job, raw};

impl Client {
    /// The outstanding job of a key, with its payload; none when the key is free.
    ///
    /// # Errors
    /// The queue is unknown, or the call failed.
    pub async fn get_job(
        &self,
        queue: impl Into<String>,
        key: impl Into<String>,
    ) -> Result<Option<Job>, Error> {
        let request = raw::GetJobRequest {
            queue: queue.into(),
            key: key.into(),
        };
        match self
            .call(async |mut client| client.get_job(request).await)
            .await
        {
            Ok(response) => Ok(response.job.map(Job::from)),
            Err(error) if error.reason() == crate::errors::reasons::JOB_NOT_FOUND => Ok(None),
            Err(error) => Err(error),
        }
    }
}
