//! How a command fails: what it says, and the exit code that scripts read.

use std::{fmt, process::ExitCode};

use keywork_sdk::{Error, errors::reasons};
use tonic::Code;

/// A failed command.
#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    kind: Kind,
}

/// The exit codes, as the help tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Anything that is not one of the others.
    Failed = 1,
    /// Bad usage, or a value that the server refuses.
    Usage = 2,
    /// The key has an outstanding job.
    Busy = 3,
    /// No such job or queue.
    NotFound = 4,
    /// Some of many items failed.
    Partly = 5,
    /// Trying again can help.
    NotNow = 75,
}

impl From<Kind> for ExitCode {
    fn from(kind: Kind) -> Self {
        Self::from(kind as u8)
    }
}

impl Failure {
    /// A failure of this kind; `message` completes "failed to".
    pub(super) fn new(kind: Kind, message: impl fmt::Display) -> Self {
        Self {
            message: format!("failed to {message}"),
            kind,
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        self.kind.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Says what was being done when an error came.
pub(super) trait Doing<T> {
    /// `what` completes "failed to".
    fn doing(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T> Doing<T> for Result<T, Error> {
    fn doing(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| {
            Failure::new(kind(&error), format!("{what}: {error}{}", doubt(&error)))
        })
    }
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(Kind::Failed, format!("{what}: {error}")))
    }
}

/// What kind of failure an error is.
pub(super) fn kind(error: &Error) -> Kind {
    let code = error.code();
    if matches!(code, Code::InvalidArgument | Code::OutOfRange) {
        Kind::Usage
    } else if code == Code::NotFound {
        Kind::NotFound
    } else if error.reason() == reasons::KEY_BUSY {
        Kind::Busy
    } else if error.is_retryable() {
        Kind::NotNow
    } else {
        Kind::Failed
    }
}

fn doubt(error: &Error) -> &'static str {
    if error.has_no_side_effects() {
        ""
    } else {
        " (it may have had an effect)"
    }
}
