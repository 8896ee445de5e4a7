//! How often it is logged that servers are away.
//!
//! Pure: time is an argument.

use std::time::{Duration, Instant};

/// While an outage lasts, how often it is warned of.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// An outage, which is warned of at once and then seldom.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    warned: Option<Instant>,
}

impl Outage {
    pub(crate) fn is_to_be_warned_of(&mut self, now: Instant) -> bool {
        let due = self
            .warned
            .is_none_or(|at| now.saturating_duration_since(at) >= WARN_EVERY);
        if due {
            self.warned = Some(now);
        }
        due
    }

    pub(crate) fn is_over(&mut self) {
        self.warned = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_warned_of_at_once_and_then_each_half_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut outage = Outage::default();
        let warned: Vec<u64> = (0..70)
            .filter(|second| outage.is_to_be_warned_of(at(*second)))
            .collect();
        assert_eq!(warned, [0, 30, 60]);
    }

    #[test]
    fn the_next_outage_is_warned_of_at_once() {
        let start = Instant::now();
        let mut outage = Outage::default();
        assert!(outage.is_to_be_warned_of(start));
        outage.is_over();
        assert!(outage.is_to_be_warned_of(start));
    }
}
