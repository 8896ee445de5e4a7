//! Waits between attempts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Violation, limits, time::millis};

/// The first wait, doubled for every further one up to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// The wait after the first attempt, in milliseconds.
    #[serde(rename = "initial_ms")]
    initial: u64,
    /// The longest wait, in milliseconds.
    #[serde(rename = "max_ms")]
    max: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial: millis(limits::DEFAULT_BACKOFF_INITIAL),
            max: millis(limits::DEFAULT_BACKOFF_MAX),
        }
    }
}

impl Backoff {
    /// Checks a backoff.
    ///
    /// # Errors
    /// A violation of `backoff.initial` or `backoff.max`.
    pub fn new(initial: Duration, max: Duration) -> Result<Self, Violation> {
        if initial > limits::MAX_BACKOFF_INITIAL {
            return Err(Violation::new("backoff.initial", "must be at most 24 h"));
        }
        if max < initial || max > limits::MAX_BACKOFF_MAX {
            return Err(Violation::new(
                "backoff.max",
                "must be from backoff.initial to 30 days",
            ));
        }
        Ok(Self {
            initial: millis(initial),
            max: millis(max),
        })
    }

    /// The wait after the first attempt.
    pub fn initial(&self) -> Duration {
        Duration::from_millis(self.initial)
    }

    /// The longest wait.
    pub fn max(&self) -> Duration {
        Duration::from_millis(self.max)
    }

    /// The wait after attempt `attempt` failed. `jitter` is from 0 (the whole wait) to 1 (half of it).
    pub fn wait(&self, attempt: u32, jitter: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(63);
        let whole = self.initial.saturating_mul(1 << doublings).min(self.max);
        Duration::from_millis(whole).mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = Backoff::default();
        assert_eq!(backoff.wait(1, 0.0), Duration::from_secs(1));
        assert_eq!(backoff.wait(4, 0.0), Duration::from_secs(8));
        assert_eq!(backoff.wait(4, 1.0), Duration::from_secs(4));
        assert_eq!(backoff.wait(1_000, 0.0), Duration::from_secs(600));
    }
}
