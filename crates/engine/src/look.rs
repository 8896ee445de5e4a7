//! Looking at a job: what is stored, and what the servers know of its lease.

use std::sync::Arc;

use keywork_jetstream::{ApiError, Stored, clock};
use keywork_model::{Job, JobKey, QueueName};
use tokio::time::Instant;

use crate::{
    engine::Engine,
    error::OpenError,
    peers::{self, Holder, Holders},
    queue::Queue,
    submit,
    view::{JobState, JobView},
};

/// How a look fails.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The queue cannot be served.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The key has no outstanding job.
    #[error("the key has no outstanding job")]
    NoJob,
    /// NATS failed.
    #[error(transparent)]
    Nats(ApiError),
}

impl Engine {
    /// The outstanding job of a key.
    ///
    /// # Errors
    /// [`LookError::NoJob`] when it has none.
    pub async fn job(&self, queue: &QueueName, key: &JobKey) -> Result<JobView, LookError> {
        let queue = self.open_existing(queue).await?;
        let subject = queue.jobs.subject(key);
        let Some(stored) = queue.jobs.read_key_twice(&subject).await? else {
            return Err(LookError::NoJob);
        };
        if submit::finish_leftover(&queue, &stored).await? {
            return Err(LookError::NoJob);
        }
        let state = queue.state_now(&stored).await;
        let sequence = stored.sequence;
        let mut view = queue.view(stored, state);
        if view.state == JobState::Leased
            && view.holder.is_none()
            && let Some(holder) = peers::who_holds(self, &queue.name, sequence).await
        {
            view.holder = Some(holder.worker);
            view.deadline = Some(holder.deadline);
        }
        Ok(view)
    }

    /// Who holds these leases, as far as they are known here.
    pub(crate) fn held_here(&self, queue: &str, sequences: &[u64]) -> Holders {
        let name = QueueName::parse(queue).ok();
        let Some(queue) = name.and_then(|name| self.open_already(&name)) else {
            return Holders::new();
        };
        let (now, wall) = (Instant::now(), clock::now());
        let holder = |n: &u64| {
            let lease = queue.live_lease(*n, now)?;
            let holder = Holder {
                server: self.server(),
                worker: lease.worker.to_string(),
                deadline: wall.plus(lease.deadline.saturating_duration_since(now)),
            };
            Some((*n, holder))
        };
        sequences.iter().filter_map(holder).collect()
    }
}

impl Queue {
    /// Where a stored job is. That it was delivered is known at once only to the server that it was
    /// delivered to, so one that seems to wait is looked at again.
    pub(crate) async fn state_now(&self, stored: &Stored) -> JobState {
        if self.state_of(stored) == JobState::Queued {
            self.look_at_delivered(Instant::now()).await;
        }
        self.state_of(stored)
    }

    /// Where a stored job is, as far as this server knows: a sequence that was delivered is leased, or
    /// was and is not dealt with yet.
    pub(crate) fn state_of(&self, stored: &Stored) -> JobState {
        let waits = stored.job.not_before.is_some_and(|at| at > clock::now());
        if waits && stored.job.attempt > 1 {
            JobState::Retrying
        } else if waits {
            JobState::Scheduled
        } else if stored.job.not_before.is_none() && stored.sequence <= self.delivered() {
            JobState::Leased
        } else {
            JobState::Queued
        }
    }

    /// A stored job as it is shown.
    pub(crate) fn view(&self, stored: Stored, state: JobState) -> JobView {
        let (now, wall) = (Instant::now(), clock::now());
        let lease = {
            let leases = &self.state.lock().leases;
            leases.of_sequence(stored.sequence, now).cloned()
        };
        let mut view = self.plain_view(stored.job, state);
        if state == JobState::Leased {
            view.fencing_number = stored.sequence;
        }
        if let Some(lease) = lease {
            view.deadline = Some(wall.plus(lease.deadline.saturating_duration_since(now)));
            view.holder = Some(lease.worker.to_string());
        }
        view
    }

    /// A job as it is shown, without what is known of its lease.
    pub(crate) fn plain_view(&self, job: Job, state: JobState) -> JobView {
        JobView {
            queue: Arc::clone(&self.name),
            max_attempts: job.max_attempts(&self.config()),
            job,
            state,
            holder: None,
            deadline: None,
            fencing_number: 0,
            now: clock::now(),
        }
    }
}
