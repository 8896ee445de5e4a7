//! Owners that must not overlap (laws 3 and 4): whatever wakes up when, only the current lease counts.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

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

#[tokio::test(flavor = "multi_thread")]
async fn law_3_ten_thousand_stale_leases_change_nothing() {
    let (_nats, a, b) = two_servers().await;
    stale_leases_change_nothing(&a, &b, 500, 20).await;
}

/// Leases that run out while their worker is held up, and go to another. Answers the worker's session,
/// the stale leases, the other's session and its leases.
async fn leases_that_ran_out(
    a: &KeyworkServer,
    b: &KeyworkServer,
    jobs: usize,
) -> (Session, Vec<Bytes>, Session, Vec<Bytes>) {
    make_queue(a, QUEUE, short_lease()).await;
    let (mut at_a, mut at_b) = (client(a).await, client(b).await);
    create_all(&mut at_a, QUEUE, &keys("key", jobs)).await;
    let capacity = u32::try_from(jobs).expect("a capacity");
    let before = Instant::now();
    let mut held_up = Session::open(&mut at_a, hello("held-up", QUEUE, capacity)).await;
    let mut living = held_up.keep_beating(Vec::new());
    let stale = held_up.deliveries_of(jobs).await;
    held_up
        .send(Up::Capacity(proto::Capacity { capacity: 0 }))
        .await;
    let mut other = Session::open(&mut at_b, hello("other", QUEUE, capacity)).await;
    let mut owned: Vec<Delivery> = Vec::new();
    let mut beating = other.keep_beating(Vec::new());
    while owned.len() < jobs {
        owned.extend(other.deliveries().await);
        beating = other.keep_beating(tokens_of(&owned));
        assert!(
            before.elapsed() >= SHORT_LEASE,
            "leased again before the deadline"
        );
    }
    assert!(owned.iter().all(|d| d.attempt == 2), "{owned:?}");
    living.detach_all();
    beating.detach_all();
    (held_up, tokens_of(&stale), other, tokens_of(&owned))
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_a_lease_that_ran_out_cannot_touch_the_next_owner() {
    let (_nats, a, b) = two_servers().await;
    let (mut held_up, stale, mut other, owned) = leases_that_ran_out(&a, &b, 60).await;
    let listed: Vec<&Bytes> = stale.iter().collect();
    assert_eq!(
        held_up.beat(&listed).await.len(),
        stale.len(),
        "all are lost"
    );
    for (turn, token) in stale.iter().enumerate() {
        assert_eq!(
            held_up.settle(token, any_outcome(turn)).await,
            Settled::LeaseLost
        );
    }
    let mut clients = [client(&a).await, client(&b).await];
    stale_leases_are_refused(&mut clients, &stale, 0, None).await;
    assert_eq!(other.beat_ack(&owned).await.lost, []);
    for token in &owned {
        assert_eq!(other.settle(token, complete()).await, Settled::Settled);
    }
    assert_eq!(dead(&mut clients[0], QUEUE).await, []);
    create_all(&mut clients[0], QUEUE, &keys("key", owned.len())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_a_stale_fail_makes_no_dead_letter() {
    let (_nats, a, b) = two_servers().await;
    let (mut held_up, stale, mut other, owned) = leases_that_ran_out(&a, &b, 1).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    assert_eq!(held_up.settle(&stale[0], fail()).await, Settled::LeaseLost);
    assert_eq!(ack(&mut at_a, &stale[0], fail()).await, Settled::LeaseLost);
    assert_eq!(ack(&mut at_b, &stale[0], fail()).await, Settled::LeaseLost);
    assert_eq!(dead(&mut at_a, QUEUE).await, []);
    let held = job(&mut at_a, QUEUE, "key-0").await.expect("the job");
    assert_eq!(held.state(), JobState::Leased);
    assert_eq!(other.settle(&owned[0], complete()).await, Settled::Settled);
    assert_eq!(dead(&mut at_a, QUEUE).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_always_conflicts_holds_up_no_other() {
    let (_nats, server) = one_server().await;
    make_queue(&server, QUEUE, lease_of(LONG_LEASE)).await;
    let mut at = client(&server).await;
    create(&mut at, QUEUE, "hot").await;
    let hot = pull(&mut at, QUEUE, SOON).await.expect("the hot job");
    let conflicts = Arc::new(AtomicUsize::new(0));
    let mut hammering = JoinSet::new();
    for _ in 0..4 {
        let (mut at, conflicts) = (client(&server).await, Arc::clone(&conflicts));
        hammering.spawn(async move {
            loop {
                let (outcome, _) = offer(&mut at, submit(QUEUE, "hot", "again")).await;
                assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
                conflicts.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let others = keys("other", 1_000);
    let mut session = Session::open(&mut at, hello("w", QUEUE, 100)).await;
    let _living = session.keep_beating(Vec::new());
    create_all(&mut at, QUEUE, &others).await;
    let mut served = HashSet::new();
    while served.len() < others.len() {
        for delivery in session.deliveries().await {
            assert!(served.insert(key_of(&delivery)), "each runs once");
            let settled = settlement(&delivery.lease_token, complete());
            let settlements = vec![settled];
            session
                .send(Up::Settlements(proto::Settlements { settlements }))
                .await;
        }
    }
    assert!(!served.contains("hot"));
    eventually(SOON, "the hot key conflicts often", async || {
        conflicts.load(Ordering::Relaxed) >= 100
    })
    .await;
    assert!(
        hammering.try_join_next().is_none(),
        "a conflict is no failure"
    );
    drop(hammering);
    assert_eq!(
        ack(&mut at, &hot.lease_token, complete()).await,
        Settled::Settled
    );
}

/// What a session says of settlements until all are answered or it ends; nothing may be delivered.
async fn answers_of(session: &mut Session, count: usize) -> Vec<proto::SettlementResult> {
    let mut results = Vec::new();
    while results.len() < count {
        match session.next().await {
            Ok(Some(Down::SettlementResults(list))) => results.extend(list.results),
            Ok(Some(Down::Deliveries(list))) => panic!("delivered after the stall: {list:?}"),
            Ok(Some(_)) => {}
            // It was silent for too long: what it sent may not have been read.
            Ok(None) | Err(_) => break,
        }
    }
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_a_server_that_stalled_brings_nothing_old_to_effect() {
    const HALF: usize = 100;
    let (_nats, a, b) = two_servers().await;
    make_queue(&a, QUEUE, short_lease()).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    create_all(&mut at_a, QUEUE, &keys("early", HALF)).await;
    let mut stalled = Session::open(&mut at_a, hello("stalled", QUEUE, 400)).await;
    let early = tokens_of(&stalled.deliveries_of(HALF).await);

    // Its pull waits at NATS, so what is submitted now goes into its buffers; so do the settlements.
    a.pause();
    let paused_at = Instant::now();
    create_all(&mut at_b, QUEUE, &keys("late", HALF)).await;
    let settlements = early
        .iter()
        .zip(0..)
        .map(|(t, turn)| settlement(t, any_outcome(turn)))
        .collect();
    stalled
        .send(Up::Settlements(proto::Settlements { settlements }))
        .await;
    let mut other = Session::open(&mut at_b, hello("other", QUEUE, 400)).await;
    let (mut owned, mut beating) = (Vec::new(), other.keep_beating(Vec::new()));
    while owned.len() < 2 * HALF {
        owned.extend(other.deliveries().await);
        beating = other.keep_beating(tokens_of(&owned));
    }
    assert!(paused_at.elapsed() >= SHORT_LEASE - Duration::from_millis(500));
    a.resume();

    for result in answers_of(&mut stalled, HALF).await {
        assert_eq!(result.outcome(), Settled::LeaseLost);
    }
    let mut again = client(&a).await;
    stale_leases_are_refused(std::slice::from_mut(&mut again), &early, 1, None).await;
    assert!(other.nothing_for(Duration::from_millis(500)).await);
    let owned = tokens_of(&owned);
    assert_eq!(other.beat_ack(&owned).await.lost, []);
    drop(beating);
    for token in &owned {
        assert_eq!(other.settle(token, complete()).await, Settled::Settled);
    }
    assert_eq!(dead(&mut again, QUEUE).await, []);
    create_all(&mut again, QUEUE, &keys("early", HALF)).await;
    create_all(&mut again, QUEUE, &keys("late", HALF)).await;
}

/// Changes a queue's lease duration.
async fn change_lease(server: &KeyworkServer, duration: Duration) {
    let request = proto::UpdateQueueRequest {
        name: QUEUE.into(),
        config: Some(lease_of(duration)),
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["lease_duration".into()],
        }),
    };
    let updated = admin(server).await.update_queue(request).await;
    updated.expect("the queue is changed");
}

/// How long JetStream waits for a settlement.
async fn ack_wait(nats: &NatsServer) -> Duration {
    let context = async_nats::jetstream::new(nats.connect().await);
    let name = format!("WORK_{QUEUE}");
    let stream = context.get_stream(&name).await.expect("the stream");
    let mut names = std::pin::pin!(stream.consumer_names());
    let consumer = futures::StreamExt::next(&mut names).await;
    let consumer = consumer.expect("a consumer").expect("its name");
    let info = stream.consumer_info(consumer).await.expect("its state");
    info.config.ack_wait
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_no_lease_is_lost_when_the_lease_duration_changes() {
    let (nats, a, b) = two_servers().await;
    make_queue(&a, QUEUE, lease_of(2 * SHORT_LEASE)).await;
    let ledger = Arc::new(Ledger::default());
    let workers: Vec<_> = [(&a, "w-a"), (&b, "w-b"), (&a, "w-c")]
        .into_iter()
        .map(|(server, name)| {
            let worker = Careful {
                name: name.into(),
                queue: QUEUE.into(),
                endpoints: vec![server.endpoint()],
                capacity: 40,
                longest: 3 * SHORT_LEASE,
                ledger: Arc::clone(&ledger),
            };
            worker.start()
        })
        .collect();
    let mut submitting = JoinSet::new();
    let mut at = client(&b).await;
    submitting.spawn(async move {
        loop {
            for key in keys("key", 150) {
                offer(&mut at, submit(QUEUE, &key, "again")).await;
            }
            sleep(Duration::from_millis(50)).await;
        }
    });
    let settled = |least: u32| {
        let ledger = Arc::clone(&ledger);
        async move {
            eventually(SOON * 2, "jobs are done", async || {
                ledger.settlements().values().sum::<u32>() >= least
            })
            .await;
            ledger.settlements().values().sum::<u32>()
        }
    };
    let before = settled(40).await;
    change_lease(&a, SHORT_LEASE).await;
    let shortened = SHORT_LEASE + Duration::from_secs(1);
    eventually(3 * SOON, "JetStream's wait is shortened", async || {
        ack_wait(&nats).await == shortened
    })
    .await;
    let between = settled(before + 150).await;
    change_lease(&b, 2 * SHORT_LEASE).await;
    settled(between + 150).await;
    drop((workers, submitting));
    ledger.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_a_lease_of_a_deleted_queue_is_lost_and_touches_nothing_of_the_next() {
    let (_nats, a, b) = two_servers().await;
    let mut clients = [client(&a).await, client(&b).await];
    let mut newest = 0;
    for round in 0..6 {
        make_queue(&a, QUEUE, lease_of(LONG_LEASE)).await;
        let (holder, deleter) = if round % 2 == 0 { (0, &b) } else { (1, &a) };
        create_all(&mut clients[holder], QUEUE, &keys("key", 8)).await;
        let mut session = Session::open(&mut clients[holder], hello("w", QUEUE, 8)).await;
        let old = session.deliveries_of(8).await;
        assert!(old.iter().all(|d| d.fencing_number > newest), "{old:?}");
        let request = proto::DeleteQueueRequest {
            name: QUEUE.into(),
            force: true,
        };
        let deleted = admin(deleter).await.delete_queue(request).await;
        deleted.expect("the queue is deleted");
        make_queue(deleter, QUEUE, lease_of(LONG_LEASE)).await;
        let stale = tokens_of(&old);
        stale_leases_are_refused(&mut clients[holder..], &stale, round, None).await;

        create_all(&mut clients[0], QUEUE, &keys("key", 8)).await;
        let mut next = Session::open(&mut clients[0], hello("next", QUEUE, 8)).await;
        let owned = next.deliveries_of(8).await;
        stale_leases_are_refused(&mut clients, &stale, round, None).await;
        let old_newest = old.iter().map(|d| d.fencing_number).max().unwrap_or(0);
        assert!(owned.iter().all(|d| d.fencing_number > old_newest));
        newest = owned.iter().map(|d| d.fencing_number).max().unwrap_or(0);
        for token in tokens_of(&owned) {
            assert_eq!(next.settle(&token, complete()).await, Settled::Settled);
        }
        assert_eq!(dead(&mut clients[0], QUEUE).await, []);
        let request = proto::DeleteQueueRequest {
            name: QUEUE.into(),
            force: false,
        };
        let deleted = admin(deleter).await.delete_queue(request).await;
        deleted.expect("nothing is left in the queue");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fencing_numbers_grow_with_each_lease_of_a_key() {
    let (_nats, server) = one_server().await;
    let mut at = client(&server).await;
    let mut newest = 0;
    for _ in 0..3 {
        make_queue(&server, QUEUE, short_lease()).await;
        create(&mut at, QUEUE, "key").await;
        let now = || retry_after(Duration::ZERO);
        for outcome in [release(), now(), release(), complete()] {
            let leased = pull(&mut at, QUEUE, SOON).await.expect("the job");
            assert!(leased.fencing_number > newest, "{leased:?}");
            newest = leased.fencing_number;
            assert_eq!(
                ack(&mut at, &leased.lease_token, outcome).await,
                Settled::Settled
            );
        }
        create(&mut at, QUEUE, "key").await;
        let leased = pull(&mut at, QUEUE, SOON).await.expect("the next job");
        assert!(leased.fencing_number > newest, "{leased:?}");
        newest = leased.fencing_number;
        let request = proto::DeleteQueueRequest {
            name: QUEUE.into(),
            force: true,
        };
        let deleted = admin(&server).await.delete_queue(request).await;
        deleted.expect("the queue is deleted");
    }
}

/// A lease that a worker was given by a unary pull at one server, used at another.
async fn a_token_works_at_the_other_server(from: &KeyworkServer, to: &KeyworkServer, killed: bool) {
    let config = lease_of(Duration::from_secs(6));
    make_queue(from, QUEUE, config).await;
    let (mut at_from, mut at_to) = (client(from).await, client(to).await);
    // The other one knows the queue: otherwise its first call opens it.
    create_all(&mut at_to, QUEUE, &keys("key", 4)).await;
    let mut leases = Vec::new();
    for _ in 0..4 {
        leases.push(pull(&mut at_from, QUEUE, SOON).await.expect("a job"));
    }
    if killed {
        from.kill();
    }
    let tokens = tokens_of(&leases);
    let renewed = beat_all(&mut at_to, &tokens).await;
    let extended = |r: &proto::HeartbeatResult| !unwire(r.time_left.as_ref()).is_zero();
    assert!(renewed.iter().all(extended), "{renewed:?}");
    // The old token names the same lease as the renewed one.
    let outcomes = [complete(), retry_after(Duration::ZERO), release(), fail()];
    let mut stale = Vec::new();
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let token = if n % 2 == 0 {
            &renewed[n].lease_token
        } else {
            &tokens[n]
        };
        let settled = ack(&mut at_to, token, outcome).await;
        assert_eq!(settled, Settled::Settled, "{n}");
        stale.extend([tokens[n].clone(), renewed[n].lease_token.clone()]);
    }
    assert_eq!(dead(&mut at_to, QUEUE).await.len(), 1);
    let mut again = Vec::new();
    for _ in 0..2 {
        again.push(pull(&mut at_to, QUEUE, SOON).await.expect("a job again"));
    }
    // Whoever shows the old leases anywhere changes nothing of the new ones.
    for client in if killed {
        vec![&mut at_to]
    } else {
        vec![&mut at_to, &mut at_from]
    } {
        for token in &stale {
            let outcome = ack(client, token, complete()).await;
            let refused = [Settled::LeaseLost, Settled::AlreadySettled];
            assert!(refused.contains(&outcome), "{outcome:?}");
        }
    }
    for lease in again {
        assert_eq!(
            ack(&mut at_to, &lease.lease_token, complete()).await,
            Settled::Settled
        );
    }
    create_all(&mut at_to, QUEUE, &keys("key", 4)).await;
}

/// A session's leases, gone on with by the same worker at another server, past their first deadline.
async fn a_worker_goes_on_at_the_other_server(
    from: &KeyworkServer,
    to: &KeyworkServer,
    killed: bool,
) {
    const QUEUE: &str = "moving";
    const LEASE: Duration = Duration::from_secs(6);
    make_queue(from, QUEUE, lease_of(LEASE)).await;
    let (mut at_from, mut at_to) = (client(from).await, client(to).await);
    create_all(&mut at_to, QUEUE, &keys("key", 10)).await;
    let mut first = Session::open(&mut at_from, hello("w", QUEUE, 10)).await;
    let tokens = tokens_of(&first.deliveries_of(10).await);
    let confirmed = first.beat_ack(&tokens).await;
    assert_eq!((confirmed.lost, confirmed.unconfirmed), (vec![], vec![]));
    let beaten_at = Instant::now();
    if killed {
        from.kill();
    }
    let claiming = proto::Hello {
        held_leases: tokens.clone(),
        session_ticket: confirmed.session_ticket,
        ..hello("w", QUEUE, 10)
    };
    let mut second = Session::open(&mut at_to, claiming).await;
    assert_eq!(second.welcome.lost, [], "nothing is lost on the way");
    assert_eq!(second.welcome.resumed.len(), tokens.len());
    let _beating = second.keep_beating(tokens.clone());
    if !killed {
        let away = first.wait_for(|message| match message {
            Down::GoAway(away) => Some(away.reason()),
            _ => None,
        });
        assert_eq!(away.await, proto::GoAwayReason::Superseded);
    }
    // Past the first deadline: only the second session's heartbeats hold them.
    let past = (beaten_at + LEASE + Duration::from_secs(2)) - Instant::now();
    assert!(second.nothing_for(past).await, "leased again");
    for token in &tokens {
        assert_eq!(second.settle(token, complete()).await, Settled::Settled);
    }
    create_all(&mut at_to, QUEUE, &keys("key", 10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_good_at_the_other_server_while_the_first_lives() {
    let (_nats, a, b) = two_servers().await;
    a_token_works_at_the_other_server(&a, &b, false).await;
    a_worker_goes_on_at_the_other_server(&a, &b, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_good_at_the_other_server_when_the_first_was_killed() {
    let (_nats, a, b) = two_servers().await;
    a_token_works_at_the_other_server(&a, &b, true).await;
    a.restart().await;
    a_worker_goes_on_at_the_other_server(&a, &b, true).await;
}

/// Moves a worker's leases to a server, and says what it says there.
async fn move_to(server: &KeyworkServer, tokens: &[Bytes], ticket: Bytes) -> (Session, Bytes) {
    let claiming = proto::Hello {
        held_leases: tokens.to_vec(),
        session_ticket: ticket,
        ..hello("w", QUEUE, 10)
    };
    let mut session = Session::open(&mut client(server).await, claiming).await;
    assert_eq!(session.welcome.lost, [], "nothing is lost on the way");
    assert_eq!(session.welcome.resumed.len(), tokens.len());
    let confirmed = session.beat_ack(tokens).await;
    assert_eq!((confirmed.lost, confirmed.unconfirmed), (vec![], vec![]));
    (session, confirmed.session_ticket)
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_worker_that_moves_again_and_again_loses_nothing() {
    const LEASE: Duration = Duration::from_secs(6);
    let (nats, a, b) = two_servers().await;
    let c = server_on(&nats.url()).await;
    make_queue(&a, QUEUE, lease_of(LEASE)).await;
    create_all(&mut client(&a).await, QUEUE, &keys("key", 10)).await;
    let mut first = Session::open(&mut client(&a).await, hello("w", QUEUE, 10)).await;
    let tokens = tokens_of(&first.deliveries_of(10).await);
    let given_at = Instant::now();
    let (mut second, ticket) = move_to(&b, &tokens, Bytes::new()).await;
    // Beyond what the tokens say themselves, only the ticket proves anything.
    let beating = second.keep_beating(tokens.clone());
    sleep_until(given_at + LEASE).await;
    drop(beating);
    let ticket_after = second.beat_ack(&tokens).await.session_ticket;
    assert_ne!(ticket, ticket_after);
    b.kill();
    let (_third, ticket) = move_to(&c, &tokens, ticket_after).await;
    c.kill();
    let (_fourth, ticket) = move_to(&a, &tokens, ticket).await;
    b.restart().await;
    let (mut last, _) = move_to(&b, &tokens, ticket).await;
    for token in &tokens {
        assert_eq!(last.settle(token, complete()).await, Settled::Settled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_a_lease_settled_at_the_other_server_is_settled_at_the_first() {
    let (_nats, a, b) = two_servers().await;
    make_queue(&a, QUEUE, lease_of(LONG_LEASE)).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    create_all(&mut at_b, QUEUE, &keys("key", 100)).await;
    let mut session = Session::open(&mut at_a, hello("w", QUEUE, 100)).await;
    for (before, delivery) in session.deliveries_of(100).await.iter().enumerate() {
        let token = &delivery.lease_token;
        let given_back = ack(&mut at_b, token, retry_after(SOON)).await;
        assert_eq!(given_back, Settled::Settled);
        // At once: the first server may not have heard of it yet.
        let late = session.settle(token, complete()).await;
        assert_ne!(late, Settled::Settled, "after {before} others");
        let waits = job(&mut at_a, QUEUE, &key_of(delivery)).await;
        assert_eq!(waits.expect("the job").attempt, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_lease_that_is_claimed_while_nats_is_away_is_not_lost() {
    let (nats, a, b) = two_servers().await;
    make_queue(&a, QUEUE, lease_of(LONG_LEASE)).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    create(&mut at_b, QUEUE, "key").await;
    let mut first = Session::open(&mut at_a, hello("w", QUEUE, 1)).await;
    let delivery = first.delivery().await;
    a.kill();
    nats.kill();
    let claiming = proto::Hello {
        held_leases: vec![delivery.lease_token.clone()],
        ..hello("w", QUEUE, 1)
    };
    let mut second = Session::open(&mut at_b, claiming).await;
    assert_eq!(second.welcome.lost, [], "nobody knows that it is lost");
    nats.restart().await;
    eventually(SOON, "the lease is settled", async || {
        match second.settle(&delivery.lease_token, complete()).await {
            Settled::TryAgain => false,
            outcome => {
                assert_eq!(outcome, Settled::Settled);
                true
            }
        }
    })
    .await;
}

/// How the races of late settlements with the redelivery of their jobs went.
#[derive(Debug, Default)]
struct Races {
    settled: usize,
    lost: usize,
}

/// Lets leases run out while another worker waits for their jobs, and settles each around the moment of
/// its redelivery: either the settlement counts and the job is over, or the other has it.
async fn late_settlements_race(a: &KeyworkServer, b: &KeyworkServer, waves: usize, jobs: usize) {
    make_queue(a, QUEUE, short_lease()).await;
    let mut clients = [client(a).await, client(b).await];
    let capacity = u32::try_from(jobs).expect("a capacity");
    let (mut races, mut middle) = (Races::default(), Duration::from_millis(3_010));
    for wave in 0..waves {
        create_all(&mut clients[0], QUEUE, &keys("key", jobs)).await;
        let wave_won = one_wave(&mut clients, wave, capacity, middle).await;
        // The next wave aims at the moment at which both sides win.
        let all = wave_won.settled + wave_won.lost;
        let shift = Duration::from_millis(25);
        if wave_won.settled * 5 > all * 3 {
            middle += shift;
        } else if wave_won.settled * 5 < all * 2 {
            middle -= shift;
        }
        races.settled += wave_won.settled;
        races.lost += wave_won.lost;
        eprintln!("wave {wave}: {wave_won:?}, next around {middle:?}");
    }
    eprintln!("races: {races:?}");
    assert_eq!(races.settled + races.lost, waves * jobs);
    let least = waves * jobs / 20;
    assert!(races.settled > least && races.lost > least, "{races:?}");
    assert_eq!(dead(&mut clients[0], QUEUE).await, []);
}

async fn one_wave(
    clients: &mut [Client; 2],
    wave: usize,
    capacity: u32,
    middle: Duration,
) -> Races {
    const SPREAD: Duration = Duration::from_millis(120);
    let jobs = capacity as usize;
    let slow = format!("slow-{wave}");
    let mut held_up = Session::open(&mut clients[0], hello(&slow, QUEUE, capacity)).await;
    let _living = held_up.keep_beating(Vec::new());
    let mut late = JoinSet::new();
    let mut given = 0;
    while given < jobs {
        let deliveries = held_up.deliveries().await;
        let received = Instant::now();
        given += deliveries.len();
        for (n, delivery) in deliveries.into_iter().enumerate() {
            let at = received + middle - SPREAD / 2 + SPREAD.mul_f64(rand::random());
            let mut client = clients[n % 2].clone();
            late.spawn(async move {
                sleep_until(at).await;
                let outcome = ack(&mut client, &delivery.lease_token, complete()).await;
                (key_of(&delivery), outcome)
            });
        }
    }
    held_up
        .send(Up::Capacity(proto::Capacity { capacity: 0 }))
        .await;
    let fast = format!("fast-{wave}");
    let mut other = Session::open(&mut clients[1], hello(&fast, QUEUE, capacity)).await;
    let _other_living = other.keep_beating(Vec::new());
    let (mut won, mut lost, mut again) = (HashSet::new(), HashSet::new(), HashSet::new());
    while !late.is_empty() || !lost.is_subset(&again) {
        tokio::select! {
            Some(raced) = late.join_next() => {
                let (key, outcome) = raced.expect("a race that ends");
                match outcome {
                    Settled::Settled => won.insert(key),
                    Settled::LeaseLost => lost.insert(key),
                    other => panic!("{key}: {other:?}"),
                };
            }
            deliveries = other.deliveries() => {
                for delivery in deliveries {
                    assert!(again.insert(key_of(&delivery)), "{delivery:?} twice");
                    // Not waited for: the next wave finds the key free, or fails.
                    let settlements = vec![settlement(&delivery.lease_token, complete())];
                    let settlements = proto::Settlements { settlements };
                    other.send(Up::Settlements(settlements)).await;
                }
            }
        }
    }
    let both: Vec<_> = won.intersection(&again).collect();
    assert!(both.is_empty(), "settled, and alive all the same: {both:?}");
    let mut settled = 0;
    while settled < again.len() {
        settled += other
            .wait_for(|message| match message {
                Down::SettlementResults(list) => Some(list.results.clone()),
                _ => None,
            })
            .await
            .iter()
            .filter(|r| r.outcome() == Settled::Settled)
            .count();
    }
    Races {
        settled: won.len(),
        lost: lost.len(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_a_late_settlement_and_a_redelivery_never_both_win() {
    let (_nats, a, b) = two_servers().await;
    late_settlements_race(&a, &b, 5, 2_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_a_late_settlement_and_a_redelivery_never_both_win_with_three_replicas() {
    let (_cluster, a, b) = cluster_with_two_servers().await;
    make_queue(&a, QUEUE, short_lease()).await;
    late_settlements_race(&a, &b, 5, 2_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_stale_leases_change_nothing_with_three_replicas() {
    let (_cluster, a, b) = cluster_with_two_servers().await;
    make_queue(&a, QUEUE, lease_of(LONG_LEASE)).await;
    stale_leases_change_nothing(&a, &b, 200, 6).await;
    // The same servers, for what else is to hold with three replicas.
    let delete = proto::DeleteQueueRequest {
        name: QUEUE.into(),
        force: true,
    };
    let deleted = admin(&a).await.delete_queue(delete).await;
    deleted.expect("the queue is deleted");
    a_token_works_at_the_other_server(&a, &b, false).await;
    a_worker_goes_on_at_the_other_server(&b, &a, true).await;
}
