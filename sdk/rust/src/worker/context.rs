//! What a handler knows of its lease, and how it learns to stop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// A handler's view of its lease. Cheap to clone.
///
/// When it is cancelled the handler must stop its effects: somebody else may be about to run the job.
#[derive(Clone, Debug)]
pub struct Context(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    token: CancellationToken,
    reason: AtomicU8,
    deadline: Mutex<Instant>,
}

/// Why a handler is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// The lease is lost, or can no longer be known to hold. What the handler returns is dropped.
    LeaseLost,
    /// The job was cancelled, or its queue purged or deleted. What the handler returns is dropped.
    JobCancelled,
    /// The worker is stopping and its grace is over. What the handler returns counts; an ordinary error gives the
    /// job back without costing an attempt.
    WorkerShutdown,
}

impl Context {
    pub(crate) fn new(deadline: Instant) -> Self {
        Self(Arc::new(Inner {
            token: CancellationToken::new(),
            reason: AtomicU8::new(0),
            deadline: Mutex::new(deadline),
        }))
    }

    /// Completes when the handler is to stop.
    pub async fn cancelled(&self) {
        self.0.token.cancelled().await;
    }

    /// True: the handler is to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.token.is_cancelled()
    }

    /// Why the handler is to stop; none while it is not.
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        match self.0.reason.load(Ordering::Acquire) {
            1 => Some(CancelReason::LeaseLost),
            2 => Some(CancelReason::JobCancelled),
            3 => Some(CancelReason::WorkerShutdown),
            _ => None,
        }
    }

    /// The token behind [`Context::cancelled`], for what takes one.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.0.token
    }

    /// When the handler is to stop unless the lease is extended by then. Heartbeats move it while it runs.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        *self.0.deadline.lock()
    }

    pub(crate) fn set_deadline(&self, deadline: Instant) {
        *self.0.deadline.lock() = deadline;
    }

    /// Cancels; the first reason stays.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        let code = match reason {
            CancelReason::LeaseLost => 1,
            CancelReason::JobCancelled => 2,
            CancelReason::WorkerShutdown => 3,
        };
        let _ = self
            .0
            .reason
            .compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        self.0.token.cancel();
    }
}
