//! Offering jobs, as the runner says.

use std::time::{Duration, Instant, SystemTime};

use futures::{StreamExt, stream};
use keywork_sdk::{Client, Error, Submit, SubmitOutcome, Uuid, client::OnConflict, job::JobState};
use opentelemetry::trace::FutureExt;
use serde_json::json;

use crate::{
    command::{self, Conflict, SubmitMany, Throughput},
    emit::{emit, fault, refuse},
    intercept,
};

/// The payload of a throughput run's jobs.
const PAYLOAD: [u8; 256] = [b'x'; 256];

pub(crate) async fn one(client: Client, call: String, command: command::Submit) {
    let around = intercept::around(command.traceparent.as_deref());
    let Ok(submit) = submit(command) else {
        return refuse(&call, "INVALID_ARGUMENT", "the request_id is no UUID");
    };
    match client.submit(submit).with_context(around).await {
        Ok(outcome) => emit(&json!({
            "event": "submitted",
            "call": call,
            "outcome": name(&outcome),
            "job": outcome.job().id,
            "state": state(outcome.job().state),
        })),
        Err(error) => fault(&call, &error),
    }
}

fn submit(command: command::Submit) -> Result<Submit, ()> {
    let mut submit = Submit::new(command.queue, command.key)
        .payload(command.payload)
        .attributes(command.attributes);
    if let Some(id) = command.request_id {
        submit = submit.request_id(Uuid::parse_str(&id).map_err(drop)?);
    }
    if let Some(conflict) = command.on_conflict {
        submit = submit.on_conflict(match conflict {
            Conflict::Reject => OnConflict::Reject,
            Conflict::Rerun => OnConflict::Rerun,
            Conflict::Replace => OnConflict::Replace,
            Conflict::Fail => OnConflict::Fail,
        });
    }
    if let Some(delay) = command.delay_ms {
        submit = submit.delay(Duration::from_millis(delay));
    }
    if let Some(left) = command.expires_in_ms {
        submit = submit.expires_at(now() + Duration::from_millis(left));
    }
    if let Some(attempts) = command.max_attempts {
        submit = submit.max_attempts(attempts);
    }
    Ok(submit)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the runner says how long from now; the contract wants a time"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

pub(crate) async fn many(client: Client, call: String, command: SubmitMany) {
    let SubmitMany {
        queue,
        keys,
        payload,
    } = command;
    let submits = keys
        .into_iter()
        .map(|key| Submit::new(&queue, key).payload(payload.clone()));
    let results = client.submit_many(submits).await;
    let outcomes: Vec<String> = results.iter().map(outcome_or_reason).collect();
    emit(&json!({"event": "submitted_many", "call": call, "outcomes": outcomes}));
}

pub(crate) fn outcome_or_reason(result: &Result<SubmitOutcome, Error>) -> String {
    match result {
        Ok(outcome) => name(outcome).to_owned(),
        Err(error) => error.reason().to_owned(),
    }
}

pub(crate) async fn throughput(client: Client, call: String, command: Throughput) {
    let Throughput {
        queue,
        jobs,
        prefix,
    } = command;
    let begun = Instant::now();
    let submits = (0..jobs)
        .map(move |number| Submit::new(&queue, format!("{prefix}-{number}")).payload(&PAYLOAD[..]));
    let answers = client.submit_stream(stream::iter(submits));
    let created = answers
        .filter(|(_, result)| {
            let created = matches!(result, Ok(SubmitOutcome::Created(_)));
            async move { created }
        })
        .count()
        .await;
    let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    emit(&json!({"event": "submitted_many", "call": call, "created": created, "ms": ms}));
}

/// An outcome's name in the contract.
fn name(outcome: &SubmitOutcome) -> &'static str {
    match outcome {
        SubmitOutcome::Created(_) => "CREATED",
        SubmitOutcome::Duplicate(_) => "DUPLICATE",
        SubmitOutcome::AlreadyOutstanding(_) => "ALREADY_OUTSTANDING",
        SubmitOutcome::RerunScheduled(_) => "RERUN_SCHEDULED",
        SubmitOutcome::Replaced(_) => "REPLACED",
        _ => "",
    }
}

/// A state's name in the contract.
pub(crate) fn state(state: JobState) -> &'static str {
    match state {
        JobState::Scheduled => "SCHEDULED",
        JobState::Queued => "QUEUED",
        JobState::Leased => "LEASED",
        JobState::Retrying => "RETRYING",
        JobState::Dead => "DEAD",
        JobState::Ended => "ENDED",
        JobState::Unknown | _ => "",
    }
}
