//! From the wire to the model, and back.

use std::time::Duration;

use bytes::Bytes;
use keywork_engine::{
    Asked, GoAwayReason, Granted, JobState, JobView, Lost, LostReason, OnConflict, Outcome,
    QueueView, Refused, SettleItem, SettleResult, SubmitAnswer,
};
use keywork_jetstream::{clock, dead::DeadLetter};
use keywork_model::{
    Backoff, DeadReason, Job, JobId, JobKey, QueueConfig, QueueName, Submission, UnixMillis,
    Violation, WorkerId, decide::Settlement, limits,
};
use tokio::time::Instant;

use crate::{errors::Problem, proto};

/// The last second of the year 9999: later ones are no timestamps.
const LAST_SECOND: u64 = 253_402_300_799;

/// A time on the wire.
pub fn timestamp(at: UnixMillis) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(at.0 % 1_000 * 1_000_000).unwrap_or(0),
    }
}

/// A duration on the wire.
pub fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// Reads a time.
///
/// # Errors
/// A violation of `field` when it is before 1970, after 9999 or no time.
pub fn to_time(field: &str, at: prost_types::Timestamp) -> Result<UnixMillis, Violation> {
    let seconds = u64::try_from(at.seconds).ok().filter(|s| *s <= LAST_SECOND);
    let nanos = u64::try_from(at.nanos).ok().filter(|n| *n < 1_000_000_000);
    match (seconds, nanos) {
        (Some(seconds), Some(nanos)) => Ok(UnixMillis(seconds * 1_000 + nanos / 1_000_000)),
        (Some(_) | None, _) => Err(Violation::new(field, "must be a time from 1970 to 9999")),
    }
}

/// Reads a duration of any length: who knows the field's limit checks it.
///
/// # Errors
/// A violation of `field` when it is negative or no duration.
pub fn to_duration(field: &str, d: prost_types::Duration) -> Result<Duration, Violation> {
    let seconds = u64::try_from(d.seconds).ok();
    let nanos = u32::try_from(d.nanos).ok().filter(|n| *n < 1_000_000_000);
    match (seconds, nanos) {
        (Some(seconds), Some(nanos)) => Ok(Duration::new(seconds, nanos)),
        (Some(_) | None, _) => Err(Violation::new(field, "must not be negative")),
    }
}

/// Reads a worker's id; empty: none was given.
///
/// # Errors
/// A violation of `worker_id`.
pub fn to_worker(id: &str) -> Result<Option<WorkerId>, Violation> {
    if id.is_empty() {
        Ok(None)
    } else {
        WorkerId::parse(id).map(Some)
    }
}

/// Reads a page's size.
///
/// # Errors
/// A violation of `page_size`.
pub fn to_page_size(field: &str, size: u32) -> Result<usize, Violation> {
    match usize::try_from(size).unwrap_or(usize::MAX) {
        0 => Ok(100),
        size if size <= limits::BATCH_ITEMS => Ok(size),
        _ => Err(Violation::new(
            field,
            format!("must be at most {}", limits::BATCH_ITEMS),
        )),
    }
}

