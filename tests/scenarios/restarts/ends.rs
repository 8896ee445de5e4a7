//! What ended stays ended (law 2).

use super::*;

/// Ends jobs in every way that takes a new sequence first, beside others that wait.
async fn end_retried_jobs(server: &KeyworkServer, at: &mut Client) {
    let now = || retry_after(Duration::ZERO);
    for key in keys("retried", 5) {
        create(at, QUEUE, &key).await;
        for outcome in [now(), now(), complete()] {
            lease_and(at, &key, outcome).await;
        }
    }
    for key in keys("released", 5) {
        create(at, QUEUE, &key).await;
        for outcome in [release(), complete()] {
            lease_and(at, &key, outcome).await;
        }
    }
    for key in keys("failed", 5) {
        create(at, QUEUE, &key).await;
        for outcome in [now(), fail()] {
            lease_and(at, &key, outcome).await;
        }
    }
    end_late(at, "late").await;
    // Its own queue, since all of it goes.
    make_queue(server, "purged", lease_of(SHORT_LEASE)).await;
    create(at, "purged", "key").await;
    let leased = pull(at, "purged", SOON).await.expect("the job");
    let retried = ack(at, &leased.lease_token, retry_after(2 * SOON)).await;
    assert_eq!(retried, Settled::Settled);
    let request = proto::PurgeQueueRequest {
        name: "purged".into(),
    };
    let purged = admin(server).await.purge_queue(request).await;
    assert_eq!(purged.expect("a purge").into_inner().purged, 1);
}

/// A settlement after the deadline, of a job that was retried, accepted because nobody was given it yet.
async fn end_late(at: &mut Client, key: &str) {
    create(at, QUEUE, key).await;
    lease_and(at, key, retry_after(Duration::ZERO)).await;
    loop {
        let leased = pull(at, QUEUE, SOON).await.expect("the job");
        let left = unwire(leased.time_left.as_ref());
        sleep(left + Duration::from_millis(150)).await;
        match ack(at, &leased.lease_token, complete()).await {
            Settled::Settled => return,
            // Too late: once more.
            outcome => assert_eq!(outcome, Settled::LeaseLost),
        }
    }
}

/// Jobs that took new sequences and then ended, when nats-server is killed `after` that: they stay ended.
async fn ended_jobs_stay_ended(after: Duration) {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, lease_of(SHORT_LEASE)).await;
    let mut at = client(&server).await;
    end_retried_jobs(&server, &mut at).await;
    let others = keys("other", 30);
    create_all(&mut at, QUEUE, &others).await;
    sleep(after).await;
    nats.kill();
    nats.restart().await;

    let ended: Vec<String> = [keys("retried", 5), keys("released", 5), keys("failed", 5)]
        .concat()
        .into_iter()
        .chain(["late".into()])
        .collect();
    let mut session = Session::open(&mut at, hello("w", QUEUE, 100)).await;
    let _living = session.keep_beating(Vec::new());
    let mut served = HashSet::new();
    while served.len() < others.len() {
        for delivery in session.deliveries().await {
            let key = key_of(&delivery);
            assert!(others.contains(&key), "{key} ended, and runs again");
            let settled = session.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, Settled::Settled);
            assert!(served.insert(key), "{delivery:?} twice");
        }
    }
    // What is older than the kill waits until JetStream's wait is over: then everything has come.
    let over = SHORT_LEASE + Duration::from_secs(8);
    let again = session.deliveries_for(over).await;
    assert_eq!(again, [], "they ended");
    assert_eq!(dead(&mut at, QUEUE).await.len(), 5);
    create_all(&mut at, QUEUE, &ended).await;
    create(&mut at, "purged", "key").await;
    assert_eq!(session.deliveries_of(ended.len()).await.len(), ended.len());
    let leased = pull(&mut at, "purged", SOON).await;
    assert_eq!(leased.map(|d| d.attempt), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_what_ended_stays_ended_when_nats_is_killed_at_once() {
    ended_jobs_stay_ended(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_what_ended_stays_ended_when_nats_is_killed_soon() {
    ended_jobs_stay_ended(Duration::from_secs(5)).await;
}
