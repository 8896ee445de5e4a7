//! Jobs as a client and a handler see them.
//!
//! Plain data, read from the wire; nothing here talks to a server.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tonic::Code;

use crate::{Error, raw, wire};

/// One job.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Job {
    /// The job's id: the `request_id` of its submit where one was given.
    pub id: String,
    /// The queue's name.
    pub queue: String,
    /// What the job is about: at most one job of a key is outstanding in a queue.
    pub key: String,
    /// The payload. Empty where a job is only named, as in a submit's outcome.
    pub payload: Bytes,
    /// Media type of the payload, as given by the submitter.
    pub content_type: String,
    /// The submitter's attributes.
    pub attributes: HashMap<String, String>,
    /// Where the job was in its life when the server answered.
    pub state: JobState,
    /// The attempt that runs, or that comes next: the first is 1.
    pub attempt: u32,
    /// How many attempts it has before it becomes a dead letter.
    pub max_attempts: u32,
    /// When it was accepted.
    pub submitted_at: Option<SystemTime>,
    /// Not to start before this time.
    pub start_at: Option<SystemTime>,
    /// Becomes a dead letter when it has not started by then.
    pub expires_at: Option<SystemTime>,
    /// What the last failed attempt said.
    pub last_error: String,
    /// The worker that holds the lease, where the server knows it.
    pub holder: String,
    /// Until when the lease holds unless it is extended, by the server's clock. A handler asks its
    /// [`Context`](crate::Context) instead.
    pub lease_deadline: Option<SystemTime>,
    /// Grows with every lease of the key: pass it to what the handler writes to. 0: not leased.
    pub fencing_number: u64,
    /// How long ago it was accepted, by the server's clock.
    pub age: Option<Duration>,
}

impl From<raw::Job> for Job {
    fn from(wire: raw::Job) -> Self {
        Self {
            state: wire.state().into(),
            id: wire.id,
            queue: wire.queue,
            key: wire.key,
            payload: wire.payload,
            content_type: wire.content_type,
            attributes: wire.attributes,
            attempt: wire.attempt,
            max_attempts: wire.max_attempts,
            submitted_at: wire.submitted_at.and_then(wire::to_time),
            start_at: wire.start_at.and_then(wire::to_time),
            expires_at: wire.expires_at.and_then(wire::to_time),
            last_error: wire.last_error,
            holder: wire.holder,
            lease_deadline: wire.lease_deadline.and_then(wire::to_time),
            fencing_number: wire.fencing_number,
            age: wire.age.map(wire::to_duration),
        }
    }
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobState {
    /// The server did not say, or said something that this version does not know.
    #[default]
    Unknown,
    /// Accepted; not to start before a time that is still to come.
    Scheduled,
    /// Waiting for a worker.
    Queued,
    /// A worker holds a lease of it.
    Leased,
    /// An attempt failed; the next one waits for its time.
    Retrying,
    /// Used up its attempts or was failed.
    Dead,
    /// Ended; nothing of it is outstanding.
    Ended,
}

impl From<raw::JobState> for JobState {
    fn from(wire: raw::JobState) -> Self {
        match wire {
            raw::JobState::Unspecified => Self::Unknown,
            raw::JobState::Scheduled => Self::Scheduled,
            raw::JobState::Queued => Self::Queued,
            raw::JobState::Leased => Self::Leased,
            raw::JobState::Retrying => Self::Retrying,
            raw::JobState::Dead => Self::Dead,
            raw::JobState::Ended => Self::Ended,
        }
    }
}

/// How a submit ended. Each names the job that holds the key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SubmitOutcome {
    /// The job was accepted and holds the key.
    Created(Job),
    /// This `request_id` was accepted before: here is that job, outstanding or ended.
    Duplicate(Job),
    /// The key is busy with this job; nothing was stored.
    AlreadyOutstanding(Job),
    /// The key will run once more with this payload after this job.
    RerunScheduled(Job),
    /// The job took the place of one that had not started.
    Replaced(Job),
}

impl SubmitOutcome {
    /// The job that the outcome names.
    #[must_use]
    pub fn job(&self) -> &Job {
        match self {
            Self::Created(job)
            | Self::Duplicate(job)
            | Self::AlreadyOutstanding(job)
            | Self::RerunScheduled(job)
            | Self::Replaced(job) => job,
        }
    }

    /// True: what was offered was accepted, now or at an earlier try. False: the key is busy.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        !matches!(self, Self::AlreadyOutstanding(_))
    }

    /// Reads an answer. `own_id` says that this crate made the request id: then a duplicate can only be
    /// an earlier try of the same call, whose answer was lost.
    pub(crate) fn read(wire: raw::SubmitResponse, own_id: bool) -> Result<Self, Error> {
        let outcome = wire.outcome();
        let job = Job::from(wire.job.unwrap_or_default());
        match outcome {
            raw::SubmitOutcome::Created => Ok(Self::Created(job)),
            raw::SubmitOutcome::Duplicate if own_id => Ok(Self::Created(job)),
            raw::SubmitOutcome::Duplicate => Ok(Self::Duplicate(job)),
            raw::SubmitOutcome::AlreadyOutstanding => Ok(Self::AlreadyOutstanding(job)),
            raw::SubmitOutcome::RerunScheduled => Ok(Self::RerunScheduled(job)),
            raw::SubmitOutcome::Replaced => Ok(Self::Replaced(job)),
            raw::SubmitOutcome::Unspecified => Err(Error::local(
                Code::Internal,
                "the server answered with an outcome that this version does not know",
            )),
        }
    }
}

/// A job that ended as a dead letter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeadJob {
    /// Names the dead letter within its queue.
    pub dead_id: u64,
    /// The job, with payload and attributes.
    pub job: Job,
    /// Why it died.
    pub reason: DeadReason,
    /// When it died.
    pub died_at: Option<SystemTime>,
}

impl From<raw::DeadJob> for DeadJob {
    fn from(wire: raw::DeadJob) -> Self {
        Self {
            dead_id: wire.dead_id,
            reason: wire.reason().into(),
            died_at: wire.died_at.and_then(wire::to_time),
            job: wire.job.unwrap_or_default().into(),
        }
    }
}

/// Why a job became a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadReason {
    /// The server did not say, or said something that this version does not know.
    Unknown,
    /// Its last allowed attempt failed.
    AttemptsExhausted,
    /// Its last allowed attempt ended because the lease ran out.
    LeaseExpired,
    /// A handler failed it for good.
    Failed,
    /// It had not started when its `expires_at` came.
    Expired,
    /// What is stored could not be read as a job.
    Unreadable,
}

impl From<raw::DeadReason> for DeadReason {
    fn from(wire: raw::DeadReason) -> Self {
        match wire {
            raw::DeadReason::Unspecified => Self::Unknown,
            raw::DeadReason::AttemptsExhausted => Self::AttemptsExhausted,
            raw::DeadReason::LeaseExpired => Self::LeaseExpired,
            raw::DeadReason::Failed => Self::Failed,
            raw::DeadReason::Expired => Self::Expired,
            raw::DeadReason::Unreadable => Self::Unreadable,
        }
    }
}
