//! Every stream, subject and header that Keywork stores: what it holds, who writes it, how long it lives.
//!
//! Persisted names are never reused for another purpose.

use keywork_model::{JobKey, QueueName, Violation, limits};

/// The durable consumer of every jobs stream.
pub const CONSUMER: &str = "workers";

/// The names under one prefix. With the prefix `work`:
///
/// | name | holds | written by | lives |
/// | --- | --- | --- | --- |
/// | stream `WORK_<queue>`, subjects `work.<queue>.<key>` | the outstanding jobs of a queue, one message a key | submits, re-seats, and anyone with `nats pub` | until the job ends |
/// | in the same stream, subject `work-front.<queue>` | one message before all jobs, which the consumer does not see: without it a re-seat makes JetStream forget older leases | the server that makes the queue | for good |
/// | its consumer `workers` | what was delivered and not settled | JetStream | with the stream |
/// | stream `WORK_DEAD_<queue>`, subjects `work-dead.<queue>.<key>` | dead letters | whoever finishes a doomed job | the queue's retention |
/// | stream `WORK_ENDS`, subjects `work-ends.<queue>.<key>` | that a re-seated job ended, where there is one replica | whoever ends it, before it does | ten minutes |
/// | stream `WORK_SETTINGS`, subjects `work-settings.<name>` | `token-secret`; `seen.<queue>`, the NATS server that a queue last knew; `purged.<queue>`, up to which sequence it was last purged | the servers | for good |
/// | subjects `work-peers.>` (not stored) | what servers tell each other | the servers | – |
#[derive(Clone, Debug)]
pub struct Names {
    prefix: String,
    upper: String,
}

impl Names {
    /// The names under `prefix`.
    ///
    /// # Errors
    /// A violation of `subject_prefix` unless it matches `[a-z][a-z0-9]{0,15}`.
    pub fn new(prefix: &str) -> Result<Self, Violation> {
        let fits = prefix.len() <= 16
            && prefix.starts_with(|c: char| c.is_ascii_lowercase())
            && prefix
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if !fits {
            return Err(Violation::new(
                "subject_prefix",
                "must match [a-z][a-z0-9]{0,15}",
            ));
        }
        Ok(Self {
            prefix: prefix.into(),
            upper: prefix.to_ascii_uppercase(),
        })
    }

    /// The stream of a queue's jobs.
    pub fn jobs_stream(&self, queue: &QueueName) -> String {
        format!("{}_{queue}", self.upper)
    }

    /// What the names of all jobs streams begin with. Queue names are lower case, so no other stream fits.
    pub fn queue_of_stream(&self, stream: &str) -> Option<QueueName> {
        let name = stream.strip_prefix(&self.upper)?.strip_prefix('_')?;
        QueueName::parse(name).ok()
    }

    /// All subjects of a queue's jobs.
    pub fn all_jobs(&self, queue: &QueueName) -> String {
        format!("{}.{queue}.*", self.prefix)
    }

    /// The subject of the message before all jobs.
    pub fn front(&self, queue: &QueueName) -> String {
        format!("{}-front.{queue}", self.prefix)
    }

    /// The subject of a key's job.
    pub fn job(&self, queue: &QueueName, key: &JobKey) -> String {
        let (queue, token) = (queue.as_str(), key.to_token());
        [&self.prefix, ".", queue, ".", &token].concat()
    }

    /// The stream of a queue's dead letters.
    pub fn dead_stream(&self, queue: &QueueName) -> String {
        format!("{}_DEAD_{queue}", self.upper)
    }

    /// All subjects of a queue's dead letters.
    pub fn all_dead(&self, queue: &QueueName) -> String {
        format!("{}-dead.{queue}.*", self.prefix)
    }

    /// The subject of the dead letters under a job's subject.
    pub fn dead(&self, queue: &QueueName, job_subject: &str) -> String {
        format!(
            "{}-dead.{queue}.{}",
            self.prefix,
            bounded_token(job_subject)
        )
    }

    /// The stream of end records.
    pub fn ends_stream(&self) -> String {
        format!("{}_ENDS", self.upper)
    }

    /// All subjects of end records.
    pub fn all_ends(&self) -> String {
        format!("{}-ends.*.*", self.prefix)
    }

    /// All subjects of a queue's end records.
    pub fn ends_of(&self, queue: &QueueName) -> String {
        format!("{}-ends.{queue}.*", self.prefix)
    }

