//! Keywork's storage verbs on NATS JetStream.
//!
//! This is the only crate that names `async_nats`. It owns streams, subjects, headers and what
//! JetStream's answers mean. It never decides what becomes of a job: that is the engine's.

pub mod api;
pub mod clock;
mod codec;
pub mod connect;
pub mod dead;
mod digits;
pub mod ends;
pub mod jobs;
mod message;
pub mod names;
pub mod peers;
pub mod pull;
pub mod queues;
pub mod requester;
pub mod settings;
pub mod tasks;

pub use api::{ApiError, Failure};
pub use connect::{ANSWER_WITHIN, ConnectError, Nats, NatsOptions};
pub use jobs::{Jobs, Stored};
pub use names::Names;
pub use requester::{Completions, Reply, Ticket};
