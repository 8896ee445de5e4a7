//! Jobs and queues as text and as JSON, with the names that the proto has.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use keywork_sdk::{
    Job, SubmitOutcome,
    client::{Queue, QueueConfig},
    job::{DeadJob, DeadReason, JobState},
};
use prost_types::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    duration::show,
    output::{fields, thousands},
};

/// A job as JSON. What is empty is left out; a payload that is no text is in `payload_base64`.
pub(super) fn job_json(job: &Job) -> Value {
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| {
        all.insert(name.to_owned(), value);
    };
    put("id", json!(job.id));
    put("queue", json!(job.queue));
    put("key", json!(job.key));
    match std::str::from_utf8(&job.payload) {
        Ok("") => {}
        Ok(text) => put("payload", json!(text)),
        Err(_) => put("payload_base64", json!(STANDARD.encode(&job.payload))),
    }
    put("content_type", json!(job.content_type));
    put(
        "attributes",
        json!(job.attributes.iter().collect::<BTreeMap<_, _>>()),
    );
    put("state", json!(state(job.state)));
    put("attempt", json!(job.attempt));
    put("max_attempts", json!(job.max_attempts));
    put("submitted_at", json!(job.submitted_at.map(time)));
    put("start_at", json!(job.start_at.map(time)));
    put("expires_at", json!(job.expires_at.map(time)));
    put("last_error", json!(job.last_error));
    put("holder", json!(job.holder));
    put("lease_deadline", json!(job.lease_deadline.map(time)));
    put(
        "fencing_number",
        json!(Some(job.fencing_number).filter(|number| *number > 0)),
    );
    put("age", json!(job.age.map(seconds)));
    all.retain(|_, value| !is_empty(value));
    Value::Object(all)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

/// A job for people.
pub(super) fn job_text(job: &Job) -> String {
    let attributes: BTreeMap<_, _> = job.attributes.iter().collect();
    let attributes = attributes
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"));
    fields(&[
        ("key", job.key.clone()),
        ("queue", job.queue.clone()),
        ("id", job.id.clone()),
        ("state", state(job.state).to_lowercase()),
        (
            "attempt",
            format!("{} of {}", job.attempt, job.max_attempts),
        ),
        ("age", job.age.map(show).unwrap_or_default()),
        ("submitted", job.submitted_at.map(time).unwrap_or_default()),
        ("starts", job.start_at.map(time).unwrap_or_default()),
        ("expires", job.expires_at.map(time).unwrap_or_default()),
        ("holder", job.holder.clone()),
        (
            "lease until",
            job.lease_deadline.map(time).unwrap_or_default(),
        ),
        ("last error", job.last_error.clone()),
        ("attributes", attributes.collect::<Vec<_>>().join(", ")),
        ("content type", job.content_type.clone()),
        ("payload", payload_text(&job.payload)),
    ])
}

fn payload_text(payload: &[u8]) -> String {
    match std::str::from_utf8(payload) {
        Ok(text) if !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') => {
            text.to_owned()
        }
        _ => format!("{} bytes that are no text", thousands(payload.len() as u64)),
    }
}

/// A state's name.
pub(super) fn state(state: JobState) -> &'static str {
    match state {
        JobState::Scheduled => "SCHEDULED",
        JobState::Queued => "QUEUED",
        JobState::Leased => "LEASED",
        JobState::Retrying => "RETRYING",
        JobState::Dead => "DEAD",
        JobState::Ended => "ENDED",
        JobState::Unknown | _ => "UNKNOWN",
    }
}

/// The name of a submit's outcome.
pub(super) fn outcome(outcome: &SubmitOutcome) -> &'static str {
    match outcome {
        SubmitOutcome::Created(_) => "CREATED",
        SubmitOutcome::Duplicate(_) => "DUPLICATE",
        SubmitOutcome::AlreadyOutstanding(_) => "ALREADY_OUTSTANDING",
        SubmitOutcome::RerunScheduled(_) => "RERUN_SCHEDULED",
        SubmitOutcome::Replaced(_) => "REPLACED",
        _ => "UNKNOWN",
    }
}

