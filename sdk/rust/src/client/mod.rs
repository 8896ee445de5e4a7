//! Offering jobs, looking at them, and looking after queues.
//!
//! A [`Client`] is cheap to clone and connects when it is first used. It retries what is safe to
//! retry and tells the rest to the caller; it never runs jobs: that is the [`worker`](crate::worker)'s part.

mod batch;
mod call;
mod connection;
mod dead;
mod intercept;
mod jobs;
mod leases;
mod options;
mod queues;
mod schedules;
mod stream;
mod submit;

pub use connection::{ClientBuilder, Headers, Transport};
pub use dead::{Redriven, Which};
pub use intercept::SubmitInterceptor;
pub use leases::{LeaseExtension, Leased, LostReason, Pull, Settle, Settled};
pub use queues::{Page, Queue, QueueConfig, QueueStats};
pub use schedules::Schedule;
pub use submit::{OnConflict, Submit};
#[cfg(feature = "tls")]
pub use tonic::transport::{Certificate, ClientTlsConfig, Identity};

pub(crate) use connection::{connect, server_name};
pub(crate) use leases::lost_reason;
pub(crate) use options::Options;

use std::sync::Arc;

use crate::{Error, raw};
use connection::Channels;

/// A connection to Keywork's servers.
#[derive(Clone, Debug)]
pub struct Client {
    channels: Arc<Channels>,
}

impl Client {
    /// A client of one server, with the defaults of [`ClientBuilder`].
    ///
    /// # Errors
    /// The endpoint is not a URI.
    pub fn new(endpoint: impl Into<String>) -> Result<Self, Error> {
        Self::builder().endpoint(endpoint).build()
    }

    /// A client of the servers that `KEYWORK_SERVER` names: see [`ClientBuilder::endpoints_from_env`].
    ///
    /// # Errors
    /// One of them is not a URI.
    pub fn from_env() -> Result<Self, Error> {
        Self::builder().endpoints_from_env().build()
    }

    /// A client with options.
    #[must_use]
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The generated client of `WorkQueue`: every RPC and every field, without retries.
    #[must_use]
    pub fn raw(&self) -> raw::work_queue_client::WorkQueueClient<Transport> {
        connection::work_queue(self.channels.current())
    }

    /// The generated client of `QueueAdmin`.
    #[must_use]
    pub fn raw_admin(&self) -> raw::queue_admin_client::QueueAdminClient<Transport> {
        raw::queue_admin_client::QueueAdminClient::new(self.channels.current())
    }

    /// The generated client of `Schedules`.
    #[must_use]
    pub fn raw_schedules(&self) -> raw::schedules_client::SchedulesClient<Transport> {
        raw::schedules_client::SchedulesClient::new(self.channels.current())
    }

    pub(crate) fn options(&self) -> &Options {
        self.channels.options()
    }
}
