//! One table from what went wrong to what is said on the wire. `docs/errors.md` shows it.

use std::{collections::HashMap, time::Duration};

use keywork_engine::{AdminError, LookError, OpenError, SessionEnd, SubmitError};
use keywork_jetstream::{ApiError, Failure};
use keywork_model::Violation;
use tonic::{Code, Status, metadata::MetadataMap};
use tonic_types::{ErrorDetails, StatusExt};

use crate::proto;

/// The domain of every `ErrorInfo`.
pub const DOMAIN: &str = "keywork.dev";
/// The metadata entry of UNAVAILABLE that says whether anything may have happened.
pub const SIDE_EFFECTS: &str = "side_effects";

const RETRY_SOON: Duration = Duration::from_millis(500);
const RETRY_LATER: Duration = Duration::from_secs(2);

/// The stable reasons of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A field breaks a limit.
    InvalidField,
    /// No such queue.
    QueueNotFound,
    /// The key has no outstanding job.
    JobNotFound,
    /// No such dead letter.
    DeadJobNotFound,
    /// The key has an outstanding job, and the caller wanted an error then.
    KeyBusy,
    /// The queue exists with another configuration.
    QueueExists,
    /// The queue holds something, and `force` was not set.
    QueueNotEmpty,
    /// The queue's stream or consumer was changed so that a law would break.
    QueueDrifted,
    /// The queue has reached its limit of outstanding jobs.
    QueueFull,
    /// NATS has no room.
    StorageFull,
    /// NATS is away, or has no leader now: nothing happened.
    NatsUnavailable,
    /// NATS did not answer: anything may have happened.
    NatsNoAnswer,
    /// NATS refused for a reason that Keywork does not know.
    NatsRefused,
    /// The server is stopping.
    ServerDraining,
    /// The contract has it, this server does not yet.
    NotServedYet,
    /// The stream did not begin with Hello.
    HelloMissing,
    /// No Hello came in time, or the stream broke before it.
    HelloLate,
    /// The worker was silent for the liveness timeout.
    SessionSilent,
    /// The worker did not read what it was sent.
    SessionNotReading,
    /// A newer session has the worker's id.
    SessionSuperseded,
    /// The session was asked to reconnect, and its grace is over.
    SessionSentAway,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::InvalidField,
        Self::QueueNotFound,
        Self::JobNotFound,
        Self::DeadJobNotFound,
        Self::KeyBusy,
        Self::QueueExists,
        Self::QueueNotEmpty,
        Self::QueueDrifted,
        Self::QueueFull,
        Self::StorageFull,
        Self::NatsUnavailable,
        Self::NatsNoAnswer,
        Self::NatsRefused,
        Self::ServerDraining,
        Self::NotServedYet,
        Self::HelloMissing,
        Self::HelloLate,
        Self::SessionSilent,
        Self::SessionNotReading,
        Self::SessionSuperseded,
        Self::SessionSentAway,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidField => "INVALID_FIELD",
            Self::QueueNotFound => "QUEUE_NOT_FOUND",
            Self::JobNotFound => "JOB_NOT_FOUND",
            Self::DeadJobNotFound => "DEAD_JOB_NOT_FOUND",
            Self::KeyBusy => "KEY_BUSY",
            Self::QueueExists => "QUEUE_EXISTS",
            Self::QueueNotEmpty => "QUEUE_NOT_EMPTY",
            Self::QueueDrifted => "QUEUE_DRIFTED",
            Self::QueueFull => "QUEUE_FULL",
            Self::StorageFull => "STORAGE_FULL",
            Self::NatsUnavailable => "NATS_UNAVAILABLE",
            Self::NatsNoAnswer => "NATS_NO_ANSWER",
            Self::NatsRefused => "NATS_REFUSED",
            Self::ServerDraining => "SERVER_DRAINING",
            Self::NotServedYet => "NOT_SERVED_YET",
            Self::HelloMissing => "HELLO_MISSING",
            Self::HelloLate => "HELLO_LATE",
            Self::SessionSilent => "SESSION_SILENT",
            Self::SessionNotReading => "SESSION_NOT_READING",
            Self::SessionSuperseded => "SESSION_SUPERSEDED",
            Self::SessionSentAway => "SESSION_SENT_AWAY",
        }
    }

    /// The status code that goes with it.
    pub fn code(self) -> Code {
        match self {
            Self::InvalidField | Self::HelloMissing => Code::InvalidArgument,
            Self::QueueNotFound | Self::JobNotFound | Self::DeadJobNotFound => Code::NotFound,
            Self::KeyBusy | Self::QueueExists => Code::AlreadyExists,
            Self::QueueNotEmpty | Self::QueueDrifted => Code::FailedPrecondition,
            Self::QueueFull | Self::StorageFull | Self::SessionNotReading => {
                Code::ResourceExhausted
            }
            Self::NatsUnavailable
            | Self::NatsNoAnswer
            | Self::ServerDraining
            | Self::HelloLate
            | Self::SessionSilent
            | Self::SessionSentAway => Code::Unavailable,
            Self::NatsRefused => Code::Internal,
            Self::NotServedYet => Code::Unimplemented,
            Self::SessionSuperseded => Code::Aborted,
        }
    }

    /// When to try again, where that can help.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::NatsUnavailable | Self::NatsNoAnswer | Self::ServerDraining => Some(RETRY_SOON),
            Self::QueueFull | Self::StorageFull => Some(RETRY_LATER),
            Self::InvalidField
            | Self::QueueNotFound
            | Self::JobNotFound
            | Self::DeadJobNotFound
            | Self::KeyBusy
            | Self::QueueExists
            | Self::QueueNotEmpty
            | Self::QueueDrifted
            | Self::NatsRefused
            | Self::NotServedYet
            | Self::HelloMissing
            | Self::HelloLate
            | Self::SessionSilent
            | Self::SessionNotReading
            | Self::SessionSuperseded
            | Self::SessionSentAway => None,
        }
    }
}

