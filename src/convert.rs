//! From the wire to the model, and back.

mod job;
mod lease;
mod queue;
mod submit;
mod time;

use keywork_model::{Violation, WorkerId, limits};

pub use job::{dead_job, job};
pub use lease::{delivery, go_away_reason, lost, lost_reason, settle_result, to_settle_item};
pub use queue::{CONFIG_FIELDS, queue, set_config_fields};
pub use submit::{submit_response, submit_result, to_submission};
pub use time::{duration, to_duration};

/// Reads a worker's id; empty: none was given.
///
/// # Errors
/// A violation of `worker_id`.
pub fn to_worker(id: &str) -> Result<Option<WorkerId>, Violation> {
    if id.is_empty() {
        Ok(None)
    } else {
        WorkerId::parse(id).map(Some)
    }
}

/// Reads a page's size.
///
/// # Errors
/// A violation of `page_size`.
pub fn to_page_size(field: &str, size: u32) -> Result<usize, Violation> {
    match usize::try_from(size).unwrap_or(usize::MAX) {
        0 => Ok(100),
        size if size <= limits::BATCH_ITEMS => Ok(size),
        _ => Err(Violation::new(
            field,
            format!("must be at most {}", limits::BATCH_ITEMS),
        )),
    }
}

/// Checks a list's length.
///
/// # Errors
/// A violation of `field` when it is empty or too long.
pub fn check_list(field: &str, len: usize) -> Result<(), Violation> {
    if (1..=limits::BATCH_ITEMS).contains(&len) {
        return Ok(());
    }
    let limit = limits::BATCH_ITEMS;
    Err(Violation::new(
        field,
        format!("has {len} entries; the limits are 1 and {limit}"),
    ))
}