/// Why a job died.
pub(super) fn dead_reason(reason: DeadReason) -> &'static str {
    match reason {
        DeadReason::AttemptsExhausted => "ATTEMPTS_EXHAUSTED",
        DeadReason::LeaseExpired => "LEASE_EXPIRED",
        DeadReason::Failed => "FAILED",
        DeadReason::Expired => "EXPIRED",
        DeadReason::Unreadable => "UNREADABLE",
        DeadReason::Unknown | _ => "UNKNOWN",
    }
}

/// A dead letter as JSON.
pub(super) fn dead_json(dead: &DeadJob) -> Value {
    json!({
        "dead_id": dead.dead_id,
        "job": job_json(&dead.job),
        "reason": dead_reason(dead.reason),
        "died_at": dead.died_at.map(time),
    })
}

/// A queue as JSON.
pub(super) fn queue_json(queue: &Queue) -> Value {
    let stats = &queue.stats;
    json!({
        "name": queue.name,
        "config": config_json(&queue.config),
        "paused": queue.paused,
        "created_at": queue.created_at.map(time),
        "stats": {
            "outstanding": stats.outstanding,
            "ready": stats.ready,
            "in_flight": stats.in_flight,
            "dead": stats.dead,
            "sessions": stats.sessions,
        },
        "replicas": queue.replicas,
    })
}

/// What a queue does without, such as a disconnect grace, is left out.
fn config_json(config: &QueueConfig) -> Value {
    let mut all = json!({
        "lease_duration": config.lease_duration.map(seconds),
        "max_run_time": config.max_run_time.map(seconds),
        "max_attempts": config.max_attempts,
        "backoff": config.backoff.map(|(initial, max)| json!({"initial": seconds(initial), "max": seconds(max)})),
        "max_depth": config.max_depth,
        "max_payload_bytes": config.max_payload_bytes,
        "disconnect_grace": config.disconnect_grace.map(seconds),
        "dead_letter_retention": config.dead_letter_retention.map(seconds),
        "dedupe_window": config.dedupe_window.map(seconds),
    });
    if let Some(all) = all.as_object_mut() {
        all.retain(|_, value| !value.is_null());
    }
    all
}

/// A queue for people.
pub(super) fn queue_text(queue: &Queue) -> String {
    let (stats, config) = (&queue.stats, &queue.config);
    let duration = |duration: Option<Duration>| duration.map(show).unwrap_or_default();
    let backoff = config
        .backoff
        .map(|(initial, max)| format!("{} doubling to {}", show(initial), show(max)));
    fields(&[
        ("queue", queue.name.clone()),
        (
            "deliveries",
            if queue.paused { "paused" } else { "on" }.to_owned(),
        ),
        ("outstanding", thousands(stats.outstanding)),
        ("  ready", thousands(stats.ready)),
        ("  in flight", thousands(stats.in_flight)),
        ("dead letters", thousands(stats.dead)),
        ("sessions", stats.sessions.to_string()),
        ("lease duration", duration(config.lease_duration)),
        (
            "max run time",
            config.max_run_time.map(limit).unwrap_or_default(),
        ),
        (
            "max attempts",
            config
                .max_attempts
                .map(|n| n.to_string())
                .unwrap_or_default(),
        ),
        ("backoff", backoff.unwrap_or_default()),
        (
            "max depth",
            config.max_depth.map(thousands).unwrap_or_default(),
        ),
        (
            "max payload",
            config
                .max_payload_bytes
                .map(|n| format!("{} bytes", thousands(n.into())))
                .unwrap_or_default(),
        ),
        ("disconnect grace", duration(config.disconnect_grace)),
        ("dead letters kept", duration(config.dead_letter_retention)),
        ("dedupe window", duration(config.dedupe_window)),
        ("replicas", queue.replicas.to_string()),
        ("created", queue.created_at.map(time).unwrap_or_default()),
    ])
}

fn limit(duration: Duration) -> String {
    if duration.is_zero() {
        "no limit".to_owned()
    } else {
        show(duration)
    }
}

/// A time as RFC 3339.
pub(super) fn time(time: SystemTime) -> String {
    Timestamp::from(time).to_string()
}

/// A duration as the JSON of protobuf has it, such as `1.5s`.
fn seconds(duration: Duration) -> String {
    prost_types::Duration::try_from(duration)
        .map(|d| d.to_string())
        .unwrap_or_default()
}