/// What went wrong, as the wire says it.
#[derive(Clone, Debug)]
pub struct Problem {
    reason: Reason,
    message: String,
    violations: Vec<Violation>,
    side_effects_unknown: bool,
}

impl Problem {
    /// A problem with a message for people.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let side_effects_unknown = reason == Reason::NatsNoAnswer;
        Self {
            reason,
            message: message.into(),
            violations: Vec::new(),
            side_effects_unknown,
        }
    }

    /// Something of the contract that this server does not serve yet.
    pub fn not_served(what: &str) -> Self {
        Self::new(Reason::NotServedYet, format!("{what} is not served yet"))
    }

    /// Whether it says that there is no such queue.
    pub fn is_queue_not_found(&self) -> bool {
        self.reason == Reason::QueueNotFound
    }

    /// One item's error, as in a batch.
    pub fn into_item(self) -> proto::ItemError {
        proto::ItemError {
            code: self.reason.code().into(),
            field: self
                .violations
                .first()
                .map(|v| v.field.clone())
                .unwrap_or_default(),
            message: self.message,
            reason: self.reason.as_str().into(),
            side_effects_unknown: self.side_effects_unknown,
            retry_after: self.reason.retry_after().map(crate::convert::duration),
        }
    }
}

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        let mut details = ErrorDetails::new();
        details.set_error_info(problem.reason.as_str(), DOMAIN, HashMap::new());
        for violation in &problem.violations {
            details.add_bad_request_violation(&violation.field, &violation.problem);
        }
        if let Some(after) = problem.reason.retry_after() {
            details.set_retry_info(Some(after));
        }
        let code = problem.reason.code();
        let mut metadata = MetadataMap::new();
        if code == Code::Unavailable {
            let value = if problem.side_effects_unknown {
                "unknown"
            } else {
                "none"
            };
            metadata.insert(
                SIDE_EFFECTS,
                tonic::metadata::MetadataValue::from_static(value),
            );
        }
        Self::with_error_details_and_metadata(code, problem.message, details, metadata)
    }
}

