//! What a client is told: the servers, the headers of every call, and its patience.

use std::time::Duration;

use super::intercept::Interceptors;
use tokio::time::Instant;
use tonic::{metadata::MetadataMap, transport::Endpoint};

/// A client's options, checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// At least one.
    pub(crate) endpoints: Vec<Endpoint>,
    /// Sent with every call.
    pub(crate) metadata: MetadataMap,
    /// How long a submit is tried before its last error is told.
    pub(crate) submit_deadline: Duration,
    /// What stands round every submit.
    pub(crate) interceptors: Interceptors,
    /// How long one try of a unary call may take.
    pub(crate) call_timeout: Duration,
}

impl Options {
    /// How long a try may take that is of no use after the deadline.
    pub(crate) fn limit(&self, deadline: Instant) -> Duration {
        let left = deadline.saturating_duration_since(Instant::now());
        self.call_timeout.min(left)
    }
}
