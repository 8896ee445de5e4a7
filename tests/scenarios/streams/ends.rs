//! How a session ends, and what it is told before.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_a_session_but_not_its_leases() {
    let (_nats, server) = one_server().await;
    let lease = Duration::from_secs(6);
    make_queue(&server, "silent", lasting(lease)).await;
    let mut client = client(&server).await;
    create(&mut client, "silent", "k").await;
    let mut session = Session::open(&mut client, hello("w", "silent", 1)).await;
    let began = Instant::now();
    let delivery = session.delivery().await;
    let status = end_of(&mut session).await.expect("an error");
    let took = began.elapsed();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(reason(&status), "SESSION_SILENT");
    assert!(took >= lease / 3 * 2, "ended after {took:?}");
    assert!(took < SOON, "ended after {took:?}");
    // Five of six seconds are over. The worker comes back and goes on.
    let back = proto::Hello {
        held_leases: vec![delivery.lease_token.clone()],
        session_ticket: session.welcome.session_ticket.clone(),
        ..hello("w", "silent", 1)
    };
    let mut session = Session::open(&mut client, back).await;
    assert_eq!(session.welcome.resumed.len(), 1, "{:?}", session.welcome);
    let settled = session.settle(&delivery.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_9_a_bad_message_ends_its_own_stream_and_no_other() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "bad", lasting(Duration::from_secs(60))).await;
    // Both over one connection.
    let mut client = client(&server).await;
    let mut good = Session::open(&mut client, hello("good", "bad", 1)).await;
    let many = vec![settlement(&Bytes::new(), complete()); 1_001];
    let too_many_tokens = vec![Bytes::new(); 100_001];
    let bad: Vec<(Option<Up>, &str)> = vec![
        (None, "message"),
        (Some(Up::Hello(hello("bad", "bad", 1))), "hello"),
        (
            Some(Up::Capacity(proto::Capacity { capacity: 100_001 })),
            "capacity",
        ),
        (
            Some(Up::Settlements(proto::Settlements {
                settlements: vec![],
            })),
            "settlements",
        ),
        (
            Some(Up::Settlements(proto::Settlements { settlements: many })),
            "settlements",
        ),
        (
            Some(Up::Heartbeat(proto::LeaseHeartbeat {
                sequence: 1,
                lease_tokens: too_many_tokens,
            })),
            "heartbeat.lease_tokens",
        ),
    ];
    for (message, field) in bad {
        let (up, mut down) = bare_session(client.clone(), hello("bad", "bad", 0)).await;
        up.send(proto::LeaseRequest { message })
            .await
            .expect("room");
        let status = timeout(SOON, down.message()).await.expect("in time");
        let status = status.expect_err("an error");
        assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status:?}");
        assert_eq!(self::field(&status), field);
    }
    create(&mut client, "bad", "k").await;
    let delivery = good.delivery().await;
    assert!(good.beat(&[&delivery.lease_token]).await.is_empty());
    let settled = good.settle(&delivery.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_delivered_after_a_drain_is_acknowledged() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "drain", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for n in 0..10 {
        create(&mut client, "drain", &format!("k{n}")).await;
    }
    let mut session = Session::open(&mut client, hello("w", "drain", 20)).await;
    let mut held = Vec::new();
    while held.len() < 10 {
        held.extend(session.deliveries().await);
    }
    session.send(Up::Drain(proto::Drain {})).await;
    session
        .wait_for(|message| matches!(message, Down::DrainAck(_)).then_some(()))
        .await;
    create(&mut client, "drain", "after").await;
    // Neither more room nor a new level changes that.
    session
        .send(Up::Capacity(proto::Capacity { capacity: 50 }))
        .await;
    let tokens: Vec<Bytes> = held.iter().map(|d| d.lease_token.clone()).collect();
    for token in &tokens[..5] {
        let settled = session.settle(token, complete()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
    let rest: Vec<&Bytes> = tokens[5..].iter().collect();
    assert!(session.beat(&rest).await.is_empty(), "heartbeats go on");
    assert!(session.nothing_for(Duration::from_secs(1)).await);
    for token in rest {
        session.settle(token, release()).await;
    }
    assert!(session.nothing_for(Duration::from_millis(300)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_delivered_after_a_drain_that_comes_in_a_flood() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "flood", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for round in 0..20 {
        let worker = format!("w{round}");
        let items = (0..1_000)
            .map(|n| submit("flood", &format!("{round}-{n}"), "x"))
            .collect();
        let request = proto::SubmitBatchRequest { items };
        client.submit_batch(request).await.expect("an answer");
        let hello = hello(&worker, "flood", 5_000);
        let mut session = Session::open(&mut client, hello).await;
        session.deliveries().await;
        session.send(Up::Drain(proto::Drain {})).await;
        session
            .wait_for(|message| matches!(message, Down::DrainAck(_)).then_some(()))
            .await;
        // What came before the answer is no matter; what the server does on a heartbeat comes after it.
        session.deliveries_before_now();
        assert!(session.beat(&[]).await.is_empty());
        assert!(
            session.nothing_for(Duration::from_millis(50)).await,
            "a delivery after DrainAck, in round {round}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_settled_is_answered_before_a_stream_that_is_closed_ends() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "close", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for n in 0..100 {
        create(&mut client, "close", &format!("k{n}")).await;
    }
    let (up, mut down) = bare_session(client.clone(), hello("w", "close", 100)).await;
    let mut held = Vec::new();
    while held.len() < 100 {
        let next = timeout(SOON, down.message()).await.expect("in time");
        if let Some(Down::Deliveries(list)) = next.expect("no error").and_then(|r| r.message) {
            held.extend(list.deliveries);
        }
    }
    // It says how all of them ended, and closes its half at once.
    let settlements = held
        .iter()
        .zip([complete(), release()].into_iter().cycle())
        .map(|(d, outcome)| settlement(&d.lease_token, outcome))
        .collect();
    let message = Some(Up::Settlements(proto::Settlements { settlements }));
    up.send(proto::LeaseRequest { message })
        .await
        .expect("room");
    drop(up);
    let mut results = Vec::new();
    while let Some(response) = timeout(SOON, down.message())
        .await
        .expect("in time")
        .expect("an end without an error")
    {
        if let Some(Down::SettlementResults(list)) = response.message {
            results.extend(list.results);
        }
    }
    assert_eq!(results.len(), 100, "settlements without an answer");
    assert!(
        results
            .iter()
            .all(|r| r.outcome() == SettlementOutcome::Settled)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_disconnect_grace_is_told_of_it_and_loses_its_job_after_it() {
    let (_nats, server) = one_server().await;
    let grace = Duration::from_millis(500);
    let config = proto::QueueConfig {
        lease_duration: Some(wire(Duration::from_secs(60))),
        disconnect_grace: Some(wire(grace)),
        ..short_lease()
    };
    make_queue(&server, "grace", config).await;
    let mut client = client(&server).await;
    create(&mut client, "grace", "k").await;
    let mut session = Session::open(&mut client, hello("w", "grace", 1)).await;
    let told = session.welcome.queues[0].disconnect_grace;
    assert_eq!(told, Some(wire(grace)));
    session.delivery().await;
    let mut other = Session::open(&mut client, hello("other", "grace", 1)).await;
    let began = Instant::now();
    session.close();
    let delivery = other.delivery().await;
    assert_eq!(delivery.attempt, 2, "its attempt is over");
    let took = began.elapsed();
    assert!(took >= grace, "after {took:?}");
    assert!(took < SHORT_LEASE + SOON, "after {took:?}");
}
