//! Making, changing and looking at queues.

use std::time::{Duration, SystemTime};

use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};

use super::Client;
use crate::{Error, raw, wire};

/// The configuration of a queue. What is not set takes the server's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueConfig {
    /// How long a lease lasts from its last extension: 2 s to 12 h. Default: 15 s.
    pub lease_duration: Option<Duration>,
    /// The longest that one attempt may run, heartbeats or not; zero: no limit. Default: 1 h.
    pub max_run_time: Option<Duration>,
    /// Attempts before a job becomes a dead letter: 1 to 1,000. Default: 10.
    pub max_attempts: Option<u32>,
    /// The first wait between attempts, and the longest. Default: 1 s doubling to 10 min.
    pub backoff: Option<(Duration, Duration)>,
    /// The most outstanding jobs. Default: 10,000,000.
    pub max_depth: Option<u64>,
    /// The largest payload in bytes. Default: 524,288.
    pub max_payload_bytes: Option<u32>,
    /// After a worker's stream broke, its leases go to others after this long. Default: at their deadline.
    pub disconnect_grace: Option<Duration>,
    /// How long dead letters are kept. Default: 14 days.
    pub dead_letter_retention: Option<Duration>,
    /// How long a `request_id` is remembered. Default: 2 min.
    pub dedupe_window: Option<Duration>,
}

impl QueueConfig {
    /// The names of the fields that are set, as an update's mask has them.
    fn set_fields(&self) -> Vec<String> {
        [
            ("lease_duration", self.lease_duration.is_some()),
            ("max_run_time", self.max_run_time.is_some()),
            ("max_attempts", self.max_attempts.is_some()),
            ("backoff", self.backoff.is_some()),
            ("max_depth", self.max_depth.is_some()),
            ("max_payload_bytes", self.max_payload_bytes.is_some()),
            ("disconnect_grace", self.disconnect_grace.is_some()),
            (
                "dead_letter_retention",
                self.dead_letter_retention.is_some(),
            ),
            ("dedupe_window", self.dedupe_window.is_some()),
        ]
        .into_iter()
        .filter(|(_, set)| *set)
        .map(|(name, _)| name.to_owned())
        .collect()
    }
}

impl From<QueueConfig> for raw::QueueConfig {
    fn from(config: QueueConfig) -> Self {
        Self {
            lease_duration: config.lease_duration.map(wire::from_duration),
            max_run_time: config.max_run_time.map(wire::from_duration),
            max_attempts: config.max_attempts,
            backoff: config.backoff.map(|(initial, max)| raw::Backoff {
                initial: Some(wire::from_duration(initial)),
                max: Some(wire::from_duration(max)),
            }),
            max_depth: config.max_depth,
            max_payload_bytes: config.max_payload_bytes,
            disconnect_grace: config.disconnect_grace.map(wire::from_duration),
            dead_letter_retention: config.dead_letter_retention.map(wire::from_duration),
            dedupe_window: config.dedupe_window.map(wire::from_duration),
        }
    }
}

impl From<raw::QueueConfig> for QueueConfig {
    fn from(wire: raw::QueueConfig) -> Self {
        let duration = |value: Option<prost_types::Duration>| value.map(wire::to_duration);
        Self {
            lease_duration: duration(wire.lease_duration),
            max_run_time: duration(wire.max_run_time),
            max_attempts: wire.max_attempts,
            backoff: wire.backoff.map(|backoff| {
                let initial = duration(backoff.initial).unwrap_or_default();
                (initial, duration(backoff.max).unwrap_or(initial))
            }),
            max_depth: wire.max_depth,
            max_payload_bytes: wire.max_payload_bytes,
            disconnect_grace: duration(wire.disconnect_grace),
            dead_letter_retention: duration(wire.dead_letter_retention),
            dedupe_window: duration(wire.dedupe_window),
        }
    }
}

