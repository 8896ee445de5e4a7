//! JetStream's answers, typed: what failed, and whether anything may have happened.

use async_nats::Message;
use serde::{Deserialize, de::DeserializeOwned};

use crate::requester::Reply;

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// NATS is away, or too many requests wait: nothing was sent.
    #[error("NATS is away; nothing was sent")]
    NotSent,
    /// Nobody serves the subject now, as while a leader moves: nothing happened.
    #[error("no JetStream leader answers now; nothing happened")]
    NoResponders,
    /// NATS did not answer in time: anything may have happened, also later.
    #[error("NATS did not answer in time")]
    TimedOut,
}

impl Failure {
    pub(crate) fn of_status(message: &Message) -> Option<Self> {
        let status = message.status?;
        (status == async_nats::StatusCode::NO_RESPONDERS).then_some(Self::NoResponders)
    }

    /// Whether it is certain that nothing happened.
    pub fn nothing_happened(self) -> bool {
        self != Self::TimedOut
    }
}

/// JetStream's own errors that Keywork tells apart, by `err_code`.
pub mod code {
    /// A message or sequence that is not there.
    pub const NO_MESSAGE: u32 = 10037;
    /// Deleting a sequence that is gone: from within a block that is still stored.
    pub const SEQUENCE_GONE: u32 = 10043;
    /// Deleting a sequence that is gone: below what is stored, or never there.
    pub const NO_SEQUENCE: u32 = 10057;
    /// A stream of that name exists, with another configuration.
    pub const STREAM_EXISTS: u32 = 10058;
    /// No such stream.
    pub const NO_STREAM: u32 = 10059;
    /// Not as many nodes as replicas are there, as while a cluster forms.
    pub const NO_PEERS: u32 = 10005;
    /// The cluster has no leader now: nothing happened.
    pub const NOT_AVAILABLE: u32 = 10008;
    /// No such consumer.
    pub const NO_CONSUMER: u32 = 10014;
    /// The subject's last sequence is another.
    pub const WRONG_LAST: u32 = 10071;
    /// The store refused: the key is busy, or the stream is full. Only the text tells.
    pub const STORE_FAILED: u32 = 10077;
    /// The account's limit of storage is reached, this server's, or that of all servers; or its limit of memory.
    pub const NO_ROOM: [u32; 4] = [10002, 10023, 10047, 10028];
    /// R3: a duplicate is in flight.
    pub const DUPLICATE_IN_FLIGHT: u32 = 10158;
    /// R3: a publish on the subject is in flight.
    pub const PUBLISH_IN_FLIGHT: u32 = 10164;
}

/// An error that JetStream answered.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, thiserror::Error)]
#[error("JetStream answered {code} (err_code {err_code}): {description}")]
pub struct Refusal {
    /// Like an HTTP status.
    pub code: u16,
    /// JetStream's own code.
    #[serde(default)]
    pub err_code: u32,
    /// For people.
    #[serde(default)]
    pub description: String,
}

/// How a call of JetStream's API failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// There is no answer.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The answer is an error.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The answer could not be read.
    #[error("failed to read JetStream's answer: {0}")]
    Unreadable(String),
}

impl ApiError {
    /// JetStream's own code, where it answered an error.
    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Refused(refusal) => Some(refusal.err_code),
            Self::Failed(_) | Self::Unreadable(_) => None,
        }
    }

    /// Whether the stream is not there.
    pub(crate) fn no_stream(&self) -> bool {
        self.code() == Some(code::NO_STREAM)
    }

    /// Whether it is certain that nothing happened.
    pub fn nothing_happened(&self) -> bool {
        match self {
            Self::Failed(failure) => failure.nothing_happened(),
            Self::Refused(_) => true,
            Self::Unreadable(_) => false,
        }
    }
}

#[derive(Deserialize)]
struct Envelope {
    error: Option<Refusal>,
}

impl Reply {
    /// The answer of JetStream's API, or the error that it answered.
    pub(crate) fn json<T: DeserializeOwned>(self) -> Result<T, ApiError> {
        let payload = self.0?;
        let unreadable = |e: serde_json::Error| ApiError::Unreadable(e.to_string());
        let envelope: Envelope = serde_json::from_slice(&payload).map_err(unreadable)?;
        match envelope.error {
            Some(refusal) if refusal.err_code == code::NOT_AVAILABLE => {
                Err(Failure::NoResponders.into())
            }
            Some(refusal) => Err(refusal.into()),
            None => serde_json::from_slice(&payload).map_err(unreadable),
        }
    }

