//! Writing events: each a line of its own, flushed at once.

use std::io::{Write, stdout};

use keywork_sdk::Error;
use serde_json::{Value, json};
use tonic::Code;

/// Writes one event.
pub(crate) fn emit(event: &Value) {
    let mut out = stdout().lock();
    // A runner that has gone ends this process by its stdin.
    // In one piece: while the process exits stdout is no longer buffered, and a line could break off.
    let line = format!("{event}\n");
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// A call failed with an error of the SDK.
pub(crate) fn fault(call: &str, error: &Error) {
    let fields: Vec<&str> = error
        .violations()
        .iter()
        .map(|v| v.field.as_str())
        .collect();
    emit(&json!({
        "event": "error",
        "call": call,
        "code": code(error.code()),
        "reason": error.reason(),
        "retryable": error.is_retryable(),
        "no_side_effects": error.has_no_side_effects(),
        "fields": fields,
        "message": error.to_string(),
    }));
}

/// A command that this program cannot follow.
pub(crate) fn refuse(call: &str, code: &str, message: &str) {
    emit(&json!({
        "event": "error", "call": call, "code": code, "reason": "", "fields": [], "message": message,
    }));
}

/// A gRPC code's name.
pub(crate) fn code(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
