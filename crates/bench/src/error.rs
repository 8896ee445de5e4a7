//! How a measurement fails. Nothing is tried again: a figure with an error in it is no figure.

use std::{io, path::PathBuf, time::Duration};

/// How a measurement fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A server did not start.
    #[error("failed to start {program}: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A server started and did not answer.
    #[error("failed to reach {what} within {within:?}; its log is {log}")]
    NotReady {
        /// What.
        what: &'static str,
        /// How long it was waited for.
        within: Duration,
        /// Where it logs.
        log: PathBuf,
    },
    /// A file, a port or the terminal.
    #[error("failed to {what}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// NATS failed.
    #[error("NATS failed: {0}")]
    Nats(String),
    /// Keywork answered an error.
    #[error("Keywork failed: {0}")]
    Keywork(#[from] tonic::Status),
    /// The connection to Keywork.
    #[error("failed to connect to Keywork: {0}")]
    Connect(#[from] tonic::transport::Error),
    /// An answer that the measured work must not have.
    #[error("an answer was wrong: {0}")]
    Wrong(String),
    /// The work did not end.
    #[error("the work did not end within {0:?}")]
    Stuck(Duration),
}

impl Error {
    /// Something that NATS or its client said.
    pub(crate) fn nats(error: impl std::fmt::Display) -> Self {
        Self::Nats(error.to_string())
    }

    /// An answer that should have been another.
    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        Self::Wrong(what.into())
    }

    /// Something that the system refused.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
