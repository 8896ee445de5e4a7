//! The laws and the scenarios, through the wire: the built server, and a real nats-server or three.
//!
//! Tests are named as what must hold. A test that bears a law's number would fail if the law broke.

mod consumers;
mod drift;
mod heartbeats;
mod holders;
mod keys;
mod leases;
mod owners;
mod producers;
mod request_ids;
mod restarts;
mod retries;
mod serving;
mod stopping;
mod streams;
mod support;
mod tickets;
