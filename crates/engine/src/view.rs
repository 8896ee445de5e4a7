//! A job as people are shown it.

use std::sync::Arc;

use keywork_model::{Job, QueueName, UnixMillis};

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Accepted, with a start that is still to come.
    Scheduled,
    /// Waiting for a worker.
    Queued,
    /// A worker holds its lease, or held one that has not been dealt with yet.
    Leased,
    /// Waits for its next attempt.
    Retrying,
    /// On its way to the dead letters.
    Dead,
    /// Ended.
    Ended,
}

/// A job with what the servers know of it.
#[derive(Clone, Debug)]
pub struct JobView {
    /// The queue.
    pub queue: Arc<QueueName>,
    /// The job.
    pub job: Job,
    /// Its attempts in this queue.
    pub max_attempts: u32,
    /// Where it is.
    pub state: JobState,
    /// The worker that holds it, where known.
    pub holder: Option<String>,
    /// Until when, where known.
    pub deadline: Option<UnixMillis>,
    /// Its sequence, where it is leased.
    pub fencing_number: u64,
    /// When this was looked at.
    pub now: UnixMillis,
}
