//! Times and answers as the fake server writes them.

use std::time::{Duration, Instant, SystemTime};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::{errors::reasons, raw, wire};

/// The wall clock, for what people look at.
#[expect(
    clippy::disallowed_methods,
    reason = "a fake server has no clock but this one"
)]
pub(super) fn wall() -> prost_types::Timestamp {
    SystemTime::now().into()
}

/// How long until then, as the wire has it.
pub(super) fn left(deadline: Instant, now: Instant) -> Option<prost_types::Duration> {
    Some(wire::from_duration(deadline.saturating_duration_since(now)))
}

/// A refusal with its stable reason.
pub(super) fn refusal(code: Code, reason: &str, message: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "keywork.dev", []);
    Status::with_error_details(code, message, details)
}

/// A refusal that names a field.
pub(super) fn bad_field(field: &str, description: &str) -> Status {
    let mut details = ErrorDetails::with_error_info(reasons::INVALID_FIELD, "keywork.dev", []);
    details.add_bad_request_violation(field, description);
    Status::with_error_details(
        Code::InvalidArgument,
        format!("{field}: {description}"),
        details,
    )
}

/// NATS is away: `side_effects` is "none" or "unknown".
pub(super) fn outage(side_effects: &'static str) -> Status {
    let reason = if side_effects == "none" {
        reasons::NATS_UNAVAILABLE
    } else {
        reasons::NATS_NO_ANSWER
    };
    let mut status = refusal(Code::Unavailable, reason, "NATS is away");
    if let Ok(value) = side_effects.parse() {
        status.metadata_mut().insert("side_effects", value);
    }
    status
}

/// What the status of a unary call says, for one item of a batch.
pub(super) fn item(status: &Status) -> raw::ItemError {
    let field = status
        .get_details_bad_request()
        .and_then(|bad| bad.field_violations.into_iter().next());
    raw::ItemError {
        code: status.code() as i32,
        message: status.message().to_owned(),
        reason: status
            .get_details_error_info()
            .map(|info| info.reason)
            .unwrap_or_default(),
        field: field.map(|violation| violation.field).unwrap_or_default(),
        side_effects_unknown: status
            .metadata()
            .get("side_effects")
            .is_some_and(|value| value == "unknown"),
        retry_after: (status.code() == Code::Unavailable)
            .then(|| wire::from_duration(Duration::from_millis(10))),
    }
}
