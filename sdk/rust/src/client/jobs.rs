//! Looking at outstanding jobs, and ending them.

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};

use super::{Client, Page};
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

    /// A page of a queue's outstanding jobs, without payloads; `key_prefix` narrows it to keys that begin so.
    ///
    /// # Errors
    /// The queue is unknown, or the call failed.
    pub async fn list_jobs(
        &self,
        queue: impl Into<String>,
        key_prefix: Option<&str>,
        page: Page,
    ) -> Result<(Vec<Job>, Option<Page>), Error> {
        let request = raw::ListJobsRequest {
            queue: queue.into(),
            key_prefix: key_prefix.unwrap_or_default().to_owned(),
            page_size: page.size,
            page_token: page.token.clone(),
        };
        let answer = self
            .call(async |mut client| client.list_jobs(request).await)
            .await?;
        let jobs = answer.jobs.into_iter().map(Job::from).collect();
        Ok((jobs, page.next(answer.next_page_token)))
    }

    /// Ends the outstanding job of a key, and gives it; with `job_id` only if it is that job. Its handler, if one
    /// runs, is cancelled.
    ///
    /// # Errors
    /// There is no such job, or the call failed.
    pub async fn cancel_job(
        &self,
        queue: impl Into<String>,
        key: impl Into<String>,
        job_id: Option<&str>,
    ) -> Result<Job, Error> {
        let request = raw::CancelJobRequest {
            queue: queue.into(),
            key: key.into(),
            job_id: job_id.unwrap_or_default().to_owned(),
        };
        let answer = self
            .call(async |mut client| client.cancel_job(request).await)
            .await?;
        Ok(answer.job.unwrap_or_default().into())
    }

    /// Jobs of a queue as their state changes; `key` narrows it to one key. The stream ends with its first error:
    /// what happened while nobody watched is not told later.
    ///
    /// # Errors
    /// The queue is unknown, or the call failed.
    pub async fn watch_jobs(
        &self,
        queue: impl Into<String>,
        key: Option<&str>,
    ) -> Result<BoxStream<'static, Result<Job, Error>>, Error> {
        let request = raw::WatchJobsRequest {
            queue: queue.into(),
            key: key.unwrap_or_default().to_owned(),
        };
        let messages = self
            .call(async |mut client| client.watch_jobs(request).await)
            .await?;
        Ok(messages
            .flat_map(|message| {
                let jobs = match message {
                    Ok(message) => message.jobs.into_iter().map(|job| Ok(job.into())).collect(),
                    Err(status) => vec![Err(Error::from(status))],
                };
                stream::iter(jobs)
            })
            .boxed())
    }
}
