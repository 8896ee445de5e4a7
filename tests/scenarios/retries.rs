//! Attempts, waits between them, and dead letters (laws 2 and 4).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of the messages of a session, a test picks the one that it waits for"
)]

mod dead_letters;
mod longest_run;
mod many;
mod waits;

use std::{collections::HashSet, time::Duration};

use futures::future::join_all;
use keywork::proto::{
    self, DeadReason, JobState, LostReason, SettlementOutcome, SubmitOutcome,
    lease_request::Message as Up, lease_response::Message as Down, submit_request::Start,
    submit_result::Result as Wire,
};
use keywork_testkit::{eventually, eventually_some};
use tokio::time::Instant;

use crate::support::{
    Client, SHORT_LEASE, SOON, Session, ack, beat, client, complete, create, dead, fail, hello,
    job, make_queue, offer, one_server, pull, release, retry, retry_after, settlement, short_lease,
    submit, unwire, wire,
};

/// What a loaded machine may add to a time that is promised.
const LOADED: Duration = Duration::from_secs(5);
/// JetStream waits for so much longer than the lease.
const MARGIN: Duration = Duration::from_secs(1);
/// Waits and deadlines are kept in whole milliseconds.
const ROUNDED: Duration = Duration::from_millis(2);

fn backoff(initial: Duration, max: Duration) -> proto::Backoff {
    proto::Backoff {
        initial: Some(wire(initial)),
        max: Some(wire(max)),
    }
}
