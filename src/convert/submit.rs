//! Offers and their answers.

use bytes::Bytes;
use keywork_engine::{OnConflict, SubmitAnswer};
use keywork_jetstream::clock;
use keywork_model::{Backoff, JobId, JobKey, QueueName, Submission, UnixMillis, Violation, limits};

use super::{
    job::job,
    time::{to_duration, to_time},
};
use crate::{errors::Problem, proto};

/// Reads an offer.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn to_submission(
    request: proto::SubmitRequest,
) -> Result<(QueueName, Submission, OnConflict), Problem> {
    let queue = QueueName::parse(&request.queue)?;
    let on_conflict = to_on_conflict(request.on_conflict)?;
    let key = JobKey::parse(&request.key)?;
    let request_id = match request.request_id.as_str() {
        "" => None,
        id => Some(JobId::parse(id)?),
    };
    let submission = Submission {
        key,
        payload: request.payload,
        content_type: request.content_type,
        attributes: request.attributes,
        request_id,
        not_before: request.start.map(to_start).transpose()?,
        expires_at: request
            .expires_at
            .map(|at| to_time("expires_at", at))
            .transpose()?,
        max_attempts: (request.max_attempts > 0).then_some(request.max_attempts),
        backoff: request
            .backoff
            .map(|b| to_backoff(b, Backoff::default()))
            .transpose()?,
    };
    Ok((queue, submission, on_conflict))
}

fn to_start(start: proto::submit_request::Start) -> Result<UnixMillis, Violation> {
    match start {
        proto::submit_request::Start::StartAt(at) => to_time("start_at", at).map_err(|_| {
            Violation::new("start_at", "must be after 1970 and at most 366 days ahead")
        }),
        proto::submit_request::Start::Delay(delay) => {
            let delay = to_duration("delay", delay)?;
            if delay > limits::MAX_DELAY {
                return Err(Violation::new("delay", "must be at most 366 days"));
            }
            Ok(clock::now().plus(delay))
        }
    }
}

fn to_on_conflict(value: i32) -> Result<OnConflict, Problem> {
    match proto::OnConflict::try_from(value) {
        Ok(proto::OnConflict::Unspecified | proto::OnConflict::Reject) => Ok(OnConflict::Reject),
        Ok(proto::OnConflict::Fail) => Ok(OnConflict::Fail),
        Ok(proto::OnConflict::Rerun) => Err(Problem::not_served("on_conflict RERUN")),
        Ok(proto::OnConflict::Replace) => Err(Problem::not_served("on_conflict REPLACE")),
        Err(_) => Err(Violation::new("on_conflict", "is no value of OnConflict").into()),
    }
}

/// Reads a backoff; what is unset is taken from `default`.
///
/// # Errors
/// A violation of `backoff`.
pub(super) fn to_backoff(backoff: proto::Backoff, default: Backoff) -> Result<Backoff, Violation> {
    let initial = backoff
        .initial
        .map(|d| to_duration("backoff.initial", d))
        .transpose()?;
    let max = backoff
        .max
        .map(|d| to_duration("backoff.max", d))
        .transpose()?;
    let initial = initial.unwrap_or_else(|| default.initial());
    Backoff::new(initial, max.unwrap_or_else(|| default.max().max(initial)))
}

/// A submit's answer on the wire: the job without its payload.
pub fn submit_response(answer: SubmitAnswer) -> proto::SubmitResponse {
    let (outcome, view) = match answer {
        SubmitAnswer::Created(view) => (proto::SubmitOutcome::Created, view),
        SubmitAnswer::Duplicate(view) => (proto::SubmitOutcome::Duplicate, view),
        SubmitAnswer::AlreadyOutstanding(view) => (proto::SubmitOutcome::AlreadyOutstanding, view),
    };
    let job = proto::Job {
        payload: Bytes::new(),
        ..job(*view)
    };
    proto::SubmitResponse {
        outcome: outcome.into(),
        job: Some(job),
    }
}

/// One item's result on the wire.
pub fn submit_result<E: Into<Problem>>(answer: Result<SubmitAnswer, E>) -> proto::SubmitResult {
    use proto::submit_result::Result as Wire;
    let result = match answer {
        Ok(answer) => Wire::Response(without_attributes(submit_response(answer))),
        Err(error) => Wire::Error(error.into().into_item()),
    };
    proto::SubmitResult {
        result: Some(result),
    }
}

/// A thousand jobs with all their attributes would be a message that clients refuse.
fn without_attributes(mut response: proto::SubmitResponse) -> proto::SubmitResponse {
    if let Some(job) = &mut response.job {
        job.attributes.clear();
    }
    response
}

#[cfg(test)]
mod tests {
    use prost_types::{Duration, Timestamp};
    use proto::submit_request::Start;

    use super::*;

    #[test]
    fn a_start_however_far_is_told_the_real_limit() {
        for seconds in [367 * 86_400, i64::MAX] {
            let delay = Start::Delay(Duration { seconds, nanos: 0 });
            assert!(to_start(delay).is_err_and(|bad| bad.problem.contains("366 days")));
        }
        let far = Timestamp {
            seconds: 1 << 40,
            nanos: 0,
        };
        assert!(to_start(Start::StartAt(far)).is_err_and(|bad| bad.problem.contains("366 days")));
        assert!(to_time("expires_at", far).is_err_and(|bad| bad.problem.contains("9999")));
    }
}
