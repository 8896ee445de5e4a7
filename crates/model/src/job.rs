//! A job, as it is offered and as it is stored.

use std::{collections::BTreeMap, fmt, str::FromStr};

use bytes::Bytes;
use uuid::Uuid;

use crate::{Backoff, JobKey, QueueConfig, UnixMillis, Violation, limits};

/// What a caller says of a job beside its payload, by name.
pub type Attributes = BTreeMap<String, String>;

/// Names one job for good. A submit's `request_id` becomes the job's id.
///
/// Invariant: a UUID, written in its canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(Uuid);

impl JobId {
    /// A new id, ordered by time.
    pub fn new(now: UnixMillis, random: [u8; 10]) -> Self {
        Self(uuid::Builder::from_unix_timestamp_millis(now.0, &random).into_uuid())
    }

    /// Checks a `request_id`.
    ///
    /// # Errors
    /// A violation of `request_id` when it is not a UUID, or the one that is all zeros: callers send that
    /// where they have none.
    pub fn parse(text: &str) -> Result<Self, Violation> {
        match Uuid::from_str(text) {
            Ok(id) if id.is_nil() => Err("must not be all zeros; leave it out to have one made"),
            Ok(id) => Ok(Self(id)),
            Err(_) => Err("must be a UUID"),
        }
        .map_err(|problem| Violation::new("request_id", problem))
    }

    /// The id of a job that somebody published to the stream without one: the same at every look.
    pub fn of_foreign(incarnation: u64, sequence: u64) -> Self {
        let name = [incarnation.to_be_bytes(), sequence.to_be_bytes()].concat();
        Self(Uuid::new_v5(&Uuid::NAMESPACE_OID, &name))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

/// Why a job became a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// Its last allowed attempt was settled as retry.
    AttemptsExhausted,
    /// Its last allowed attempt ended because the lease ran out.
    LeaseExpired,
    /// A worker settled it as fail.
    Failed,
    /// It had not started when its `expires_at` came.
    Expired,
    /// What is stored could not be read as a job.
    Unreadable,
}

impl DeadReason {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::AttemptsExhausted,
        Self::LeaseExpired,
        Self::Failed,
        Self::Expired,
        Self::Unreadable,
    ];

    /// The name that is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AttemptsExhausted => "ATTEMPTS_EXHAUSTED",
            Self::LeaseExpired => "LEASE_EXPIRED",
            Self::Failed => "FAILED",
            Self::Expired => "EXPIRED",
            Self::Unreadable => "UNREADABLE",
        }
    }

    /// Reads the stored name back.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

/// What a stored message is, beside a job that waits or runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A job.
    None,
    /// A job that is on its way to the dead letters: whoever meets it finishes that.
    Doomed(DeadReason),
    /// The trace of a job that ended: whoever meets it deletes it.
    Tombstone,
}

/// One job as it is stored under its key.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Its key.
    pub key: JobKey,
    /// The payload.
    pub payload: Bytes,
    /// Media type of the payload; empty: none given.
    pub content_type: String,
    /// The caller's attributes.
    pub attributes: Attributes,
    /// The attempt that runs or comes next; the first is 1.
    pub attempt: u32,
    /// Its own limit of attempts, where it has one.
    pub max_attempts: Option<u32>,
    /// Its own backoff, where it has one.
    pub backoff: Option<Backoff>,
    /// When it was accepted.
    pub submitted_at: UnixMillis,
    /// Not to be leased before.
    pub not_before: Option<UnixMillis>,
    /// A dead letter when not started by then.
    pub expires_at: Option<UnixMillis>,
    /// What the last failed attempt said; empty: nothing.
    pub last_error: String,
    /// Whether it took the place of an earlier message of its own.
    pub reseated: bool,
    /// What it is, beside a job.
    pub mark: Mark,
}

impl Job {
    /// About how many bytes it takes in a message to a client; never less than it does.
    pub fn message_bytes(&self) -> usize {
        const REST: usize = 1_024;
        const EACH: usize = 16;
        let attributes: usize = self
            .attributes
            .iter()
            .map(|(name, value)| name.len() + value.len() + EACH)
            .sum();
        let texts = self.content_type.len() + self.last_error.len() + self.key.as_str().len();
        self.payload.len() + attributes + texts + REST
    }

    /// How many attempts it has in a queue of this configuration.
    pub fn max_attempts(&self, config: &QueueConfig) -> u32 {
        self.max_attempts.unwrap_or(config.max_attempts)
    }

