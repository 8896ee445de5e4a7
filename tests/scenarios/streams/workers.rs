//! Workers whose streams end, stall or are superseded.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_reconnects_when_its_stream_ends_as_if_all_were_well() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "ends", lasting(Duration::from_secs(6))).await;
    let (relay, runs) = (Relay::start(&server).await, Runs::default());
    let endpoint = relay.endpoint();
    let time = Duration::from_secs(3);
    let mut worker = Working::start(sdk([&*endpoint]), "ends", "w", 2, &runs, time);
    let mut client = client(&server).await;
    create(&mut client, "ends", "before").await;
    eventually(SOON, "the job runs", async || runs.count() == 1).await;
    for sessions in 2..4 {
        relay.end_streams();
        worker.sessions(sessions).await;
    }
    create(&mut client, "ends", "after").await;
    eventually(SOON, "both jobs have ended", async || {
        worker.worker.counts().settled == 2
    })
    .await;
    runs.assert_each_ran_once(["before".to_owned(), "after".to_owned()]);
    worker.drain().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_go_on_when_the_node_that_leads_the_consumer_restarts() {
    const JOBS: usize = 1_500;
    let (cluster, a, b) = cluster_with_two_servers().await;
    let mut client = client(&a).await;
    let keys: Vec<String> = (0..JOBS).map(|n| format!("k{n}")).collect();
    for chunk in keys.chunks(500) {
        let items = chunk.iter().map(|key| submit("moving", key, "x")).collect();
        let request = proto::SubmitBatchRequest { items };
        let answer = client.submit_batch(request).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error:?}: {}", a.output()));
        for result in answer.into_inner().results {
            assert!(
                matches!(
                    result.result,
                    Some(proto::submit_result::Result::Response(_))
                ),
                "{result:?}"
            );
        }
    }
    let (runs, time) = (Runs::default(), Duration::from_millis(40));
    let (first, second) = (a.endpoint(), b.endpoint());
    let mut workers = [
        Working::start(sdk([&*first]), "moving", "a", 2, &runs, time),
        Working::start(sdk([&*second]), "moving", "b", 2, &runs, time),
    ];
    eventually(SOON, "jobs run", async || runs.count() > 100).await;
    let leader = cluster.node(&leader_of_consumer(&cluster, "moving").await);
    leader.kill();
    leader.restart().await;
    eventually(SOON * 6, "all jobs have ended", async || {
        let settled = workers.iter().map(|w| w.worker.counts().settled);
        settled.sum::<u64>() >= JOBS as u64
    })
    .await;
    runs.assert_each_ran_once(keys);
    let all = runs.all();
    let gaps = all.windows(2).map(|pair| pair[1].began - pair[0].began);
    let longest = gaps.max().unwrap_or_default();
    assert!(longest < Duration::from_secs(10), "nothing for {longest:?}");
    for worker in &mut workers {
        worker.drain().await.expect("a clean end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_sends_is_read_while_nats_is_silent() {
    const STALL: Duration = Duration::from_secs(5);
    let (nats, server) = one_server().await;
    make_queue(&server, "stall", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for n in 0..10 {
        create(&mut client, "stall", &format!("k{n}")).await;
    }
    let mut session = Session::open(&mut client, hello("w", "stall", 10)).await;
    let mut held: Vec<Bytes> = Vec::new();
    while held.len() < 10 {
        let more = session.deliveries().await;
        held.extend(more.into_iter().map(|d| d.lease_token));
    }
    nats.pause();
    let began = Instant::now();
    for n in 0..5_000_u64 {
        session
            .send(match n % 3 {
                0 => Up::Heartbeat(proto::LeaseHeartbeat {
                    sequence: n,
                    lease_tokens: held.clone(),
                }),
                1 => Up::Capacity(proto::Capacity {
                    capacity: 10 + u32::from(n % 2 == 0),
                }),
                _ => Up::Settlements(proto::Settlements {
                    settlements: vec![settlement(&Bytes::from_static(b"none"), complete())],
                }),
            })
            .await;
    }
    let took = began.elapsed();
    // Another stream of the same connection is answered meanwhile, too.
    let mut health = HealthClient::new(channel(&server.endpoint()).await);
    let check = timeout(STALL, health.check(HealthCheckRequest::default()));
    check.await.expect("in time").expect("an answer");
    tokio::time::sleep(STALL.saturating_sub(began.elapsed())).await;
    nats.resume();
    assert!(took < STALL, "the server stopped reading: it took {took:?}");

    assert!(
        session
            .beat(&held.iter().collect::<Vec<_>>())
            .await
            .is_empty()
    );
    for token in &held {
        let settled = eventually_some(SOON, "a settlement is confirmed", async || {
            let outcome = session.settle(token, complete()).await;
            (outcome != SettlementOutcome::TryAgain).then_some(outcome)
        })
        .await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_workers_of_one_name_the_newer_wins_and_the_older_stops() {
    let (nats, server) = one_server().await;
    let other = server_on(&nats.url()).await;
    let (first, second) = (server.endpoint(), other.endpoint());
    // At the same server, and at another one.
    for (queue, places) in [("here", [&first, &first]), ("there", [&first, &second])] {
        let (runs, time) = (Runs::default(), Duration::from_millis(10));
        let older_place = sdk([places[0].as_str()]);
        let newer_place = sdk([places[1].as_str()]);
        let mut older = Working::start(older_place, queue, queue, 1, &runs, time);
        older.ready().await;
        let mut newer = Working::start(newer_place, queue, queue, 1, &runs, time);
        newer.ready().await;
        let ended = older.ended().await;
        assert!(matches!(ended, Err(WorkerError::Superseded)), "{ended:?}");
        let mut client = client(&server).await;
        for n in 0..20 {
            create(&mut client, queue, &format!("k{n}")).await;
        }
        eventually(SOON, "the newer one runs all", async || {
            newer.worker.counts().settled == 20
        })
        .await;
        let sessions = (
            older.worker.counts().sessions,
            newer.worker.counts().sessions,
        );
        assert_eq!(sessions, (1, 1), "they took turns");
        newer.drain().await.expect("a clean end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superseded_session_is_told_and_ends_and_its_leases_go_back() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "told", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    create(&mut client, "told", "k").await;
    let mut older = Session::open(&mut client, hello("w", "told", 1)).await;
    let stale = older.delivery().await;
    let mut newer = Session::open(&mut client, hello("w", "told", 1)).await;
    let away = older
        .wait_for(|message| match message {
            Down::GoAway(away) => Some(away.reason()),
            _ => None,
        })
        .await;
    assert_eq!(away, GoAwayReason::Superseded);
    let status = end_of(&mut older).await.expect("an error");
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(reason(&status), "SESSION_SUPERSEDED");

    let fresh = newer.delivery().await;
    assert_eq!(fresh.attempt, 1);
    assert!(fresh.fencing_number > stale.fencing_number);
    let outcome = newer.settle(&stale.lease_token, complete()).await;
    assert_eq!(outcome, SettlementOutcome::LeaseLost);
    let outcome = newer.settle(&fresh.lease_token, complete()).await;
    assert_eq!(outcome, SettlementOutcome::Settled);
}