/// Checks a list's length.
///
/// # Errors
/// A violation of `field` when it is empty or too long.
pub fn check_list(field: &str, len: usize) -> Result<(), Violation> {
    if (1..=limits::BATCH_ITEMS).contains(&len) {
        return Ok(());
    }
    let limit = limits::BATCH_ITEMS;
    Err(Violation::new(
        field,
        format!("has {len} entries; the limits are 1 and {limit}"),
    ))
}

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
pub fn to_backoff(backoff: proto::Backoff, default: Backoff) -> Result<Backoff, Violation> {
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

/// Reads a settlement.
pub fn to_settle_item(settlement: proto::Settlement) -> SettleItem {
    use proto::settlement::Outcome as Wire;
    let refuse = |violation, unimplemented| {
        Asked::Refuse(Refused {
            violation,
            unimplemented,
        })
    };
    let asked = match settlement.outcome {
        None => refuse(Violation::new("outcome", "must be set"), false),
        Some(Wire::Complete(complete)) if !complete.result.is_empty() => refuse(
            Violation::new("complete.result", "keeping results is not served yet"),
            true,
        ),
        Some(Wire::Complete(_)) => Asked::Settle(Settlement::Complete),
        Some(Wire::Release(_)) => Asked::Settle(Settlement::Release),
        Some(Wire::Fail(fail)) => Asked::Settle(Settlement::Fail { error: fail.error }),
        Some(Wire::Rerun(_)) => refuse(Violation::new("rerun", "is not served yet"), true),
        Some(Wire::Retry(retry)) => match to_retry_delay(retry.delay) {
            Ok(delay) => Asked::Settle(Settlement::Retry {
                delay,
                error: retry.error,
            }),
            Err(violation) => refuse(violation, false),
        },
    };
    SettleItem {
        token: settlement.lease_token,
        asked,
    }
}

fn to_retry_delay(delay: Option<prost_types::Duration>) -> Result<Option<Duration>, Violation> {
    let Some(delay) = delay else { return Ok(None) };
    let delay = to_duration("retry.delay", delay)?;
    if delay > limits::MAX_DELAY {
        return Err(Violation::new("retry.delay", "must be at most 366 days"));
    }
    Ok(Some(delay))
}

/// A settlement's result on the wire.
pub fn settle_result(result: SettleResult) -> proto::SettlementResult {
    use proto::SettlementOutcome as Wire;
    let outcome = match result.outcome {
        Outcome::Settled => Wire::Settled,
        Outcome::AlreadySettled => Wire::AlreadySettled,
        Outcome::LeaseLost => Wire::LeaseLost,
        Outcome::TryAgain => Wire::TryAgain,
        Outcome::InvalidLease => Wire::InvalidLease,
        Outcome::Rejected => Wire::Rejected,
    };
    let error = result.refused.map(|refused| {
        if refused.unimplemented {
            Problem::not_served(&refused.violation.field).into_item()
        } else {
            Problem::from(refused.violation).into_item()
        }
    });
    proto::SettlementResult {
        lease_token: result.token,
        outcome: outcome.into(),
        error,
    }
}

/// Why a lease was lost, on the wire.
pub fn lost_reason(reason: LostReason) -> proto::LostReason {
    match reason {
        LostReason::Expired => proto::LostReason::Expired,
        LostReason::Cancelled => proto::LostReason::Cancelled,
        LostReason::Superseded => proto::LostReason::Superseded,
        LostReason::Invalid => proto::LostReason::Invalid,
    }
}

/// A lost lease on the wire.
pub fn lost(lost: Lost) -> proto::LostLease {
    proto::LostLease {
        lease_token: lost.token,
        reason: lost_reason(lost.reason).into(),
    }
}

/// Why a session should go, on the wire.
pub fn go_away_reason(reason: GoAwayReason) -> proto::GoAwayReason {
    match reason {
        GoAwayReason::Draining => proto::GoAwayReason::Draining,
        GoAwayReason::Superseded => proto::GoAwayReason::Superseded,
        GoAwayReason::QueueDeleted => proto::GoAwayReason::QueueDeleted,
        GoAwayReason::TermsChanged => proto::GoAwayReason::TermsChanged,
    }
}

/// A delivery on the wire. The time left is counted now, when it is about to be sent.
pub fn delivery(granted: Granted, now: Instant, wall: UnixMillis) -> proto::Delivery {
    let left = granted.deadline.saturating_duration_since(now);
    let attempt = granted.job.attempt;
    let mut job = plain_job(
        &granted.queue,
        granted.job,
        granted.max_attempts,
        proto::JobState::Leased,
        wall,
    );
    job.fencing_number = granted.sequence;
    job.lease_deadline = Some(timestamp(wall.plus(left)));
    proto::Delivery {
        lease_token: granted.token,
        fencing_number: granted.sequence,
        job: Some(job),
        attempt,
        time_left: Some(duration(left)),
    }
}

fn plain_job(
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

/// A queue on the wire.
pub fn queue(view: QueueView) -> proto::Queue {
    let info = view.info;
    proto::Queue {
        name: view.name.to_string(),
        config: Some(queue_config(&info.config)),
        paused: info.paused,
        created_at: Some(timestamp(info.created_at)),
        stats: Some(proto::QueueStats {
            outstanding: info.messages,
            ready: info.ready,
            in_flight: info.in_flight,
            dead: view.dead,
            sessions: u32::try_from(view.sessions).unwrap_or(u32::MAX),
        }),
        replicas: u32::try_from(info.replicas).unwrap_or(u32::MAX),
    }
}

fn queue_config(config: &QueueConfig) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(duration(config.lease_duration)),
        max_run_time: Some(duration(config.max_run_time.unwrap_or_default())),
        max_attempts: Some(config.max_attempts),
        backoff: Some(proto::Backoff {
            initial: Some(duration(config.backoff.initial())),
            max: Some(duration(config.backoff.max())),
        }),
        max_depth: Some(config.max_depth),
        max_payload_bytes: Some(config.max_payload_bytes),
        disconnect_grace: config.disconnect_grace.map(duration),
        dead_letter_retention: Some(duration(config.dead_letter_retention)),
        dedupe_window: Some(duration(config.dedupe_window)),
    }
}

