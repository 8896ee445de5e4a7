//! The facts of JetStream that Keywork stands on, each pinned against the real nats-server, alone
//! and as three nodes.
//!
//! A test here that fails after an upgrade of nats-server says which fact has changed, before
//! anybody's queue does. Nothing of Keywork runs: only the wire protocol of JetStream.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod acks;
mod crashes;
mod dedupe;
mod floor;
mod lab;
mod leases;
mod order;
mod races;
mod rejecting;
mod reseating;
mod schedules;
mod subjects;
