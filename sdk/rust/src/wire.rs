//! Times and durations, to and from the wire and its neighbours.

use std::time::{Duration, SystemTime};

/// A hundred years: as good as for ever, and short enough to be added to a time.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A duration that can be added to a time: `Duration::MAX` is how some say "for ever".
pub(crate) fn countable(duration: Duration) -> Duration {
    duration.min(FOREVER)
}

/// A duration of the wire; a negative one, which no server sends, counts as zero.
pub(crate) fn to_duration(wire: prost_types::Duration) -> Duration {
    countable(wire.try_into().unwrap_or_default())
}

/// A duration for the wire; one that is too long for it becomes the longest.
pub(crate) fn from_duration(duration: Duration) -> prost_types::Duration {
    duration.try_into().unwrap_or(prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    })
}

/// A time of the wire, where this platform can hold it.
pub(crate) fn to_time(wire: prost_types::Timestamp) -> Option<SystemTime> {
    wire.try_into().ok()
}