/// The fields of a queue's configuration, as an update mask names them.
pub const CONFIG_FIELDS: [&str; 9] = [
    "lease_duration",
    "max_run_time",
    "max_attempts",
    "backoff",
    "max_depth",
    "max_payload_bytes",
    "disconnect_grace",
    "dead_letter_retention",
    "dedupe_window",
];

/// Puts fields of a configuration in place, those of [`CONFIG_FIELDS`]; where one is unset, its default.
/// Answers all that could not be read; those fields stay as they are.
pub fn set_config_fields<F: AsRef<str>>(
    into: &mut QueueConfig,
    fields: &[F],
    from: &proto::QueueConfig,
) -> Vec<Violation> {
    let set = |field: &F| set_config_field(into, field.as_ref(), from).err();
    fields.iter().filter_map(set).collect()
}

fn set_config_field(
    into: &mut QueueConfig,
    field: &str,
    from: &proto::QueueConfig,
) -> Result<(), Violation> {
    let default = QueueConfig::default();
    let read = |d: Option<prost_types::Duration>| d.map(|d| to_duration(field, d)).transpose();
    match field {
        "lease_duration" => {
            into.lease_duration = read(from.lease_duration)?.unwrap_or(default.lease_duration);
        }
        "max_run_time" => {
            into.max_run_time = match read(from.max_run_time)? {
                None => default.max_run_time,
                Some(Duration::ZERO) => None,
                Some(most) => Some(most),
            };
        }
        "max_attempts" => into.max_attempts = from.max_attempts.unwrap_or(default.max_attempts),
        "backoff" => {
            let backoff = from
                .backoff
                .map(|b| to_backoff(b, default.backoff))
                .transpose()?;
            into.backoff = backoff.unwrap_or(default.backoff);
        }
        "max_depth" => {
            let given = from.max_depth.filter(|depth| *depth > 0);
            into.max_depth = given.unwrap_or(default.max_depth);
        }
        "max_payload_bytes" => {
            into.max_payload_bytes = from.max_payload_bytes.unwrap_or(default.max_payload_bytes);
        }
        "disconnect_grace" => into.disconnect_grace = read(from.disconnect_grace)?,
        "dead_letter_retention" => {
            let keep = read(from.dead_letter_retention)?;
            into.dead_letter_retention = keep.unwrap_or(default.dead_letter_retention);
        }
        "dedupe_window" => {
            into.dedupe_window = read(from.dedupe_window)?.unwrap_or(default.dedupe_window);
        }
        _ => return Err(Violation::new(field, "is no field of a configuration")),
    }
    Ok(())
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

    #[test]
    fn a_negative_duration_is_called_so() {
        let negative = Duration {
            seconds: -1,
            nanos: 0,
        };
        assert!(to_duration("delay", negative).is_err_and(|bad| bad.problem.contains("negative")));
    }
}
