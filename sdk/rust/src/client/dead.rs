//! Dead letters: looking at them, submitting them again, deleting them.

use futures::stream::BoxStream;

use super::{Client, Page, queues::pages};
use crate::{Error, SubmitOutcome, errors::FieldViolation, job::DeadJob, raw};

/// Which dead letters of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Which {
    /// These, by `dead_id`: at most 1,000.
    Ids(Vec<u64>),
    /// The oldest ones, at most this many (1 to 1,000).
    Oldest(u32),
}

impl Which {
    /// What a request says: the ids, or how many of the oldest. None where no dead letter is meant.
    ///
    /// # Errors
    /// The number is out of its range: to a server 0 is another number.
    fn on_the_wire(self) -> Result<Option<(Vec<u64>, u32)>, Error> {
        match self {
            Self::Ids(ids) if ids.is_empty() => Ok(None),
            Self::Ids(ids) => Ok(Some((ids, 0))),
            Self::Oldest(0) => {
                let text = "must be from 1 to 1000, and is 0";
                Err(Error::invalid(vec![FieldViolation::new("max_jobs", text)]))
            }
            Self::Oldest(most) => Ok(Some((Vec::new(), most))),
        }
    }
}

/// How one redrive ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Redriven {
    /// The dead letter.
    pub dead_id: u64,
    /// Created: the job runs again and the dead letter is gone. Already outstanding: the key is busy and the
    /// dead letter stays.
    pub result: Result<SubmitOutcome, Error>,
}

impl Client {
    /// A page of a queue's dead letters, oldest first; `key` narrows it to one key.
    ///
    /// # Errors
    /// The queue is unknown, or the call failed.
    pub async fn list_dead_jobs(
        &self,
        queue: impl Into<String>,
        key: Option<&str>,
        page: Page,
    ) -> Result<(Vec<DeadJob>, Option<Page>), Error> {
        let request = raw::ListDeadJobsRequest {
            queue: queue.into(),
            page_size: page.size,
            page_token: page.token.clone(),
            key: key.unwrap_or_default().to_owned(),
        };
        let answer = self
            .call(async |mut client| client.list_dead_jobs(request).await)
            .await?;
        let jobs = answer.jobs.into_iter().map(DeadJob::from).collect();
        Ok((jobs, page.next(answer.next_page_token)))
    }

    /// All dead letters of a queue, oldest first, read page after page; `key` narrows it to one key. The stream ends with
    /// its first error.
    pub fn dead_jobs(
        &self,
        queue: impl Into<String>,
        key: Option<&str>,
    ) -> BoxStream<'static, Result<DeadJob, Error>> {
        let (client, queue, key) = (self.clone(), queue.into(), key.map(str::to_owned));
        pages(move |page| {
            let (client, queue, key) = (client.clone(), queue.clone(), key.clone());
            async move { client.list_dead_jobs(queue, key.as_deref(), page).await }
        })
    }

    /// Submits dead letters again, with attempts counted from 1. Repeating it is safe: one that was redriven
    /// is no dead letter any more. An empty list of ids means none.
    ///
    /// # Errors
    /// The call failed as a whole.
    pub async fn redrive_dead_jobs(
        &self,
        queue: impl Into<String>,
        which: Which,
    ) -> Result<Vec<Redriven>, Error> {
        let Some((dead_ids, max_jobs)) = which.on_the_wire()? else {
            return Ok(Vec::new());
        };
        let request = raw::RedriveDeadJobsRequest {
            queue: queue.into(),
            dead_ids,
            max_jobs,
        };
        let answer = self
            .call(async |mut client| client.redrive_dead_jobs(request).await)
            .await?;
        Ok(answer.results.into_iter().map(redriven).collect())
    }

    /// Deletes dead letters for good; tells how many there were.
    ///
    /// # Errors
    /// The call failed.
    pub async fn delete_dead_jobs(
        &self,
        queue: impl Into<String>,
        dead_ids: Vec<u64>,
    ) -> Result<u64, Error> {
        if dead_ids.is_empty() {
            return Ok(0);
        }
        let request = raw::DeleteDeadJobsRequest {
            queue: queue.into(),
            dead_ids,
            all: false,
        };
        Ok(self
            .call(async |mut client| client.delete_dead_jobs(request).await)
            .await?
            .deleted)
    }

    /// Deletes all dead letters of a queue for good; tells how many there were.
    ///
    /// # Errors
    /// The call failed.
    pub async fn delete_all_dead_jobs(&self, queue: impl Into<String>) -> Result<u64, Error> {
        let request = raw::DeleteDeadJobsRequest {
            queue: queue.into(),
            dead_ids: Vec::new(),
            all: true,
        };
        Ok(self
            .call(async |mut client| client.delete_dead_jobs(request).await)
            .await?
            .deleted)
    }
}

fn redriven(wire: raw::RedriveResult) -> Redriven {
    let result = match wire.result.and_then(|result| result.result) {
        Some(raw::submit_result::Result::Response(response)) => {
            SubmitOutcome::read(response, false)
        }
        Some(raw::submit_result::Result::Error(error)) => Err(Error::of_item(error)),
        None => SubmitOutcome::read(raw::SubmitResponse::default(), false),
    };
    Redriven {
        dead_id: wire.dead_id,
        result,
    }
}