/// One queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queue {
    /// The name.
    pub name: String,
    /// The configuration, defaults filled in.
    pub config: QueueConfig,
    /// True: no deliveries.
    pub paused: bool,
    /// When it was made.
    pub created_at: Option<SystemTime>,
    /// What is in it.
    pub stats: QueueStats,
    /// How many NATS nodes keep it.
    pub replicas: u32,
}

impl From<raw::Queue> for Queue {
    fn from(wire: raw::Queue) -> Self {
        Self {
            name: wire.name,
            config: wire.config.unwrap_or_default().into(),
            paused: wire.paused,
            created_at: wire.created_at.and_then(wire::to_time),
            stats: wire.stats.unwrap_or_default().into(),
            replicas: wire.replicas,
        }
    }
}

/// What is in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Outstanding jobs.
    pub outstanding: u64,
    /// Of these, never delivered yet.
    pub ready: u64,
    /// Of these, leased, scheduled or waiting to retry.
    pub in_flight: u64,
    /// Dead letters.
    pub dead: u64,
    /// Sessions that serve it, at the server that answers.
    pub sessions: u32,
}

impl From<raw::QueueStats> for QueueStats {
    fn from(wire: raw::QueueStats) -> Self {
        Self {
            outstanding: wire.outstanding,
            ready: wire.ready,
            in_flight: wire.in_flight,
            dead: wire.dead,
            sessions: wire.sessions,
        }
    }
}

/// Which part of a list: from the start by default, then what the answer before gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub(crate) size: u32,
    pub(crate) token: String,
}

impl Page {
    /// The first page, of at most this many: 1 to 1,000.
    #[must_use]
    pub fn of(size: u32) -> Self {
        Self {
            size,
            token: String::new(),
        }
    }

    /// The page after this one, where there is one.
    pub(crate) fn next(self, token: String) -> Option<Self> {
        (!token.is_empty()).then_some(Self {
            size: self.size,
            token,
        })
    }
}

/// Goes through a list page by page, up to its end or its first error.
pub(super) fn pages<T, Listed>(
    list: impl Fn(Page) -> Listed + Send + 'static,
) -> BoxStream<'static, Result<T, Error>>
where
    T: Send + 'static,
    Listed: Future<Output = Result<(Vec<T>, Option<Page>), Error>> + Send + 'static,
{
    let pages = stream::try_unfold(Some(Page::default()), move |page| {
        let listed = page.map(&list);
        async move {
            let Some(listed) = listed else {
                return Ok(None);
            };
            let part = |(entries, next)| Some((stream::iter(entries).map(Ok::<T, Error>), next));
            listed.await.map(part)
        }
    });
    pages.try_flatten().boxed()
}

impl Client {
    /// Makes a queue; also when it is there already with this configuration.
    ///
    /// # Errors
    /// It is there with another configuration, the configuration is refused, or the call failed.
    pub async fn create_queue(
        &self,
        name: impl Into<String>,
        config: QueueConfig,
    ) -> Result<Queue, Error> {
        let request = raw::CreateQueueRequest {
            name: name.into(),
            config: Some(config.into()),
        };
        let answer = self
            .admin(async |mut admin| admin.create_queue(request).await)
            .await?;
        Ok(answer.queue.unwrap_or_default().into())
    }

    /// Changes what is set in `config`, and nothing else.
    ///
    /// # Errors
    /// The queue is unknown, the configuration is refused, or the call failed.
    pub async fn update_queue(
        &self,
        name: impl Into<String>,
        config: QueueConfig,
    ) -> Result<Queue, Error> {
        let request = raw::UpdateQueueRequest {
            name: name.into(),
            update_mask: Some(prost_types::FieldMask {
                paths: config.set_fields(),
            }),
            config: Some(config.into()),
        };
        let answer = self
            .admin(async |mut admin| admin.update_queue(request).await)
            .await?;
        Ok(answer.queue.unwrap_or_default().into())
    }

