//! Streams: they live through what happens behind the server, end when they must, and harm no other.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

pub(crate) mod relay;

mod ends;
mod floods;
mod services;
mod workers;

use std::{fs, time::Duration};

use async_nats::jetstream;
use bytes::Bytes;
use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use keywork::proto::{
    self, GoAwayReason, SettlementOutcome, lease_request::Message as Up,
    lease_response::Message as Down,
};
use keywork_sdk::worker::WorkerError;
use keywork_testkit::{KeyworkServer, NatsServer, eventually, eventually_some};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::support::{
    Client, Runs, SHORT_LEASE, SOON, Session, Working, channel, client, cluster_with_two_servers,
    complete, create, fail, field, hello, job, leader_of_consumer, make_queue, one_server, pull,
    reason, release, sdk, server_on, sessions_of, settlement, short_lease, submit, wire,
};
use relay::Relay;

fn lasting(lease: Duration) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(lease)),
        ..proto::QueueConfig::default()
    }
}

/// Reads a session to its end.
async fn end_of(session: &mut Session) -> Option<Status> {
    loop {
        match session.next().await {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(status) => return Some(status),
        }
    }
}

/// A session that is nothing but its stream, cheap enough for ten thousand.
async fn bare_session(
    mut client: Client,
    hello: proto::Hello,
) -> (
    tokio::sync::mpsc::Sender<proto::LeaseRequest>,
    Streaming<proto::LeaseResponse>,
) {
    let (up, rx) = tokio::sync::mpsc::channel(1);
    let first = proto::LeaseRequest {
        message: Some(Up::Hello(hello)),
    };
    up.send(first).await.expect("room");
    let opened = client.lease(ReceiverStream::new(rx)).await;
    let mut down = opened.expect("a stream").into_inner();
    let welcome = timeout(SOON * 3, down.message()).await;
    let welcome = welcome.expect("Welcome in time").expect("no error");
    assert!(welcome.is_some(), "no Welcome");
    (up, down)
}
