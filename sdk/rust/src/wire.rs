//! Times and durations, to and from the wire.

use std::time::{Duration, SystemTime};

/// A duration of the wire; a negative one, which no server sends, counts as zero.
pub(crate) fn to_duration(wire: prost_types::Duration) -> Duration {
    wire.try_into().unwrap_or_default()
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
