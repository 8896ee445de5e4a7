//! Jobs and dead letters as they are shown.

use keywork_engine::{JobState, JobView};
use keywork_jetstream::{clock, dead::DeadLetter};
use keywork_model::{DeadReason, Job, QueueName, UnixMillis};

use super::time::{duration, timestamp};
use crate::proto;

pub(super) fn plain_job(
    queue: &QueueName,
    job: Job,
    max_attempts: u32,
    state: proto::JobState,
    now: UnixMillis,
) -> proto::Job {
    proto::Job {
        id: job.id.to_string(),
        queue: queue.as_str().into(),
        key: job.key.into(),
        payload: job.payload,
        content_type: job.content_type,
        attributes: job.attributes,
        state: state.into(),
        attempt: job.attempt,
        max_attempts,
        submitted_at: Some(timestamp(job.submitted_at)),
        start_at: job.not_before.map(timestamp),
        expires_at: job.expires_at.map(timestamp),
        last_error: job.last_error,
        holder: String::new(),
        lease_deadline: None,
        fencing_number: 0,
        age: Some(duration(now.since(job.submitted_at))),
    }
}

/// A job as it is shown.
pub fn job(view: JobView) -> proto::Job {
    let state = match view.state {
        JobState::Scheduled => proto::JobState::Scheduled,
        JobState::Queued => proto::JobState::Queued,
        JobState::Leased => proto::JobState::Leased,
        JobState::Retrying => proto::JobState::Retrying,
        JobState::Dead => proto::JobState::Dead,
        JobState::Ended => proto::JobState::Ended,
    };
    let shown = plain_job(&view.queue, view.job, view.max_attempts, state, view.now);
    proto::Job {
        holder: view.holder.unwrap_or_default(),
        lease_deadline: view.deadline.map(timestamp),
        fencing_number: view.fencing_number,
        ..shown
    }
}

/// A dead letter on the wire.
pub fn dead_job(queue: &QueueName, letter: DeadLetter, max_attempts: u32) -> proto::DeadJob {
    let reason = match letter.reason {
        DeadReason::AttemptsExhausted => proto::DeadReason::AttemptsExhausted,
        DeadReason::LeaseExpired => proto::DeadReason::LeaseExpired,
        DeadReason::Failed => proto::DeadReason::Failed,
        DeadReason::Expired => proto::DeadReason::Expired,
        DeadReason::Unreadable => proto::DeadReason::Unreadable,
    };
    let max_attempts = letter.job.max_attempts.unwrap_or(max_attempts);
    let state = proto::JobState::Dead;
    let shown = plain_job(queue, letter.job, max_attempts, state, clock::now());
    proto::DeadJob {
        dead_id: letter.sequence,
        job: Some(shown),
        reason: reason.into(),
        died_at: Some(timestamp(letter.died_at)),
    }
}