    /// How long it waits between attempts in a queue of this configuration.
    pub fn backoff(&self, config: &QueueConfig) -> Backoff {
        self.backoff.unwrap_or(config.backoff)
    }
}

/// One job as it is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// The key.
    pub key: JobKey,
    /// The payload.
    pub payload: Bytes,
    /// Media type of the payload; empty: none given.
    pub content_type: String,
    /// The caller's attributes.
    pub attributes: Attributes,
    /// The caller's name for this submit.
    pub request_id: Option<JobId>,
    /// Not to start before.
    pub not_before: Option<UnixMillis>,
    /// A dead letter when not started by then.
    pub expires_at: Option<UnixMillis>,
    /// Its own limit of attempts.
    pub max_attempts: Option<u32>,
    /// Its own backoff.
    pub backoff: Option<Backoff>,
}

impl Submission {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&self, config: &QueueConfig, now: UnixMillis) -> Result<(), Violation> {
        let (has, limit) = (self.payload.len(), config.max_payload_bytes as usize);
        if has > limit {
            return Err(Violation::new(
                "payload",
                format!("has {has} bytes; the queue's limit is {limit}"),
            ));
        }
        check_content_type(&self.content_type)?;
        check_attributes(&self.attributes)?;
        if self
            .max_attempts
            .is_some_and(|n| !(1..=limits::MAX_ATTEMPTS).contains(&n))
        {
            let limit = limits::MAX_ATTEMPTS;
            return Err(Violation::new(
                "max_attempts",
                format!("must be from 1 to {limit}"),
            ));
        }
        if self
            .not_before
            .is_some_and(|at| at.since(now) > limits::MAX_DELAY)
        {
            return Err(Violation::new("start_at", "must be at most 366 days ahead"));
        }
        Ok(())
    }
}

fn check_content_type(content_type: &str) -> Result<(), Violation> {
    let printable = content_type.bytes().all(|b| (0x20..0x7f).contains(&b));
    if content_type.len() <= limits::CONTENT_TYPE_BYTES && printable {
        return Ok(());
    }
    let limit = limits::CONTENT_TYPE_BYTES;
    Err(Violation::new(
        "content_type",
        format!("must be printable ASCII of at most {limit} bytes"),
    ))
}

fn check_attributes(attributes: &Attributes) -> Result<(), Violation> {
    let (has, limit) = (attributes.len(), limits::ATTRIBUTES);
    if has > limit {
        return Err(Violation::new(
            "attributes",
            format!("has {has} entries; the limit is {limit}"),
        ));
    }
    let bytes: usize = attributes
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    let limit = limits::ATTRIBUTE_BYTES;
    if bytes > limit {
        return Err(Violation::new(
            "attributes",
            format!("has {bytes} bytes; the limit is {limit}"),
        ));
    }
    if attributes.contains_key("") {
        return Err(Violation::new("attributes", "a name must not be empty"));
    }
    Ok(())
}

/// How many of these jobs fit into one message to a client: at least one, where there is one.
pub fn fit_in_message<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> usize {
    let mut bytes = 0;
    let fits = |job: &&Job| {
        let first = bytes == 0;
        bytes += job.message_bytes();
        first || bytes <= limits::MESSAGE_BYTES
    };
    jobs.into_iter().take_while(fits).count()
}

/// An error's text, cut to what is kept.
pub fn bounded_error(mut text: String) -> String {
    if text.len() > limits::ERROR_BYTES {
        let mut end = limits::ERROR_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_of_all_zeros_is_no_request_id() {
        let parsed = |text: &str| JobId::parse(text).map(|id| id.to_string());
        let id = "0198f1de-2c5b-7c3a-9d1e-3f6a5b7c8d9e";
        assert_eq!(parsed(id).as_deref(), Ok(id));
        for bad in ["00000000-0000-0000-0000-000000000000", "", "x"] {
            assert!(parsed(bad).is_err_and(|violation| violation.field == "request_id"));
        }
    }

    #[test]
    fn an_error_is_cut_between_characters() {
        assert_eq!(bounded_error("ü".repeat(2_000)).len(), limits::ERROR_BYTES);
        assert_eq!(bounded_error("x".repeat(2_047) + "ü").len(), 2_047);
    }

    #[test]
    fn every_reason_comes_back_from_its_name() {
        for reason in DeadReason::ALL {
            assert_eq!(DeadReason::from_name(reason.as_str()), Some(reason));
        }
    }
}