    /// One queue with its counts.
    ///
    /// # Errors
    /// The queue is unknown, or the call failed.
    pub async fn get_queue(&self, name: impl Into<String>) -> Result<Queue, Error> {
        let request = raw::GetQueueRequest { name: name.into() };
        let answer = self
            .admin(async |mut admin| admin.get_queue(request).await)
            .await?;
        Ok(answer.queue.unwrap_or_default().into())
    }

    /// A page of all queues, by name.
    ///
    /// # Errors
    /// The call failed.
    pub async fn list_queues(&self, page: Page) -> Result<(Vec<Queue>, Option<Page>), Error> {
        let request = raw::ListQueuesRequest {
            page_size: page.size,
            page_token: page.token.clone(),
        };
        let answer = self
            .admin(async |mut admin| admin.list_queues(request).await)
            .await?;
        let queues = answer.queues.into_iter().map(Queue::from).collect();
        Ok((queues, page.next(answer.next_page_token)))
    }

    /// All queues, by name, read page after page. The stream ends with its first error.
    pub fn queues(&self) -> BoxStream<'static, Result<Queue, Error>> {
        let client = self.clone();
        pages(move |page| {
            let client = client.clone();
            async move { client.list_queues(page).await }
        })
    }

    /// Deletes a queue; with `force` also when it holds jobs or dead letters.
    ///
    /// # Errors
    /// The queue is unknown or not empty, or the call failed.
    pub async fn delete_queue(&self, name: impl Into<String>, force: bool) -> Result<(), Error> {
        let request = raw::DeleteQueueRequest {
            name: name.into(),
            force,
        };
        self.admin(async |mut admin| admin.delete_queue(request).await)
            .await
            .map(drop)
    }

    /// Stops deliveries. Leases that are out go on; submits are accepted.
    ///
    /// # Errors
    /// The queue is unknown, or the call failed.
    pub async fn pause_queue(&self, name: impl Into<String>) -> Result<Queue, Error> {
        let request = raw::PauseQueueRequest { name: name.into() };
        let answer = self
            .admin(async |mut admin| admin.pause_queue(request).await)
            .await?;
        Ok(answer.queue.unwrap_or_default().into())
    }

    /// Goes on with deliveries.
    ///
    /// # Errors
    /// The queue is unknown, or the call failed.
    pub async fn resume_queue(&self, name: impl Into<String>) -> Result<Queue, Error> {
        let request = raw::ResumeQueueRequest { name: name.into() };
        let answer = self
            .admin(async |mut admin| admin.resume_queue(request).await)
            .await?;
        Ok(answer.queue.unwrap_or_default().into())
    }

    /// Ends all outstanding jobs of a queue without running them; tells how many.
    ///
    /// # Errors
    /// The queue is unknown, or the call failed.
    pub async fn purge_queue(&self, name: impl Into<String>) -> Result<u64, Error> {
        let request = raw::PurgeQueueRequest { name: name.into() };
        Ok(self
            .admin(async |mut admin| admin.purge_queue(request).await)
            .await?
            .purged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_one_after_the_other_up_to_the_first_error() {
        let given = pages(async |page: Page| match page.token.as_str() {
            "" => Ok((vec![1, 2], page.next("second".to_owned()))),
            "second" => Ok((Vec::new(), page.next("third".to_owned()))),
            "third" => Ok((vec![3], page.next("none".to_owned()))),
            _ => Err(Error::unanswered("no such page")),
        });
        let given: Vec<_> = futures::executor::block_on(given.map(Result::ok).collect());
        assert_eq!(given, [Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn the_last_page_is_the_end() {
        let given = pages(async |page: Page| Ok((vec![page.token.clone()], None)));
        let given: Vec<_> = futures::executor::block_on(given.map(Result::ok).collect());
        assert_eq!(given, [Some(String::new())]);
    }
}
