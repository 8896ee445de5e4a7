//! How a worker stops: who may ask for it, and in which steps it happens.

use std::{
    io,
    time::{Duration, Instant},
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

/// How long releases and the last settlements may take to be confirmed.
pub(crate) const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// What was asked of a worker; it only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    #[default]
    Work,
    Drain,
    ReleaseAll,
}

/// Gives an order, unless a stronger one was given.
pub(crate) fn give(orders: &watch::Sender<Order>, order: Order) {
    orders.send_if_modified(|current| {
        let stronger = order > *current;
        if stronger {
            *current = order;
        }
        stronger
    });
}

/// Where a worker is on its way to the end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// Not stopping.
    No,
    /// Handlers run to their end until then; no job is started.
    Draining { grace_ends: Instant },
    /// Handlers were told to stop, and may end by themselves until then.
    Cancelling { until: Instant },
    /// Handlers were dropped; what they held is released until then.
    Releasing { until: Instant },
}

impl Stop {
    pub(crate) fn is_stopping(self) -> bool {
        !matches!(self, Self::No)
    }

    /// When the next step is due.
    pub(crate) fn wake(self) -> Option<Instant> {
        match self {
            Self::No => None,
            Self::Draining { grace_ends: until }
            | Self::Cancelling { until }
            | Self::Releasing { until } => Some(until),
        }
    }
}

/// What asks a worker to stop from outside.
#[derive(Debug)]
pub(crate) enum Stopper {
    /// The first SIGTERM or SIGINT drains, as `drain` may have done before; the second releases everything.
    Signals {
        term: Signal,
        int: Signal,
        heard: bool,
    },
    /// The token drains.
    Token(CancellationToken),
}

impl Stopper {
    /// Listens to the signals from now on.
    ///
    /// # Errors
    /// The handler of a signal could not be installed.
    pub(crate) fn signals() -> io::Result<Self> {
        Ok(Self::Signals {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            heard: false,
        })
    }

    /// Waits for the next order.
    pub(crate) async fn next(&mut self, given: Order) -> Order {
        match self {
            Self::Signals { term, int, heard } => {
                tokio::select! {
                    _ = term.recv() => {}
                    _ = int.recv() => {}
                }
                if std::mem::replace(heard, true) {
                    Order::ReleaseAll
                } else {
                    Order::Drain
                }
            }
            Self::Token(token) if given == Order::Work => {
                token.cancelled().await;
                Order::Drain
            }
            Self::Token(_) => std::future::pending().await,
        }
    }
}