    /// The answer to an ack: an empty message, or a failure.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn acked(self) -> Result<(), Failure> {
        self.0.map(drop)
    }

    /// The answer to a publish.
    pub fn published(self) -> Published {
        let payload = match self.0 {
            Ok(payload) => payload,
            Err(failure) => return Published::Failed(failure),
        };
        match serde_json::from_slice::<PubAck>(&payload) {
            Ok(ack) => Published::from(ack),
            Err(_) => Published::Refused(Refusal {
                code: 500,
                err_code: 0,
                description: "an answer that is no publish ack".into(),
            }),
        }
    }

    /// The answer to deleting a sequence: whether it was there.
    ///
    /// # Errors
    /// What failed.
    pub fn deleted(self) -> Result<bool, ApiError> {
        match self.json::<Success>() {
            Ok(Success { success }) => Ok(success),
            Err(error) if gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether JetStream says that a message is not there.
fn gone(error: &ApiError) -> bool {
    matches!(
        error.code(),
        Some(code::NO_SEQUENCE | code::SEQUENCE_GONE | code::NO_MESSAGE)
    )
}

#[derive(Deserialize)]
struct Success {
    #[serde(default)]
    success: bool,
}

impl Refusal {
    /// Whether the stream is full, or NATS.
    pub fn no_room(&self) -> bool {
        let stream = self.err_code == code::STORE_FAILED && self.description.contains("maximum");
        (stream && !self.key_busy()) || code::NO_ROOM.contains(&self.err_code)
    }

    fn key_busy(&self) -> bool {
        self.err_code == code::STORE_FAILED && self.description.contains("per subject")
    }
}

#[derive(Deserialize)]
struct PubAck {
    error: Option<Refusal>,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
}

/// What became of a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// Stored at this sequence.
    Stored(u64),
    /// JetStream knows its Msg-Id, from this sequence. The message may be gone.
    Duplicate(u64),
    /// The key has a message already.
    KeyBusy,
    /// There is no room.
    Full(Refusal),
    /// The subject's last sequence is another: 0 where it has none.
    WrongLast(u64),
    /// Another publish on the subject is in flight: ask again.
    InFlight,
    /// Another error.
    Refused(Refusal),
    /// There is no answer.
    Failed(Failure),
}

impl From<PubAck> for Published {
    fn from(ack: PubAck) -> Self {
        let Some(refusal) = ack.error else {
            return if ack.duplicate {
                Self::Duplicate(ack.seq)
            } else {
                Self::Stored(ack.seq)
            };
        };
        match refusal.err_code {
            code::WRONG_LAST => Self::WrongLast(trailing_number(&refusal.description)),
            code::DUPLICATE_IN_FLIGHT | code::PUBLISH_IN_FLIGHT => Self::InFlight,
            _ if refusal.key_busy() => Self::KeyBusy,
            _ if refusal.no_room() => Self::Full(refusal),
            _ => Self::Refused(refusal),
        }
    }
}

/// The number that "wrong last sequence: 17" ends with.
fn trailing_number(text: &str) -> u64 {
    text.rsplit(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// Reads JSON that JetStream answered, treating "not there" as `None`.
pub(crate) fn found<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(json: &str) -> Published {
        Published::from(serde_json::from_str::<PubAck>(json).expect("a publish ack"))
    }

    fn error(err_code: u32, description: &str) -> String {
        format!(r#"{{"error":{{"code":400,"err_code":{err_code},"description":"{description}"}}}}"#)
    }

    #[test]
    fn publish_answers_are_told_apart() {
        assert_eq!(published(r#"{"stream":"S","seq":7}"#), Published::Stored(7));
        assert_eq!(
            published(r#"{"seq":7,"duplicate":true}"#),
            Published::Duplicate(7)
        );
        let busy = error(10077, "maximum messages per subject exceeded");
        assert_eq!(published(&busy), Published::KeyBusy);
        let full = published(&error(10077, "maximum bytes exceeded"));
        assert!(matches!(full, Published::Full(_)));
        let full = published(&error(10023, "insufficient resources"));
        assert!(matches!(full, Published::Full(_)));
        assert_eq!(
            published(&error(10071, "wrong last sequence: 17")),
            Published::WrongLast(17)
        );
        assert_eq!(published(&error(10164, "x")), Published::InFlight);
        assert!(matches!(
            published(&error(10003, "x")),
            Published::Refused(_)
        ));
    }
}
