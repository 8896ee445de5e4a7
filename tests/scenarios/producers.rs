//! What producers are promised (laws 5, 6, 8 and 9).

mod busy;
mod foreign;
mod large;
mod later;
mod limits;
mod nats_away;
mod offers;
mod queues;
mod same_request;
mod storage;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    time::Duration,
};

use bytes::Bytes;
use futures::future::join_all;
use keywork::proto::{
    self, DeadReason, JobState, OnConflict, SettlementOutcome, SubmitOutcome,
    lease_request::Message as Up, submit_request::Start, submit_result::Result as Wire,
};
use keywork_testkit::{KeyworkServer, eventually, eventually_some};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::support::{
    Client, SOON, Session, ack, admin, beat, client, cluster_with_two_servers, complete, create,
    dead, fail, hello, job, make_queue, offer, one_server, pull, retry, retry_after, server_on,
    sessions_of, short_lease, submit, wire,
};

/// One NATS request may take this long, and the machine is loaded.
const IN_TIME: Duration = Duration::from_secs(10);

/// The same submit with a request id, made from a number.
fn with_id(request: proto::SubmitRequest, number: u32) -> proto::SubmitRequest {
    proto::SubmitRequest {
        request_id: format!("00000000-0000-4000-8000-{number:012}"),
        ..request
    }
}

/// The same submit with a delay.
fn delayed(request: proto::SubmitRequest, delay: Duration) -> proto::SubmitRequest {
    proto::SubmitRequest {
        start: Some(Start::Delay(wire(delay))),
        ..request
    }
}

/// A time on the wire, so long from now. Client and server have one clock here.
fn from_now(delay: Duration) -> prost_types::Timestamp {
    let at = keywork_now() + delay;
    prost_types::Timestamp {
        seconds: i64::try_from(at.as_secs()).expect("a time"),
        nanos: i32::try_from(at.subsec_nanos()).expect("nanoseconds"),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a caller of the service reads its own clock"
)]
fn keywork_now() -> Duration {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a time after 1970")
}

fn many_attributes(count: usize) -> BTreeMap<String, String> {
    (0..count)
        .map(|n| (format!("name-{n}"), String::new()))
        .collect()
}

/// Leases the job of a submit and compares it with that; and completes it.
async fn assert_comes_through(client: &mut Client, submitted: &proto::SubmitRequest) {
    let leased = pull(client, &submitted.queue, SOON).await.expect("the job");
    let job = leased.job.expect("a job");
    assert_eq!(job.key, submitted.key);
    assert!(job.payload == submitted.payload, "the payload changed");
    assert_eq!(job.attributes, submitted.attributes);
    assert_eq!(job.content_type, submitted.content_type);
    let settled = ack(client, &leased.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
}

/// A result in short: its outcome, or its code with the field at fault.
fn verdict(result: &proto::SubmitResult) -> String {
    match &result.result {
        Some(Wire::Response(response)) => format!("{:?}", response.outcome()),
        Some(Wire::Error(error)) => format!("{:?} {}", Code::from_i32(error.code), error.field),
        None => "nothing".into(),
    }
}

fn side_effects(status: &Status) -> &str {
    let entry = status.metadata().get("side_effects");
    entry
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn assert_reason(status: &Status, reason: &str) {
    let info = status.get_details_error_info().expect("an ErrorInfo");
    assert_eq!((&*info.reason, &*info.domain), (reason, "keywork.dev"));
}

/// It is an INVALID_ARGUMENT that names these fields.
fn assert_violates(status: &Status, fields: &[&str]) {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert_reason(status, "INVALID_FIELD");
    let details = status.get_details_bad_request().expect("a BadRequest");
    // In any order.
    let named = details
        .field_violations
        .iter()
        .map(|v| &*v.field)
        .collect::<BTreeSet<_>>();
    assert_eq!(named, fields.iter().copied().collect(), "{status:?}");
    assert_eq!(details.field_violations.len(), fields.len(), "{status:?}");
}
