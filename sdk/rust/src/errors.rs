//! What can go wrong, in one type that answers two questions: may I try again, and can anything
//! have happened?
//!
//! This module reads statuses of the wire; it never decides what to do about them.

use std::{error::Error as StdError, fmt, time::Duration};

pub use tonic::Code;
use tonic::{ConnectError, Status};
use tonic_types::StatusExt;

use crate::{raw, wire};

/// The stable names of what went wrong, as [`Error::reason`] gives them.
///
/// A server may know more than these: treat one that is not here by its [`Error::code`].
pub mod reasons {
    /// A field of the request is malformed or breaks a limit; see [`Error::violations`](super::Error::violations).
    pub const INVALID_FIELD: &str = "INVALID_FIELD";
    /// There is no queue of that name.
    pub const QUEUE_NOT_FOUND: &str = "QUEUE_NOT_FOUND";
    /// The key has no outstanding job.
    pub const JOB_NOT_FOUND: &str = "JOB_NOT_FOUND";
    /// There is no such dead letter.
    pub const DEAD_JOB_NOT_FOUND: &str = "DEAD_JOB_NOT_FOUND";
    /// The key has an outstanding job, and the submit asked for an error in that case.
    pub const KEY_BUSY: &str = "KEY_BUSY";
    /// There is a queue of that name with another configuration.
    pub const QUEUE_EXISTS: &str = "QUEUE_EXISTS";
    /// The queue still holds jobs or dead letters.
    pub const QUEUE_NOT_EMPTY: &str = "QUEUE_NOT_EMPTY";
    /// The queue's stream or consumer was changed in NATS so that a promise would break.
    pub const QUEUE_DRIFTED: &str = "QUEUE_DRIFTED";
    /// The queue is at its limit of outstanding jobs.
    pub const QUEUE_FULL: &str = "QUEUE_FULL";
    /// NATS has no room.
    pub const STORAGE_FULL: &str = "STORAGE_FULL";
    /// NATS is away; nothing was sent to it.
    pub const NATS_UNAVAILABLE: &str = "NATS_UNAVAILABLE";
    /// NATS did not answer; what was sent to it may have been stored.
    pub const NATS_NO_ANSWER: &str = "NATS_NO_ANSWER";
    /// NATS refused for a reason that the server does not know.
    pub const NATS_REFUSED: &str = "NATS_REFUSED";
    /// The server is stopping.
    pub const SERVER_DRAINING: &str = "SERVER_DRAINING";
    /// The contract has it, the server does not yet.
    pub const NOT_SERVED_YET: &str = "NOT_SERVED_YET";
    /// The stream did not begin with Hello.
    pub const HELLO_MISSING: &str = "HELLO_MISSING";
    /// No Hello came in time, or the stream broke before it.
    pub const HELLO_LATE: &str = "HELLO_LATE";
    /// The worker was silent for the liveness timeout.
    pub const SESSION_SILENT: &str = "SESSION_SILENT";
    /// The worker did not read what it was sent.
    pub const SESSION_NOT_READING: &str = "SESSION_NOT_READING";
    /// A newer session has the worker's id.
    pub const SESSION_SUPERSEDED: &str = "SESSION_SUPERSEDED";
    /// The session was asked to reconnect, and its grace is over.
    pub const SESSION_SENT_AWAY: &str = "SESSION_SENT_AWAY";
}

/// One field at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldViolation {
    /// The field's path in the request, such as `items[3].key`.
    pub field: String,
    /// What is wrong with it, naming the limit.
    pub description: String,
}

impl FieldViolation {
    pub(crate) fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            description: description.into(),
        }
    }
}

impl fmt::Display for FieldViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.description)
    }
}

/// A call that failed: a refusal, a server that could not, or a connection that broke.
///
/// That a key is busy is no error: see [`SubmitOutcome`](crate::SubmitOutcome).
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: Code,
    message: String,
    reason: String,
    violations: Vec<FieldViolation>,
    retry_after: Option<Duration>,
    nothing_happened: bool,
    broken: bool,
}

impl Error {
    /// The gRPC code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What the server said, for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The stable name of what went wrong: one of [`reasons`], or empty where none was given.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// The fields at fault, where the request was refused for them.
    #[must_use]
    pub fn violations(&self) -> &[FieldViolation] {
        &self.0.violations
    }