    /// The subject of a job's end record.
    pub fn end(&self, queue: &QueueName, job_subject: &str) -> String {
        format!(
            "{}-ends.{queue}.{}",
            self.prefix,
            bounded_token(job_subject)
        )
    }

    /// The stream of settings.
    pub fn settings_stream(&self) -> String {
        format!("{}_SETTINGS", self.upper)
    }

    /// All subjects of settings.
    pub fn all_settings(&self) -> String {
        format!("{}-settings.>", self.prefix)
    }

    /// The subject of one setting.
    pub fn setting(&self, name: &str) -> String {
        format!("{}-settings.{name}", self.prefix)
    }

    /// What all servers hear.
    pub fn all_peers(&self) -> String {
        format!("{}-peers.all", self.prefix)
    }

    /// What one server hears.
    pub fn peer(&self, server: u64) -> String {
        format!("{}-peers.{server:x}", self.prefix)
    }
}

/// The longest token that a key makes: each byte encoded. What is longer was published by hand.
const TOKEN_BYTES: usize = 3 * limits::KEY_BYTES;

/// A job's token where it becomes part of another subject: no longer than a key's. A subject beyond what
/// NATS takes in one line would close the connection, for everyone on it.
fn bounded_token(subject: &str) -> &str {
    let token = key_token(subject);
    let cut = token.floor_char_boundary(TOKEN_BYTES);
    &token[..cut]
}

/// The key's token: the last one of a job's subject.
pub fn key_token(subject: &str) -> &str {
    subject.rsplit('.').next().unwrap_or_default()
}

/// The headers of stored messages. All but the last three belong to a job; JetStream's own keep their names.
pub mod header {
    /// The job's id. Absent on a job published by hand: the id then follows from its sequence.
    pub const ID: &str = "Keywork-Id";
    /// Media type of the payload, percent-encoded.
    pub const CONTENT_TYPE: &str = "Keywork-Content-Type";
    /// The caller's attributes, a JSON object of strings, each percent-encoded.
    pub const ATTRIBUTES: &str = "Keywork-Attributes";
    /// The attempt that comes next. Absent: 1.
    pub const ATTEMPT: &str = "Keywork-Attempt";
    /// The job's own limit of attempts.
    pub const MAX_ATTEMPTS: &str = "Keywork-Max-Attempts";
    /// The job's own backoff, as JSON.
    pub const BACKOFF: &str = "Keywork-Backoff";
    /// When it was accepted, Unix milliseconds. Absent: the message's own time.
    pub const SUBMITTED_AT: &str = "Keywork-Submitted-At";
    /// Not to be leased before, Unix milliseconds.
    pub const NOT_BEFORE: &str = "Keywork-Not-Before";
    /// A dead letter when not started by then, Unix milliseconds.
    pub const EXPIRES_AT: &str = "Keywork-Expires-At";
    /// What the last failed attempt said, percent-encoded.
    pub const ERROR: &str = "Keywork-Error";
    /// On a re-seated message: random, so that a re-seat whose answer was lost is known again.
    pub const NONCE: &str = "Keywork-Nonce";
    /// On a re-seated message: the sequence whose place it took.
    pub const FROM: &str = "Keywork-From";
    /// On a message that is no waiting job: `tombstone`, or `dead` followed by the reason.
    pub const MARK: &str = "Keywork-Mark";
    /// On a dead letter: why.
    pub const REASON: &str = "Keywork-Reason";
    /// On an end record: the sequence that ended.
    pub const ENDED: &str = "Keywork-Ended";

    /// JetStream's dedupe id.
    pub const MSG_ID: &str = "Nats-Msg-Id";
    /// JetStream's compare-and-set on a subject.
    pub const EXPECTED_LAST: &str = "Nats-Expected-Last-Subject-Sequence";
    /// JetStream's roll-up: replaces what the subject holds.
    pub const ROLLUP: &str = "Nats-Rollup";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_queue_can_take_another_streams_name() {
        let names = Names::new("work").expect("a prefix");
        assert_eq!(
            names.queue_of_stream("WORK_a-b").map(|q| q.to_string()),
            Some("a-b".into())
        );
        let dead = names.dead_stream(&QueueName::parse("a").expect("a name"));
        for other in [
            dead,
            names.ends_stream(),
            names.settings_stream(),
            "WORKS_a".into(),
        ] {
            assert_eq!(names.queue_of_stream(&other), None, "{other}");
        }
    }
}
