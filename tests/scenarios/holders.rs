//! A lease that another server extended: every server must know it for what it is (laws 3 and 4).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

use std::time::Duration;

use bytes::Bytes;
use keywork::proto::{
    self, LostReason, SettlementOutcome as Settled, lease_response::Message as Down,
};
use keywork_testkit::{KeyworkServer, NatsServer};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::support::{
    Client, SOON, Session, ack, beat, client, cluster_with_two_servers, complete, create,
    create_all, hello, keys, make_queue, pull, release, server_on, short_lease, unwire, wire,
};

const QUEUE: &str = "holders";
/// Longer than a server waits for one that does not answer.
const LEASE: Duration = Duration::from_secs(6);
/// What the one that did not answer did when it was back is over then as well.
const LONG_AFTER: Duration = Duration::from_secs(7);
const OFTEN: Duration = Duration::from_millis(200);

fn lease_of(duration: Duration) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(duration)),
        ..short_lease()
    }
}

async fn two_servers(config: proto::QueueConfig) -> (NatsServer, KeyworkServer, KeyworkServer) {
    let nats = NatsServer::start().await;
    let (a, b) = (server_on(&nats.url()).await, server_on(&nats.url()).await);
    make_queue(&a, QUEUE, config).await;
    create(&mut client(&b).await, QUEUE, "key").await;
    (nats, a, b)
}

/// Extends a lease, which must be possible: the renewed token.
async fn extend(at: &mut Client, token: &Bytes, when: &str) -> Bytes {
    let result = beat(at, token).await;
    let left = unwire(result.time_left.as_ref());
    assert!(!left.is_zero(), "{when}: {result:?}");
    result.lease_token
}

/// `b` takes a lease over while `a`, which gave it, does not answer. The renewed token.
async fn taken_over(a: &KeyworkServer, b: &mut Client, token: &Bytes) -> Bytes {
    a.pause();
    let renewed = extend(b, token, "while its server stands still").await;
    a.resume();
    renewed
}

/// Extends a lease at one server for so long.
async fn extend_for(b: &mut Client, mut token: Bytes, time: Duration) -> Bytes {
    let until = Instant::now() + time;
    while Instant::now() < until {
        token = extend(b, &token, "at the server that took it over").await;
        sleep(OFTEN).await;
    }
    token
}

