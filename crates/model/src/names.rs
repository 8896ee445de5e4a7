//! Names that a caller chooses: of queues and of workers.

use std::{fmt, sync::Arc};

use crate::{Violation, limits};

/// How much is shown of a name that is refused.
const SHOWN: usize = 80;

/// A queue's name.
///
/// Invariant: matches `[a-z0-9][a-z0-9_-]{0,63}`, so it is safe in a subject and in a stream's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(Box<str>);

impl QueueName {
    /// Checks a name.
    ///
    /// # Errors
    /// A violation of `queue` when it is not a queue's name.
    pub fn parse(name: &str) -> Result<Self, Violation> {
        let first = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let rest = |b: u8| first(b) || b == b'_' || b == b'-';
        let bytes = name.as_bytes();
        let fits = bytes.len() <= limits::QUEUE_NAME_BYTES
            && bytes.first().is_some_and(|b| first(*b))
            && bytes.iter().all(|b| rest(*b));
        if fits {
            Ok(Self(name.into()))
        } else {
            let given = name.chars().take(SHOWN).collect::<String>();
            let problem = format!("must match [a-z0-9][a-z0-9_-]{{0,63}}, not {given:?}");
            Err(Violation::new("queue", problem))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names a worker process.
///
/// Invariant: non-empty UTF-8 of at most 256 bytes, without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerId(Arc<str>);

impl WorkerId {
    /// Checks a worker's id.
    ///
    /// # Errors
    /// A violation of `worker_id` when it is empty, too long or holds control characters.
    pub fn parse(id: &str) -> Result<Self, Violation> {
        if id.is_empty() || id.len() > limits::WORKER_ID_BYTES {
            let limit = limits::WORKER_ID_BYTES;
            return Err(Violation::new(
                "worker_id",
                format!("must have 1 to {limit} bytes"),
            ));
        }
        if id.chars().any(char::is_control) {
            return Err(Violation::new(
                "worker_id",
                "must not hold control characters",
            ));
        }
        Ok(Self(id.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_names_are_checked() {
        for good in ["a", "0", "re-index_2", &"q".repeat(64)] {
            assert!(QueueName::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "_a",
            "A",
            "a.b",
            "a b",
            "ü",
            "a*",
            &"q".repeat(65),
        ] {
            assert!(QueueName::parse(bad).is_err(), "{bad}");
        }
    }
}
