//! The configuration of a queue.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Backoff, Violation, limits};

/// The configuration of a queue. Kept as JSON with the queue's stream; fields are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueConfig {
    /// How long a lease lasts from its last extension.
    pub lease_duration: Duration,
    /// The longest that one attempt may run. `None`: no limit.
    pub max_run_time: Option<Duration>,
    /// Attempts before a job becomes a dead letter.
    pub max_attempts: u32,
    /// Waits between attempts.
    pub backoff: Backoff,
    /// The most outstanding jobs.
    pub max_depth: u64,
    /// The largest payload, in bytes.
    pub max_payload_bytes: u32,
    /// How long after a worker's stream broke its leases go to others. `None`: they stay until their deadline.
    pub disconnect_grace: Option<Duration>,
    /// How long dead letters are kept.
    pub dead_letter_retention: Duration,
    /// How long a request id is remembered.
    pub dedupe_window: Duration,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            lease_duration: limits::DEFAULT_LEASE,
            max_run_time: Some(limits::DEFAULT_RUN_TIME),
            max_attempts: limits::DEFAULT_ATTEMPTS,
            backoff: Backoff::default(),
            max_depth: limits::DEFAULT_DEPTH,
            max_payload_bytes: limits::DEFAULT_PAYLOAD_BYTES,
            disconnect_grace: None,
            dead_letter_retention: limits::DEFAULT_DEAD_RETENTION,
            dedupe_window: limits::DEFAULT_DEDUPE_WINDOW,
        }
    }
}

impl QueueConfig {
    /// Checks every limit. `nats_max_payload` is what NATS takes in one message.
    ///
    /// # Errors
    /// All violations, by field.
    pub fn check(&self, nats_max_payload: usize) -> Result<(), Vec<Violation>> {
        let mut bad = Vec::new();
        let mut need = |fits: bool, field: &str, limit: String| {
            if !fits {
                bad.push(Violation::new(field, limit));
            }
        };
        let lease = self.lease_duration;
        need(
            (limits::MIN_LEASE..=limits::MAX_LEASE).contains(&lease),
            "lease_duration",
            "must be from 2 s to 12 h".into(),
        );
        need(
            self.max_run_time
                .is_none_or(|t| t >= lease && t <= limits::MAX_DELAY),
            "max_run_time",
            "must be from the lease duration to 366 days, or 0 for no limit".into(),
        );
        need(
            (1..=limits::MAX_ATTEMPTS).contains(&self.max_attempts),
            "max_attempts",
            format!("must be from 1 to {}", limits::MAX_ATTEMPTS),
        );
        need(
            (1..=limits::MAX_DEPTH).contains(&self.max_depth),
            "max_depth",
            format!("must be from 1 to {}", limits::MAX_DEPTH),
        );
        let payload = self.max_payload_bytes as usize;
        let most = nats_max_payload.saturating_sub(limits::HEADER_ROOM_BYTES);
        need(
            payload >= 1 && payload <= most,
            "max_payload_bytes",
            format!("must be from 1 to {most}, what the NATS server takes"),
        );
        need(
            self.disconnect_grace
                .is_none_or(|g| g >= limits::MIN_DISCONNECT_GRACE && g <= lease),
            "disconnect_grace",
            "must be from 100 ms to the lease duration".into(),
        );
        need(
            (limits::MIN_DEAD_RETENTION..=limits::MAX_DELAY).contains(&self.dead_letter_retention),
            "dead_letter_retention",
            "must be from 1 min to 366 days".into(),
        );
        need(
            (Duration::from_secs(1)..=limits::MAX_DEDUPE_WINDOW).contains(&self.dedupe_window),
            "dedupe_window",
            "must be from 1 s to 24 h".into(),
        );
        if bad.is_empty() { Ok(()) } else { Err(bad) }
    }

    /// The fields in which two configurations differ.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let same = [
            (
                "lease_duration",
                self.lease_duration == other.lease_duration,
            ),
            ("max_run_time", self.max_run_time == other.max_run_time),
            ("max_attempts", self.max_attempts == other.max_attempts),
            ("backoff", self.backoff == other.backoff),
            ("max_depth", self.max_depth == other.max_depth),
            (
                "max_payload_bytes",
                self.max_payload_bytes == other.max_payload_bytes,
            ),
            (
                "disconnect_grace",
                self.disconnect_grace == other.disconnect_grace,
            ),
            (
                "dead_letter_retention",
                self.dead_letter_retention == other.dead_letter_retention,
            ),
            ("dedupe_window", self.dedupe_window == other.dedupe_window),
        ];
        let differing = same.into_iter().filter(|(_, same)| !same);
        differing.map(|(field, _)| field).collect()
    }

    /// How long JetStream waits for a lease's settlement before it delivers the job again.
    pub fn ack_wait(&self) -> Duration {
        self.lease_duration + limits::ACK_WAIT_MARGIN
    }

    /// How often a worker sends a heartbeat.
    pub fn heartbeat_interval(&self) -> Duration {
        self.lease_duration / limits::HEARTBEATS_PER_LEASE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_the_limits() {
        assert_eq!(QueueConfig::default().check(1 << 20), Ok(()));
    }

    #[test]
    fn differences_are_named() {
        let other = QueueConfig {
            max_attempts: 3,
            disconnect_grace: Some(Duration::from_secs(1)),
            ..QueueConfig::default()
        };
        let named = QueueConfig::default().differences(&other);
        assert_eq!(named, ["max_attempts", "disconnect_grace"]);
        assert!(other.differences(&other).is_empty());
    }

    #[test]
    fn all_mistakes_are_reported_together() {
        let config = QueueConfig {
            lease_duration: Duration::from_millis(1_999),
            max_attempts: 0,
            max_payload_bytes: 2 << 20,
            ..QueueConfig::default()
        };
        let bad = config.check(1 << 20).expect_err("three limits are broken");
        let fields: Vec<_> = bad.iter().map(|v| v.field.as_str()).collect();
        assert_eq!(
            fields,
            ["lease_duration", "max_attempts", "max_payload_bytes"]
        );
    }
}
