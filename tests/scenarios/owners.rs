//! Owners that must not overlap (laws 3 and 4): whatever wakes up when, only the current lease counts.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

mod moves;
mod races;
mod stale;
mod terms;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use keywork::proto::{
    self, Delivery, JobState, LostReason, SettlementOutcome as Settled, SubmitOutcome,
    lease_request::Message as Up, lease_response::Message as Down, settlement::Outcome,
};
use keywork_testkit::{KeyworkServer, NatsServer, eventually};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::support::{
    Careful, Client, Ledger, SHORT_LEASE, SOON, Session, ack, ack_all, admin, beat_all, client,
    cluster_with_two_servers, complete, create, create_all, dead, fail, hello, job, key_of, keys,
    make_queue, offer, one_server, pull, release, retry, retry_after, server_on, settlement,
    short_lease, submit, unwire, wire,
};

const QUEUE: &str = "owners";
const LONG_LEASE: Duration = Duration::from_secs(60);

/// One NATS and two servers.
async fn two_servers() -> (NatsServer, KeyworkServer, KeyworkServer) {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    (nats, a, b)
}

fn lease_of(duration: Duration) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(duration)),
        ..short_lease()
    }
}

fn tokens_of(deliveries: &[Delivery]) -> Vec<Bytes> {
    deliveries.iter().map(|d| d.lease_token.clone()).collect()
}

/// The settlement that a stale lease tries, in turn.
fn any_outcome(turn: usize) -> Outcome {
    match turn % 4 {
        0 => complete(),
        1 => retry(),
        2 => release(),
        _ => fail(),
    }
}

/// Whatever stale leases ask for, at either server: nothing comes of it, and they are told so.
/// Only what gave them back says, when it is said again, that it counted.
async fn stale_leases_are_refused(
    clients: &mut [Client],
    stale: &[Bytes],
    turn: usize,
    gave_back: Option<&Outcome>,
) {
    for (at, client) in clients.iter_mut().enumerate() {
        for (token, result) in stale.iter().zip(beat_all(client, stale).await) {
            assert_ne!(
                result.lost(),
                LostReason::Unspecified,
                "{at}: {token:?}: {result:?}"
            );
        }
        let asked = stale.iter().zip(turn..);
        let asked = asked.map(|(token, turn)| settlement(token, any_outcome(turn + at)));
        for (n, outcome) in ack_all(client, asked.collect()).await.iter().enumerate() {
            let what = any_outcome(turn + at + n);
            let expected = if gave_back == Some(&what) {
                Settled::AlreadySettled
            } else {
                Settled::LeaseLost
            };
            assert_eq!(*outcome, expected, "server {at}, {what:?}");
        }
    }
}

/// Each generation takes the jobs from the one before: by a session that supersedes it, or because it
/// gives them back.
async fn stale_leases_change_nothing(
    a: &KeyworkServer,
    b: &KeyworkServer,
    jobs: usize,
    generations: usize,
) {
    make_queue(a, QUEUE, lease_of(LONG_LEASE)).await;
    let mut clients = [client(a).await, client(b).await];
    create_all(&mut clients[0], QUEUE, &keys("key", jobs)).await;
    let capacity = u32::try_from(jobs).expect("a capacity");
    let mut session = Session::open(&mut clients[0], hello("w", QUEUE, capacity)).await;
    let mut current = session.deliveries_of(jobs).await;
    let mut newest: HashMap<String, u64> = HashMap::new();
    for generation in 0..generations {
        let stale = tokens_of(&current);
        let gave_back = (generation % 2 == 1).then(release);
        if gave_back.is_none() {
            // At either server in turn: the other one hears of it from its peer.
            let at = &mut clients[generation / 2 % 2];
            session = Session::open(at, hello("w", QUEUE, capacity)).await;
        } else {
            let given = stale.iter().map(|token| settlement(token, release()));
            for outcome in ack_all(&mut clients[0], given.collect()).await {
                assert_eq!(outcome, Settled::Settled);
            }
        }
        let beating = session.keep_beating(Vec::new());
        current = session.deliveries_of(jobs).await;
        for delivery in &current {
            let before = newest.insert(key_of(delivery), delivery.fencing_number);
            assert!(before < Some(delivery.fencing_number), "{delivery:?}");
            assert_eq!(delivery.attempt, 1, "nothing cost an attempt");
        }
        assert_eq!(newest.len(), jobs, "each job once");
        stale_leases_are_refused(&mut clients, &stale, generation, gave_back.as_ref()).await;
        let owned = tokens_of(&current);
        let confirmed = session.beat_ack(&owned).await;
        assert_eq!(confirmed.lost, [], "the owners lost nothing");
        drop(beating);
    }
    assert_eq!(dead(&mut clients[0], QUEUE).await, []);
    for delivery in &current {
        let settled = ack(&mut clients[1], &delivery.lease_token, complete()).await;
        assert_eq!(settled, Settled::Settled);
    }
    create_all(&mut clients[1], QUEUE, &keys("key", jobs)).await;
}
