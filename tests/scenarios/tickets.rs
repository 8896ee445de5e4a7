//! What a session's ticket proves at another server, when the one that made it is gone (laws 3 and 4).

use std::time::Duration;

use bytes::Bytes;
use keywork::proto::{self, lease_request::Message as Up};
use keywork_testkit::{FaultProxy, KeyworkServer, Mode, NatsServer};
use tokio::time::{Instant, sleep_until};

use crate::support::{
    Client, Session, client, create, hello, key_of, make_queue, server_on, short_lease, unwire,
    wire,
};

const LEASE: Duration = Duration::from_secs(6);
/// When leases are extended: their first deadline is near enough to be waited for.
const EXTENDED_AT: Duration = Duration::from_secs(4);
/// When they are claimed elsewhere: after their first deadline, before the one that they were extended to.
const CLAIMED_AT: Duration = Duration::from_secs(7);

fn lease_of(duration: Duration) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(duration)),
        ..short_lease()
    }
}

async fn two_servers(queues: &[(&str, Duration)]) -> (NatsServer, KeyworkServer, KeyworkServer) {
    let nats = NatsServer::start().await;
    let (a, b) = (server_on(&nats.url()).await, server_on(&nats.url()).await);
    for (queue, duration) in queues {
        make_queue(&a, queue, lease_of(*duration)).await;
    }
    (nats, a, b)
}

