//! How opening a queue fails: what every operation that names one may answer.

use keywork_jetstream::{ApiError, queues::QueueError};
use keywork_model::{QueueName, Violation};

/// Why a queue cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such queue, and this server makes none by itself.
    #[error("there is no queue {0}")]
    Unknown(QueueName),
    /// Its stream or consumer has drifted from what Keywork needs.
    #[error("{0}")]
    Drift(String),
    /// NATS failed.
    #[error(transparent)]
    Nats(#[from] ApiError),
    /// The request is wrong.
    #[error(transparent)]
    Invalid(#[from] Violation),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}

impl From<QueueError> for OpenError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Unknown(queue) => Self::Unknown(queue),
            QueueError::Api(error) => Self::Nats(error),
            QueueError::Drift { .. } | QueueError::Exists(_) => Self::Drift(error.to_string()),
        }
    }
}
