//! A stale lease changes nothing (law 3).

use super::*;

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