impl From<Violation> for Problem {
    fn from(violation: Violation) -> Self {
        vec![violation].into()
    }
}

impl From<Vec<Violation>> for Problem {
    fn from(violations: Vec<Violation>) -> Self {
        let texts: Vec<String> = violations.iter().map(Violation::to_string).collect();
        Self {
            violations,
            ..Self::new(Reason::InvalidField, texts.join("; "))
        }
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        let reason = match &error {
            ApiError::Failed(Failure::NotSent | Failure::NoResponders) => Reason::NatsUnavailable,
            ApiError::Failed(Failure::TimedOut) => Reason::NatsNoAnswer,
            ApiError::Refused(refusal) if refusal.no_room() => Reason::StorageFull,
            ApiError::Refused(_) | ApiError::Unreadable(_) => Reason::NatsRefused,
        };
        let no_room = reason == Reason::StorageFull;
        let text = if no_room { "NATS has no room: " } else { "" };
        Self::new(reason, format!("{text}{error}"))
    }
}

impl From<OpenError> for Problem {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Unknown(_) => Self::new(Reason::QueueNotFound, error.to_string()),
            OpenError::Drift(text) => Self::new(Reason::QueueDrifted, text),
            OpenError::Nats(error) => error.into(),
            OpenError::Invalid(violation) => violation.into(),
            OpenError::Stopping => Self::new(Reason::ServerDraining, error.to_string()),
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Open(error) => error.into(),
            SubmitError::Invalid(violation) => violation.into(),
            SubmitError::KeyBusy(_) => Self::new(Reason::KeyBusy, error.to_string()),
            SubmitError::QueueFull { .. } => Self::new(Reason::QueueFull, error.to_string()),
            SubmitError::Nats(error) => error.into(),
        }
    }
}

impl From<LookError> for Problem {
    fn from(error: LookError) -> Self {
        match error {
            LookError::Open(error) => error.into(),
            LookError::NoJob => Self::new(Reason::JobNotFound, error.to_string()),
            LookError::Nats(error) => error.into(),
        }
    }
}

impl From<AdminError> for Problem {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::Open(error) => error.into(),
            AdminError::Config(violations) => violations
                .into_iter()
                .map(|v| v.within("config"))
                .collect::<Vec<_>>()
                .into(),
            AdminError::Exists(_) => Self::new(Reason::QueueExists, error.to_string()),
            AdminError::NotEmpty { .. } => Self::new(Reason::QueueNotEmpty, error.to_string()),
            AdminError::Nats(error) => error.into(),
        }
    }
}

/// What ends a session's stream; `None`: the worker closed it, and all is well.
pub fn of_session_end(end: SessionEnd) -> Option<Problem> {
    use keywork_engine::GoAwayReason as Away;
    let (reason, text) = match end {
        SessionEnd::Closed => return None,
        SessionEnd::Silent => (
            Reason::SessionSilent,
            "the worker was silent for the liveness timeout",
        ),
        SessionEnd::NotReading => (
            Reason::SessionNotReading,
            "the worker did not read what it was sent",
        ),
        SessionEnd::SentAway(Away::Superseded) => (
            Reason::SessionSuperseded,
            "a newer session has this worker's id",
        ),
        SessionEnd::SentAway(Away::Draining) => (Reason::ServerDraining, "the server is stopping"),
        SessionEnd::SentAway(Away::QueueDeleted) => (
            Reason::SessionSentAway,
            "a queue of this session was deleted: reconnect",
        ),
        SessionEnd::SentAway(Away::TermsChanged) => (
            Reason::SessionSentAway,
            "a queue's lease duration changed: reconnect",
        ),
    };
    Some(Problem::new(reason, text))
}