/// Claims these leases: the time that is left of each, none where it is lost.
async fn claim(
    at: &mut Client,
    hello: proto::Hello,
    tokens: &[&Bytes],
    ticket: &Bytes,
) -> (Session, Vec<Option<Duration>>) {
    let hello = proto::Hello {
        held_leases: tokens.iter().map(|token| (*token).clone()).collect(),
        session_ticket: ticket.clone(),
        ..hello
    };
    let session = Session::open(at, hello).await;
    let left = |token: &&Bytes| {
        let resumed = &session.welcome.resumed;
        let found = resumed.iter().find(|lease| lease.lease_token == **token);
        found.map(|lease| unwire(lease.time_left.as_ref()))
    };
    let left = tokens.iter().map(left).collect();
    (session, left)
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_ticket_does_not_speak_for_a_lease_that_no_heartbeat_listed() {
    let (_nats, a, b) = two_servers(&[("q", LEASE)]).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    create(&mut at_a, "q", "extended").await;
    create(&mut at_a, "q", "left out").await;
    let mut session = Session::open(&mut at_a, hello("w", "q", 2)).await;
    let began = Instant::now();
    let leases = session.deliveries_of(2).await;
    let of = |key| {
        &leases
            .iter()
            .find(|lease| key_of(lease) == key)
            .expect("it")
            .lease_token
    };
    sleep_until(began + EXTENDED_AT).await;
    let ack = session.beat_ack(&[of("extended").clone()]).await;
    a.kill();

    let tokens = [of("extended"), of("left out")];
    let (_session, left) = claim(&mut at_b, hello("w", "q", 2), &tokens, &ack.session_ticket).await;
    let of_lease = LEASE.saturating_sub(began.elapsed());
    assert!(left[0].is_some_and(|left| left > of_lease), "{left:?}");
    // Its own token still proves its first deadline.
    assert!(
        left[1].is_none_or(|left| left < LEASE - EXTENDED_AT),
        "{left:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_ticket_knows_what_each_queue_leases_for() {
    let short = Duration::from_secs(2);
    let (_nats, a, b) = two_servers(&[("long", LEASE), ("short", short)]).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    create(&mut at_a, "long", "key").await;
    let both = || {
        let mut hello = hello("w", "long", 1);
        hello.queues.push(proto::QueueSubscription {
            queue: "short".into(),
            weight: 1,
        });
        hello
    };
    let mut session = Session::open(&mut at_a, both()).await;
    let began = Instant::now();
    let lease = session.delivery().await.lease_token;
    let beating = session.keep_beating(vec![lease.clone()]);
    sleep_until(began + EXTENDED_AT).await;
    drop(beating);
    let ack = session.beat_ack(std::slice::from_ref(&lease)).await;
    a.kill();

    sleep_until(began + CLAIMED_AT).await;
    let (_session, left) = claim(&mut at_b, both(), &[&lease], &ack.session_ticket).await;
    assert!(left[0].is_some(), "it was extended for 6 s, 3 s ago");
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_ticket_speaks_for_leases_of_many_earlier_sessions() {
    const SESSIONS: usize = 12;
    let (_nats, a, b) = two_servers(&[("q", LEASE)]).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    let began = Instant::now();
    let (mut tokens, mut ticket) = (Vec::new(), Bytes::new());
    let mut open = None;
    for n in 0..SESSIONS {
        drop(open.take());
        create(&mut at_a, "q", &format!("k{n}")).await;
        let held: Vec<&Bytes> = tokens.iter().collect();
        let hello = hello("w", "q", 1 + u32::try_from(n).expect("a few"));
        let (mut session, left) = claim(&mut at_a, hello, &held, &ticket).await;
        assert!(left.iter().all(Option::is_some), "{left:?}");
        tokens.push(session.delivery().await.lease_token);
        ticket = session.beat_ack(&tokens).await.session_ticket;
        open = Some(session);
    }
    sleep_until(began + EXTENDED_AT).await;
    let mut session = open.expect("the last session");
    let ack = session.beat_ack(&tokens).await;
    assert_eq!((&ack.lost, &ack.unconfirmed), (&vec![], &vec![]));
    a.kill();

    sleep_until(began + CLAIMED_AT).await;
    let held: Vec<&Bytes> = tokens.iter().collect();
    let capacity = u32::try_from(SESSIONS).expect("a few");
    let hello = hello("w", "q", capacity);
    let (_session, left) = claim(&mut at_b, hello, &held, &ack.session_ticket).await;
    assert!(left.iter().all(Option::is_some), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_heartbeat_that_could_not_be_confirmed_takes_nothing_from_an_earlier_one() {
    let (nats, a, b) = two_servers(&[("q", LEASE)]).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    create(&mut at_a, "q", "key").await;
    let mut session = Session::open(&mut at_a, hello("w", "q", 1)).await;
    let began = Instant::now();
    let lease = session.delivery().await.lease_token;
    sleep_until(began + EXTENDED_AT).await;
    session.beat_ack(std::slice::from_ref(&lease)).await;
    nats.pause();
    let ack = session.beat_ack(std::slice::from_ref(&lease)).await;
    nats.resume();
    a.kill();
    assert_eq!(ack.unconfirmed, std::slice::from_ref(&lease));

    sleep_until(began + CLAIMED_AT).await;
    let hello = hello("w", "q", 1);
    let (_session, left) = claim(&mut at_b, hello, &[&lease], &ack.session_ticket).await;
    assert!(left[0].is_some(), "the first heartbeat was confirmed");
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_every_heartbeat_of_many_in_a_row_extends_what_it_lists() {
    const LEASES: usize = 6;
    let nats = NatsServer::start().await;
    let proxy = FaultProxy::start(nats.address()).await;
    proxy.set(Mode::Delay(Duration::from_millis(20)));
    let server = server_on(&format!("nats://{}", proxy.address())).await;
    make_queue(&server, "q", lease_of(LEASE)).await;
    let mut client = client(&server).await;
    for n in 0..LEASES {
        create(&mut client, "q", &format!("k{n}")).await;
    }
    let mut session = Session::open(&mut client, hello("w", "q", 6)).await;
    let began = Instant::now();
    let leases = session.deliveries_of(LEASES).await;
    sleep_until(began + EXTENDED_AT).await;
    let (last, first) = leases.split_last().expect("leases");
    for (n, lease) in (0..).zip(first) {
        let beat = proto::LeaseHeartbeat {
            sequence: n,
            lease_tokens: vec![lease.lease_token.clone()],
        };
        session.send(Up::Heartbeat(beat)).await;
    }
    let beat = proto::LeaseHeartbeat {
        sequence: 100,
        lease_tokens: vec![last.lease_token.clone()],
    };
    session.send(Up::Heartbeat(beat)).await;

    sleep_until(began + CLAIMED_AT).await;
    let all: Vec<Bytes> = leases
        .iter()
        .map(|lease| lease.lease_token.clone())
        .collect();
    let ack = session.beat_ack(&all).await;
    assert_eq!(
        ack.lost,
        [],
        "each was extended by a heartbeat that was answered"
    );
}
