//! Servers and NATS that are killed and come back (laws 4, 5 and 6).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

mod accepted;
mod ends;
mod leaders;
mod leases;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use keywork::proto::{
    self, Delivery, SettlementOutcome as Settled, SubmitOutcome, lease_request::Message as Up,
    lease_response::Message as Down,
};
use keywork_testkit::{KeyworkServer, NatsCluster, NatsServer, eventually};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::Code;

use crate::support::{
    Careful, Client, Ledger, SHORT_LEASE, SOON, Session, ack, admin, client,
    cluster_with_two_servers, complete, create, create_all, dead, fail, hello, job, key_of, keys,
    leader_of_consumer, make_queue, offer, one_server, pull, release, retry_after, server_on,
    settlement, short_lease, submit, unwire, wire,
};

const QUEUE: &str = "restarts";
/// Long enough for a server or NATS to come back within it.
const LEASE: Duration = Duration::from_secs(6);

fn lease_of(duration: Duration) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(duration)),
        max_attempts: Some(100),
        ..short_lease()
    }
}

fn tokens_of(deliveries: &[Delivery]) -> Vec<Bytes> {
    deliveries.iter().map(|d| d.lease_token.clone()).collect()
}

/// The time that is left at least, for leases that were given after `before`.
fn deadlines(before: Instant, deliveries: &[Delivery]) -> HashMap<String, Instant> {
    let until = |d: &Delivery| before + unwire(d.time_left.as_ref());
    deliveries.iter().map(|d| (key_of(d), until(d))).collect()
}

/// A session that was given these leases, after `before`.
async fn leased(
    client: &mut Client,
    worker: &str,
    count: usize,
) -> (Session, Vec<Delivery>, HashMap<String, Instant>) {
    let capacity = u32::try_from(count).expect("a capacity");
    let before = Instant::now();
    let mut session = Session::open(client, hello(worker, QUEUE, capacity)).await;
    let mut living = session.keep_beating(Vec::new());
    living.detach_all();
    let deliveries = session.deliveries_of(count).await;
    // It takes nothing in the place of what it loses.
    session
        .send(Up::Capacity(proto::Capacity { capacity: 0 }))
        .await;
    let until = deadlines(before, &deliveries);
    (session, deliveries, until)
}

/// Another worker gets all these keys, none of them before its first lease's deadline, and nothing else.
async fn served_again_in_time(
    server: &KeyworkServer,
    worker: &str,
    until: &HashMap<String, Instant>,
) {
    let mut at = client(server).await;
    let mut other = Session::open(&mut at, hello(worker, QUEUE, 1_000)).await;
    let mut again = HashSet::new();
    let mut beating = other.keep_beating(Vec::new());
    let mut owned = Vec::new();
    while again.len() < until.len() {
        for delivery in other.deliveries().await {
            let key = key_of(&delivery);
            let first = until.get(&key).copied();
            let first = first.unwrap_or_else(|| panic!("{key} is not to run again"));
            let early = first.saturating_duration_since(Instant::now());
            assert!(
                early.is_zero(),
                "{key} was leased again {early:?} too early"
            );
            assert!(again.insert(key), "twice: {delivery:?}");
            owned.push(delivery.lease_token);
        }
        beating = other.keep_beating(owned.clone());
    }
    for token in &owned {
        assert_eq!(other.settle(token, complete()).await, Settled::Settled);
    }
    assert!(other.nothing_for(Duration::from_millis(300)).await);
    drop(beating);
}

/// Waits until the server has found NATS again.
async fn nats_is_back(client: &mut Client) {
    eventually(SOON, "the server has found NATS again", async || {
        let request = submit(QUEUE, "to-see-nats", "payload");
        client.submit(request).await.is_ok()
    })
    .await;
}

/// Settles a lease, asking again while NATS does not answer.
async fn settled_in_the_end(client: &mut Client, token: &Bytes) {
    eventually(SOON, "a settlement is answered", async || {
        match ack(client, token, complete()).await {
            Settled::TryAgain => false,
            outcome => {
                assert_eq!(outcome, Settled::Settled);
                true
            }
        }
    })
    .await;
}

/// A request id.
fn uuid_of(random: u128) -> String {
    let hex = format!("{random:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..],
    ];
    format!(
        "{}-{}-4{}-8{}-{}",
        parts[0], parts[1], parts[2], parts[3], parts[4]
    )
}

async fn lease_and(at: &mut Client, key: &str, outcome: proto::settlement::Outcome) {
    let leased = pull(at, QUEUE, SOON).await.expect("the job");
    assert_eq!(key_of(&leased), key);
    assert_eq!(
        ack(at, &leased.lease_token, outcome).await,
        Settled::Settled
    );
}
