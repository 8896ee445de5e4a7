//! The one door to the wall clock.

use std::time::UNIX_EPOCH;

use keywork_model::UnixMillis;

/// The time now.
pub fn now() -> UnixMillis {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door that the lint points to"
    )]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