/// A lease that `a` gave by a pull and only `b` extended, past the deadline that `a` knew: its first token,
/// and its newest.
async fn extended_elsewhere(a: &KeyworkServer, b: &KeyworkServer) -> (Bytes, Bytes) {
    let (mut at_a, mut at_b) = (client(a).await, client(b).await);
    let first = pull(&mut at_a, QUEUE, SOON).await.expect("a job");
    let first = first.lease_token;
    let renewed = taken_over(a, &mut at_b, &first).await;
    let newest = extend_for(&mut at_b, renewed, LONG_AFTER).await;
    (first, newest)
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_lease_that_another_server_extended_is_good_where_it_was_given() {
    let (_nats, a, b) = two_servers(lease_of(LEASE)).await;
    let (first, newest) = extended_elsewhere(&a, &b).await;
    let mut at_a = client(&a).await;
    extend(&mut at_a, &newest, "by its newest token").await;
    extend(&mut at_a, &first, "by its first token").await;
    assert_eq!(ack(&mut at_a, &newest, complete()).await, Settled::Settled);
    create(&mut at_a, QUEUE, "key").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_lease_that_another_server_extended_is_good_by_its_first_token() {
    let (_nats, a, b) = two_servers(lease_of(LEASE)).await;
    let (first, _) = extended_elsewhere(&a, &b).await;
    let held = proto::Hello {
        held_leases: vec![first.clone()],
        ..hello("w", QUEUE, 1)
    };
    let mut session = Session::open(&mut client(&a).await, held).await;
    assert_eq!(session.welcome.lost, []);
    assert_eq!(session.settle(&first, complete()).await, Settled::Settled);
    create(&mut client(&a).await, QUEUE, "key").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_lease_that_another_server_extended_is_gone_on_with_where_it_was_given() {
    let (_nats, a, b) = two_servers(lease_of(LEASE)).await;
    let (_, newest) = extended_elsewhere(&a, &b).await;
    // The other server is gone: only the token proves anything.
    b.kill();
    let held = proto::Hello {
        held_leases: vec![newest.clone()],
        ..hello("w", QUEUE, 1)
    };
    let mut session = Session::open(&mut client(&a).await, held).await;
    assert_eq!(session.welcome.lost, []);
    assert_eq!(session.beat(&[&newest]).await, []);
    assert_eq!(session.settle(&newest, release()).await, Settled::Settled);
    session.beating_delivery().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_lease_that_moves_on_is_as_long_as_its_newest_token_says() {
    let (nats, a, b) = two_servers(lease_of(LEASE)).await;
    let c = server_on(&nats.url()).await;
    let first = pull(&mut client(&a).await, QUEUE, SOON).await;
    let first = first.expect("a job").lease_token;
    let mut at_b = client(&b).await;
    let renewed = taken_over(&a, &mut at_b, &first).await;
    let known_until = Instant::now() + LEASE;
    let newest = extend_for(&mut at_b, renewed, LEASE / 2).await;
    b.kill();
    // The one that gave it knows an earlier deadline, and lets go of it.
    let held = proto::Hello {
        held_leases: vec![newest.clone()],
        ..hello("w", QUEUE, 1)
    };
    let mut session = Session::open(&mut client(&c).await, held).await;
    assert!(Instant::now() < known_until, "too slow to show anything");
    assert_eq!(session.welcome.lost, []);
    let _living = session.keep_beating(Vec::new());
    sleep_until(known_until + OFTEN).await;
    assert_eq!(session.beat(&[&newest]).await, [], "before its deadline");
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_session_is_not_told_that_a_lease_expired_which_another_server_extended() {
    let (_nats, a, b) = two_servers(lease_of(LEASE)).await;
    let mut session = Session::open(&mut client(&a).await, hello("w", QUEUE, 1)).await;
    let token = session.delivery().await.lease_token;
    let _living = session.keep_beating(Vec::new());
    let mut at_b = client(&b).await;
    let renewed = taken_over(&a, &mut at_b, &token).await;
    extend_for(&mut at_b, renewed, LONG_AFTER).await;
    let lost = session.within(OFTEN, |message| match message {
        Down::LeasesLost(list) => Some(list.leases.clone()),
        _ => None,
    });
    assert_eq!(lost.await, None, "while the other server extends it");
    assert_eq!(session.beat(&[&token]).await, []);
    assert_eq!(session.settle(&token, complete()).await, Settled::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_lease_that_another_server_extended_is_not_given_up_when_its_stream_breaks() {
    const GRACE: Duration = Duration::from_secs(1);
    let config = proto::QueueConfig {
        disconnect_grace: Some(wire(GRACE)),
        ..lease_of(LEASE)
    };
    let (_nats, a, b) = two_servers(config).await;
    let mut session = Session::open(&mut client(&a).await, hello("w", QUEUE, 1)).await;
    let token = session.delivery().await.lease_token;
    let mut at_b = client(&b).await;
    let mut renewed = taken_over(&a, &mut at_b, &token).await;
    session.close();
    let closed_at = Instant::now();
    while closed_at.elapsed() < GRACE * 2 {
        renewed = extend(&mut at_b, &renewed, "after the stream broke").await;
        sleep(OFTEN).await;
    }
    assert_eq!(ack(&mut at_b, &renewed, complete()).await, Settled::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_no_server_says_that_a_lease_is_lost_while_leaders_move() {
    const JOBS: usize = 900;
    let (cluster, a, b) = cluster_with_two_servers().await;
    make_queue(&a, QUEUE, lease_of(Duration::from_secs(90))).await;
    let (mut at_a, at_b) = (client(&a).await, client(&b).await);
    create_all(&mut at_a, QUEUE, &keys("key", JOBS)).await;
    let capacity = u32::try_from(JOBS).expect("a capacity");
    let mut session = Session::open(&mut at_a, hello("w", QUEUE, capacity)).await;
    let _living = session.keep_beating(Vec::new());
    let leases = session.deliveries_of(JOBS).await;
    let tokens: Vec<Bytes> = leases.into_iter().map(|d| d.lease_token).collect();
    for (node, tokens) in cluster.nodes().iter().zip(tokens.chunks(JOBS / 3)) {
        node.kill();
        shown_one_by_one(&at_b, tokens).await;
        node.restart().await;
        cluster.wait_until_whole().await;
    }
}

/// Shows leases to a server that does not know them yet, whether or not the one before was answered. None may
/// be lost.
async fn shown_one_by_one(at: &Client, tokens: &[Bytes]) {
    const APART: Duration = Duration::from_millis(15);
    let began = Instant::now();
    let mut shown = JoinSet::new();
    for token in tokens {
        let (mut at, token) = (at.clone(), token.clone());
        shown.spawn(async move { (began.elapsed(), beat(&mut at, &token).await) });
        sleep(APART).await;
    }
    while let Some(answered) = shown.join_next().await {
        let (after, result) = answered.expect("an answer");
        assert_eq!(
            result.lost(),
            LostReason::Unspecified,
            "{after:?} after the kill"
        );
    }
}
