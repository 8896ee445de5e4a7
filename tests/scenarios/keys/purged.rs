//! Queues that are purged, deleted or paused (law 2).

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_purge_tells_the_holders_and_leaves_no_key() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    make_queue(&a, "q", proto::QueueConfig::default()).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    let mut here = Session::open(&mut at_a, hello("here", "q", 2)).await;
    let mut tokens = Vec::new();
    for key in ["a", "b"] {
        create(&mut at_a, "q", key).await;
        tokens.push(here.delivery().await.lease_token);
    }
    // One that waits, one that is scheduled, and one that waits to be tried again.
    let settled = here
        .settle(&tokens[1], retry_after(Duration::from_secs(60)))
        .await;
    assert_eq!(settled, SettlementOutcome::Settled);
    create(&mut at_a, "q", "c").await;
    tokens[1] = here.delivery().await.lease_token;
    create(&mut at_a, "q", "waits").await;
    let delayed = proto::SubmitRequest {
        start: Some(proto::submit_request::Start::Delay(wire(
            Duration::from_secs(60),
        ))),
        ..submit("q", "later", "payload")
    };
    offer(&mut at_a, delayed).await;

    // Through the other server.
    let request = proto::PurgeQueueRequest { name: "q".into() };
    let purged = admin(&b)
        .await
        .purge_queue(request)
        .await
        .expect("a purge")
        .into_inner();
    assert_eq!(purged.purged, 5);
    let mut lost = here.lost().await;
    while lost.len() < 2 {
        lost.extend(here.lost().await);
    }
    assert!(lost.iter().all(|l| l.reason() == LostReason::Cancelled));
    let told: HashSet<_> = lost.iter().map(|l| l.lease_token.clone()).collect();
    assert_eq!(told, tokens.iter().cloned().collect());

    for key in ["a", "b", "c", "waits", "later"] {
        assert_eq!(job(&mut at_b, "q", key).await, None);
        create(&mut at_b, "q", key).await;
    }
    let settled = here.settle(&tokens[0], complete()).await;
    assert_eq!(settled, SettlementOutcome::LeaseLost);
    assert!(job(&mut at_b, "q", "a").await.is_some());
    // The places of the lost leases are free for the new jobs.
    assert!(!here.deliveries().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_purge_ends_also_the_jobs_that_are_being_retried_at_that_moment() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    make_queue(&a, "q", proto::QueueConfig::default()).await;
    let (at_a, mut admin) = (client(&a).await, admin(&b).await);
    for round in 0..10 {
        let mut submitting = at_a.clone();
        for key in 0..8 {
            let many_attempts = proto::SubmitRequest {
                max_attempts: 1_000,
                ..submit("q", &format!("key-{key}"), "payload")
            };
            let (outcome, job) = offer(&mut submitting, many_attempts).await;
            assert_eq!(outcome, SubmitOutcome::Created, "in round {round}: {job:?}");
        }
        let stop = AtomicBool::new(false);
        let retrying = join_all((0..4).map(|_| async {
            let mut client = at_a.clone();
            while !stop.load(Ordering::Relaxed) {
                if let Some(leased) = pull(&mut client, "q", Duration::from_millis(50)).await {
                    ack(
                        &mut client,
                        &leased.lease_token,
                        retry_after(Duration::ZERO),
                    )
                    .await;
                }
            }
        }));
        let purging = async {
            // In the midst of it.
            sleep(Duration::from_millis(50 + 7 * round)).await;
            let request = proto::PurgeQueueRequest { name: "q".into() };
            admin.purge_queue(request).await.expect("a purge");
            let request = proto::GetQueueRequest { name: "q".into() };
            let queue = admin.get_queue(request).await.expect("a queue");
            let stats = queue.into_inner().queue.and_then(|q| q.stats);
            stop.store(true, Ordering::Relaxed);
            assert_eq!(stats.expect("counts").outstanding, 0, "in round {round}");
        };
        tokio::join!(retrying, purging);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_delete_tells_the_holders_and_leaves_no_key() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    make_queue(&a, "q", proto::QueueConfig::default()).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    let mut here = Session::open(&mut at_a, hello("here", "q", 1)).await;
    create(&mut at_a, "q", "foo").await;
    let leased = here.delivery().await;
    create(&mut at_a, "q", "waits").await;
    let mut there = Session::open(&mut at_b, hello("there", "q", 1)).await;
    let other = there.delivery().await;

    let delete = |force| proto::DeleteQueueRequest {
        name: "q".into(),
        force,
    };
    let refused = admin(&b).await.delete_queue(delete(false)).await;
    assert_eq!(
        refused.expect_err("it holds jobs").code(),
        tonic::Code::FailedPrecondition
    );
    let deleted = admin(&b).await.delete_queue(delete(true)).await;
    deleted.expect("a deletion");

    for (session, token) in [
        (&mut here, &leased.lease_token),
        (&mut there, &other.lease_token),
    ] {
        let lost = session.lost().await;
        assert_eq!(lost.len(), 1);
        assert_eq!(
            (&lost[0].lease_token, lost[0].reason()),
            (token, LostReason::Cancelled)
        );
        let reason = session
            .wait_for(|message| match message {
                Down::GoAway(away) => Some(away.reason()),
                _ => None,
            })
            .await;
        assert_eq!(reason, GoAwayReason::QueueDeleted);
    }
    for key in ["foo", "waits"] {
        create(&mut at_b, "q", key).await;
    }
    let settled = ack(&mut at_a, &leased.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::LeaseLost);
    assert!(job(&mut at_b, "q", "foo").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_pause_stops_deliveries_and_nothing_else() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 10)).await;
    create(&mut client, "q", "leased").await;
    let leased = session.delivery().await;

    let pause = proto::PauseQueueRequest { name: "q".into() };
    let paused = admin(&server).await.pause_queue(pause).await;
    assert!(
        paused
            .expect("a pause")
            .into_inner()
            .queue
            .expect("a queue")
            .paused
    );
    create(&mut client, "q", "waits").await;
    let until = Instant::now() + SHORT_LEASE * 2;
    while Instant::now() < until {
        // The lease goes on beyond its first deadline.
        assert_eq!(session.beat(&[&leased.lease_token]).await, []);
        assert!(session.nothing_for(Duration::from_millis(300)).await);
    }
    let settled = session.settle(&leased.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    create(&mut client, "q", "leased").await;

    let resume = proto::ResumeQueueRequest { name: "q".into() };
    let resumed_at = Instant::now();
    let resumed = admin(&server).await.resume_queue(resume).await;
    assert!(
        !resumed
            .expect("to go on")
            .into_inner()
            .queue
            .expect("a queue")
            .paused
    );
    let mut keys = HashSet::new();
    while keys.len() < 2 {
        session.beat(&[]).await;
        let arrived = timeout(Duration::from_millis(300), session.deliveries()).await;
        for delivery in arrived.unwrap_or_default() {
            keys.insert(delivery.job.expect("a job").key);
            let settled = session.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
        }
    }
    // Not only when the pulls expire that were waiting.
    assert!(resumed_at.elapsed() < Duration::from_secs(1));
}
