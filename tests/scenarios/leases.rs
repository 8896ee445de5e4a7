//! Leases and heartbeats: how long a lease holds, whose it is, and how many a session may hold.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

mod capacity;
mod cut_off;
mod long;
mod opening;

use std::{collections::HashMap, fs, path::Path, time::Duration};

use bytes::Bytes;
use keywork::proto::{
    self, Delivery, JobState, LostReason, SettlementOutcome, lease_request::Message as Up,
    lease_response::Message as Down,
};
use keywork_sdk::{Submit, worker::CancelReason};
use keywork_testkit::{FaultProxy, Mode, eventually};
use prost::Message as _;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tonic::{Code, Status};

use crate::{
    streams::relay::Relay,
    support::{
        Client, Runs, SHORT_LEASE, SOON, Session, Working, ack, channel, client, complete, create,
        field, hello, job, make_queue, one_server, pull, reason, release, sdk, server_on,
        sessions_of, short_lease, submit, unwire, wire,
    },
};

/// A lease that outlives the liveness timeout and a reconnect also on a busy machine.
const LEASE: Duration = Duration::from_secs(24);

fn lasting(lease: Duration) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(lease)),
        ..short_lease()
    }
}

/// Waits until a worker holds a key's job.
async fn leased(client: &Client, queue: &str, key: &str) {
    eventually(SOON, "a worker holds the job", async || {
        let seen = job(&mut client.clone(), queue, key).await;
        seen.is_some_and(|job| job.state() == JobState::Leased)
    })
    .await;
}

/// Waits until a key is free.
async fn free(client: &Client, queue: &str, key: &str, within: Duration) {
    eventually(within, "the job has ended", async || {
        job(&mut client.clone(), queue, key).await.is_none()
    })
    .await;
}

fn key(delivery: &Delivery) -> &str {
    delivery.job.as_ref().map_or("", |job| &job.key)
}
