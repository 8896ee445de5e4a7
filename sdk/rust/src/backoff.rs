//! How long to wait before the next try.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// Waits with full jitter between 100 ms and a bound that doubles up to 10 s, so that many clients of
/// a server that went away do not come back at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The next wait.
    pub(crate) fn next(&mut self) -> Duration {
        self.tries = self.tries.saturating_add(1);
        let bound = SHORTEST
            .saturating_mul(1 << self.tries.min(10))
            .min(LONGEST);
        rand::random_range(SHORTEST..=bound)
    }

    /// The last try worked: the next wait is short again.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

/// A wait around `middle`: from half of it to half more.
pub(crate) fn around(middle: Duration) -> Duration {
    middle.mul_f64(rand::random_range(0.5..=1.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_stay_between_the_shortest_and_the_longest() {
        let mut backoff = Backoff::default();
        for _ in 0..100 {
            let wait = backoff.next();
            assert!((SHORTEST..=LONGEST).contains(&wait), "{wait:?}");
        }
    }

    #[test]
    fn the_first_wait_after_a_success_is_short() {
        let mut backoff = Backoff::default();
        for _ in 0..20 {
            backoff.next();
        }
        backoff.reset();
        assert!(backoff.next() <= SHORTEST * 2);
    }
}
