//! Keywork's client and worker for Rust.
//!
//! Keywork is a work queue in which a key has at most one outstanding job. This crate is one side
//! of the wire: [`client`] offers jobs and looks after queues, [`worker`] runs them, [`testing`]
//! stands in for a server. It knows the contract in `proto/` and nothing else of Keywork.
//!
//! ```no_run
//! use keywork_sdk::{Client, Submit, Worker};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new("http://127.0.0.1:50051")?;
//! client.submit(Submit::new("reconcile", "cluster-eu-1").payload("v1")).await?;
//!
//! Worker::builder(client, ["reconcile"])
//!     .build_fn(|_context, job| async move {
//!         eprintln!("{}, attempt {}", job.key, job.attempt);
//!         Ok(())
//!     })
//!     .run()
//!     .await?;
//! # Ok(())
//! # }
//! ```

mod backoff;
pub mod client;
pub mod errors;
pub mod job;
#[cfg(feature = "otel")]
pub mod otel;
pub mod raw;
mod tasks;
pub mod testing;
mod wire;
pub mod worker;

pub use bytes::Bytes;
pub use client::{Client, Submit};
pub use errors::{Code, Error};
pub use job::{Job, SubmitOutcome};
pub use tokio_util::sync::CancellationToken;
pub use uuid::Uuid;
pub use worker::{Context, Handler, Worker};
