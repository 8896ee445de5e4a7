//! What a session may hold, and what it extends.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn capacity_is_a_level_that_can_be_raised_and_lowered() {
    const STILL: Duration = Duration::from_millis(500);
    let (_nats, server) = one_server().await;
    make_queue(&server, "level", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for n in 0..12 {
        create(&mut client, "level", &format!("k{n}")).await;
    }
    let mut session = Session::open(&mut client, hello("w", "level", 3)).await;
    let mut held = Vec::new();
    take(&mut session, &mut held, 3).await;
    assert!(session.nothing_for(STILL).await, "more than its capacity");

    let capacity = |capacity| Up::Capacity(proto::Capacity { capacity });
    session.send(capacity(5)).await;
    take(&mut session, &mut held, 5).await;
    assert!(session.nothing_for(STILL).await, "more than its capacity");

    session.send(capacity(2)).await;
    for _ in 0..3 {
        let delivery = held.pop().expect("a lease");
        let settled = session.settle(&delivery.lease_token, complete()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
    assert!(
        session.nothing_for(STILL).await,
        "it still holds two of two"
    );
    let delivery = held.pop().expect("a lease");
    session.settle(&delivery.lease_token, release()).await;
    take(&mut session, &mut held, 2).await;

    // Leases that it goes on with count like any other.
    drop(session);
    let resumed = proto::Hello {
        held_leases: held.iter().map(|d| d.lease_token.clone()).collect(),
        ..hello("w", "level", 3)
    };
    let mut session = Session::open(&mut client, resumed).await;
    assert_eq!(session.welcome.resumed.len(), 2, "{:?}", session.welcome);
    take(&mut session, &mut held, 3).await;
    assert!(session.nothing_for(STILL).await, "more than its capacity");

    session.send(capacity(0)).await;
    for delivery in held.drain(..) {
        let settled = session.settle(&delivery.lease_token, complete()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
    assert!(session.nothing_for(STILL).await, "its capacity is zero");
}

/// Takes deliveries until `held` has as many.
async fn take(session: &mut Session, held: &mut Vec<Delivery>, count: usize) {
    while held.len() < count {
        held.extend(session.deliveries().await);
    }
    assert_eq!(held.len(), count, "more than there is room for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_several_queues_is_shared_by_their_weights() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    for queue in ["heavy", "light"] {
        make_queue(&server, queue, lasting(Duration::from_secs(60))).await;
        for n in 0..80 {
            create(&mut client, queue, &format!("k{n}")).await;
        }
    }
    let weighed = |queue: &str, weight| proto::QueueSubscription {
        queue: queue.into(),
        weight,
    };
    let hello = proto::Hello {
        queues: vec![weighed("heavy", 3), weighed("light", 1)],
        ..hello("w", "heavy", 8)
    };
    let mut session = Session::open(&mut client, hello).await;
    let mut served: Vec<String> = Vec::new();
    while served.len() < 80 {
        for delivery in session.deliveries().await {
            served.push(delivery.job.clone().unwrap_or_default().queue);
            let settled = session.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
        }
    }
    let heavy = served[..80]
        .iter()
        .filter(|queue| *queue == "heavy")
        .count();
    assert!(
        (48..=72).contains(&heavy),
        "{heavy} of 80, of weight 3 in 4"
    );

    // A queue without jobs leaves its part to the other.
    while served.len() < 160 {
        for delivery in session.deliveries().await {
            served.push(delivery.job.clone().unwrap_or_default().queue);
            session.settle(&delivery.lease_token, complete()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_heartbeat_extends_exactly_what_it_lists() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "beats", short_lease()).await;
    let mut client = client(&server).await;
    for key in ["listed", "left-out"] {
        create(&mut client, "beats", key).await;
    }
    let mut session = Session::open(&mut client, hello("w", "beats", 2)).await;
    let mut held = Vec::new();
    take(&mut session, &mut held, 2).await;
    let began = Instant::now();
    let listed = held.iter().position(|d| key(d) == "listed").expect("it");
    let listed = held.swap_remove(listed).lease_token;
    let left_out = held.remove(0).lease_token;

    let every = SHORT_LEASE / 4;
    let mut beats = tokio::time::interval(every);
    let mut lost_after = None;
    while began.elapsed() < SHORT_LEASE * 3 || lost_after.is_none() {
        beats.tick().await;
        assert!(session.beat(&[&listed]).await.is_empty(), "it is extended");
        if lost_after.is_none()
            && let Ok(lost) = timeout(Duration::from_millis(1), session.lost()).await
        {
            assert_eq!((lost.len(), &lost[0].lease_token), (1, &left_out));
            assert_eq!(lost[0].reason(), LostReason::Expired);
            lost_after = Some(began.elapsed());
        }
        assert!(began.elapsed() < SOON, "the other one is never lost");
    }
    let lost_after = lost_after.unwrap_or_default();
    assert!(lost_after > SHORT_LEASE / 2, "lost after {lost_after:?}");

    // What is lost stays lost, however late it is listed; what was extended is settled.
    let lost = session.beat(&[&listed, &left_out]).await;
    assert_eq!((lost.len(), &lost[0].lease_token), (1, &left_out));
    let outcome = session.settle(&left_out, complete()).await;
    assert_eq!(outcome, SettlementOutcome::LeaseLost);
    let outcome = session.settle(&listed, complete()).await;
    assert_eq!(outcome, SettlementOutcome::Settled);
    // It is served again, here or later.
    let seen = job(&mut client, "beats", "left-out").await;
    assert!(seen.is_some(), "its job goes on");
}
