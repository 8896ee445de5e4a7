//! Names, keys, tokens, limits and the job's states: pure, with time as input.
//!
//! This crate owns what Keywork's words mean and what their limits are. It never performs I/O, never
//! reads a clock and knows neither the wire nor JetStream.

pub mod backoff;
pub mod config;
pub mod decide;
pub mod job;
pub mod key;
pub mod limits;
pub mod names;
pub mod state;
pub mod time;
pub mod token;
pub mod violation;

pub use backoff::Backoff;
pub use config::QueueConfig;
pub use job::{Attributes, DeadReason, Job, JobId, Mark, Submission, fit_in_message};
pub use key::JobKey;
pub use names::{QueueName, WorkerId};
pub use time::UnixMillis;
pub use violation::Violation;
