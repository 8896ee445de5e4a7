//! Times and durations.

use std::time::Duration;

use keywork_model::{UnixMillis, Violation};

/// The last second of the year 9999: later ones are no timestamps.
const LAST_SECOND: u64 = 253_402_300_799;

/// A time on the wire.
pub(super) fn timestamp(at: UnixMillis) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(at.0 % 1_000 * 1_000_000).unwrap_or(0),
    }
}

/// A duration on the wire.
pub fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// Reads a time.
///
/// # Errors
/// A violation of `field` when it is before 1970, after 9999 or no time.
pub(super) fn to_time(field: &str, at: prost_types::Timestamp) -> Result<UnixMillis, Violation> {
    let seconds = u64::try_from(at.seconds).ok().filter(|s| *s <= LAST_SECOND);
    let nanos = u64::try_from(at.nanos).ok().filter(|n| *n < 1_000_000_000);
    match (seconds, nanos) {
        (Some(seconds), Some(nanos)) => Ok(UnixMillis(seconds * 1_000 + nanos / 1_000_000)),
        (Some(_) | None, _) => Err(Violation::new(field, "must be a time from 1970 to 9999")),
    }
}

/// Reads a duration of any length: who knows the field's limit checks it.
///
/// # Errors
/// A violation of `field` when it is negative or no duration.
pub fn to_duration(field: &str, d: prost_types::Duration) -> Result<Duration, Violation> {
    if d.nanos.unsigned_abs() >= 1_000_000_000 {
        let problem = "its nanos must be below 1,000,000,000";
        return Err(Violation::new(field, problem));
    }
    match (u64::try_from(d.seconds), u32::try_from(d.nanos)) {
        (Ok(seconds), Ok(nanos)) => Ok(Duration::new(seconds, nanos)),
        (Ok(_) | Err(_), _) => Err(Violation::new(field, "must not be negative")),
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Duration;

    use super::*;

    #[test]
    fn a_negative_duration_is_called_so() {
        let negative = Duration {
            seconds: -1,
            nanos: 0,
        };
        assert!(to_duration("delay", negative).is_err_and(|bad| bad.problem.contains("negative")));
        let no_duration = Duration {
            seconds: 1,
            nanos: 2_000_000_000,
        };
        assert!(to_duration("delay", no_duration).is_err_and(|bad| bad.problem.contains("nanos")));
    }
}
