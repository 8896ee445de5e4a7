//! What makes the laws true: sessions, dispatch, leases, retry and dead letters.
//!
//! This crate knows neither the wire nor `async_nats`. The rule behind it: a lease is a stream
//! sequence, and a sequence is handed to a worker at most once. Whatever may have been handed out
//! before is stored anew under a new sequence first, by a compare-and-set that JetStream decides.

mod admin;
mod claim;
mod dead;
mod dispatch;
mod engine;
mod error;
mod extend;
mod guard;
mod lease;
mod look;
mod peers;
mod queue;
mod roster;
mod session;
mod settle;
mod shares;
mod submit;
mod unary;
mod upkeep;
mod view;

pub use admin::{AdminError, QueueView};
pub use dead::{DeadPage, Redriven};
pub use engine::{Engine, Options, StartError};
pub use error::OpenError;
pub use extend::{Extended, Heartbeaten};
pub use lease::{Granted, Lost, LostReason};
pub use look::LookError;
pub use session::{
    Asked, GoAway, GoAwayReason, Hello, Input, OpenedSession, Output, Refused, SessionEnd,
    SettleItem, SettleResult, Terms, Welcome,
};
pub use settle::Outcome;
pub use submit::{OnConflict, SubmitAnswer, SubmitError, Submits};
pub use view::{JobState, JobView};