    /// When the server thinks that trying again can help.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// True: the same call may succeed later. Repeat a submit with the same `request_id`.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.is_outage()
            || self.0.retry_after.is_some()
            || (self.0.reason != reasons::SESSION_SUPERSEDED
                && matches!(
                    self.0.code,
                    Code::ResourceExhausted | Code::Aborted | Code::DeadlineExceeded
                ))
    }

    /// True: nothing was stored or changed by the call. False: something may have been.
    #[must_use]
    pub fn has_no_side_effects(&self) -> bool {
        self.0.nothing_happened
    }

    /// The server or the way to it is away: what this crate retries by itself.
    pub(crate) fn is_outage(&self) -> bool {
        self.0.broken || self.0.code == Code::Unavailable
    }

    /// What is asked for breaks a limit, found on this side: like a server's refusal.
    pub(crate) fn invalid(violations: Vec<FieldViolation>) -> Self {
        let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
        let mut error = Self::local(Code::InvalidArgument, texts.join("; "));
        error.0.reason = reasons::INVALID_FIELD.to_owned();
        error.0.violations = violations;
        error
    }

    /// An error that this side found before anything was sent.
    pub(crate) fn local(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            reason: String::new(),
            violations: Vec::new(),
            retry_after: None,
            nothing_happened: true,
            broken: false,
        }))
    }

    /// How a call to this server failed. What is told about a connection names it and the cause.
    pub(crate) fn of_call(status: Status, server: &str) -> Self {
        let lost = if never_connected(&status) {
            Some("cannot be reached")
        } else if is_broken(&status) {
            Some("broke the connection")
        } else {
            None
        };
        let cause = causes(&status).last().map(ToString::to_string);
        let mut error = Self::from(status);
        if let Some((lost, cause)) = lost.zip(cause) {
            error.0.message = format!("{server} {lost}: {cause}");
        }
        error
    }

    /// A call that got no answer in time.
    pub(crate) fn unanswered(message: impl Into<String>) -> Self {
        let mut error = Self::local(Code::DeadlineExceeded, message);
        error.0.nothing_happened = false;
        error.0.broken = true;
        error
    }

    /// The same error, for what was not even sent.
    pub(crate) fn of_nothing_sent(mut self) -> Self {
        self.0.nothing_happened = true;
        self
    }

    /// The same error, where an earlier try of the same call may have had an effect.
    pub(crate) fn with_doubt(mut self, doubt: bool) -> Self {
        self.0.nothing_happened &= !doubt;
        self
    }

    /// The error of one item of a batch.
    pub(crate) fn of_item(item: raw::ItemError) -> Self {
        let violations = if item.field.is_empty() {
            Vec::new()
        } else {
            let named = item.message.strip_prefix(&item.field);
            let described = named.and_then(|rest| rest.strip_prefix(": "));
            let description = described.unwrap_or(&item.message).to_owned();
            vec![FieldViolation::new(item.field, description)]
        };
        Self(Box::new(Inner {
            code: Code::from(item.code),
            message: item.message,
            reason: item.reason,
            violations,
            retry_after: item.retry_after.map(wire::to_duration),
            nothing_happened: !item.side_effects_unknown,
            broken: false,
        }))
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let violations = status.get_details_bad_request().map(|bad| {
            let fields = bad.field_violations.into_iter();
            fields
                .map(|v| FieldViolation::new(v.field, v.description))
                .collect()
        });
        Self(Box::new(Inner {
            code: status.code(),
            message: status.message().to_owned(),
            reason: status
                .get_details_error_info()
                .map(|info| info.reason)
                .unwrap_or_default(),
            violations: violations.unwrap_or_default(),
            retry_after: status
                .get_details_retry_info()
                .and_then(|info| info.retry_delay),
            nothing_happened: nothing_happened(&status),
            broken: is_broken(&status),
        }))
    }
}

/// The server's word where it gave one; otherwise what the code implies.
fn nothing_happened(status: &Status) -> bool {
    let said = status
        .metadata()
        .get("side_effects")
        .and_then(|value| value.to_str().ok());
    match said {
        Some("none") => true,
        Some(_) => false,
        None => never_connected(status) || is_refusal(status.code()),
    }
}

/// Codes with which a server turns a request away before it acts on it.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
    )
}

fn never_connected(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<ConnectError>())
}

/// The connection broke under the call: the status was made on this side, from a cause. tonic calls a
/// killed server UNKNOWN or CANCELLED, so the code alone does not tell.
fn is_broken(status: &Status) -> bool {
    causes(status).next().is_some()
        && !matches!(status.code(), Code::ResourceExhausted | Code::OutOfRange)
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(status.source(), |cause| (*cause).source())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            code,
            message,
            reason,
            ..
        } = &*self.0;
        let text = if message.is_empty() {
            code.description()
        } else {
            message
        };
        write!(f, "{text}")?;
        if !reason.is_empty() {
            write!(f, " [{reason}]")?;
        }
        self.0
            .violations
            .iter()
            .filter(|violation| !message.contains(&violation.description))
            .try_for_each(|violation| write!(f, "; {violation}"))
    }
}

/// What `main` prints of an error that it returns.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Error");
        shown.field("code", &self.0.code);
        shown.field("message", &self.0.message);
        if !self.0.reason.is_empty() {
            shown.field("reason", &self.0.reason);
        }
        if !self.0.violations.is_empty() {
            shown.field("violations", &self.0.violations);
        }
        if let Some(after) = self.0.retry_after {
            shown.field("retry_after", &after);
        }
        shown.field("is_retryable", &self.is_retryable());
        shown.field("has_no_side_effects", &self.0.nothing_happened);
        shown.finish()
    }
}

impl StdError for Error {}
