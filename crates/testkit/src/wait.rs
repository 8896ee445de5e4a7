//! Waiting for something to become true, never for a while.

use std::time::Duration;

use tokio::time::{Instant, sleep};

const POLL: Duration = Duration::from_millis(10);

/// Asks `check` again and again until it says true.
///
/// # Panics
///
/// When it has not within `deadline`; the message names `what` was waited for.
pub async fn eventually(deadline: Duration, what: &str, mut check: impl AsyncFnMut() -> bool) {
    eventually_some(deadline, what, async || check().await.then_some(())).await;
}

/// Asks `look` again and again until it finds something, and returns that.
///
/// # Panics
///
/// When it has found nothing within `deadline`; the message names `what` was waited for.
pub async fn eventually_some<T>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + deadline;
    loop {
        // A look that hangs is no answer either.
        if let Ok(Some(found)) = tokio::time::timeout_at(end, look()).await {
            return found;
        }
        assert!(Instant::now() < end, "waited {deadline:?} in vain: {what}");
        sleep(POLL).await;
    }
}
