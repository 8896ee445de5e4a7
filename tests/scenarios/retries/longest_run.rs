//! No heartbeat extends a lease beyond the longest run.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_do_not_extend_a_lease_beyond_the_longest_run() {
    let (_nats, server) = one_server().await;
    let most = Duration::from_secs(4);
    let config = proto::QueueConfig {
        max_run_time: Some(wire(most)),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 1)).await;
    create(&mut client, "q", "foo").await;
    let first = session.delivery().await;
    let began = Instant::now();

    let lost = loop {
        // A heartbeat lists the lease for as long as nothing else was said of it.
        let lost = session.beat(&[&first.lease_token]).await;
        if !lost.is_empty() {
            break lost;
        }
        assert!(began.elapsed() < most + LOADED, "the lease is not lost");
        let pushed = session
            .within(Duration::from_millis(300), |message| match message {
                Down::LeasesLost(list) => Some(list.leases.clone()),
                _ => None,
            })
            .await;
        if let Some(lost) = pushed {
            break lost;
        }
    };
    let ran = began.elapsed();
    assert_eq!(lost.len(), 1);
    assert_eq!(
        (&lost[0].lease_token, lost[0].reason()),
        (&first.lease_token, LostReason::Expired)
    );
    // The time began when the delivery left JetStream, up to a mark's age before it was read here.
    assert!(
        ran + Duration::from_secs(1) >= most && ran < most + LOADED,
        "{ran:?}"
    );
    let deliveries = session.beating().await;
    assert_eq!((deliveries.len(), deliveries[0].attempt), (1, 2));
    let settled = session.settle(&first.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::LeaseLost);
    let settled = session.settle(&deliveries[0].lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn unary_heartbeats_do_not_extend_a_lease_beyond_the_longest_run() {
    let (_nats, server) = one_server().await;
    let most = Duration::from_secs(3);
    let config = proto::QueueConfig {
        max_run_time: Some(wire(most)),
        max_attempts: Some(1),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    create(&mut client, "q", "foo").await;
    let mut leased = pull(&mut client, "q", SOON).await.expect("the job");
    let began = Instant::now();
    let reason = eventually_some(most + LOADED, "the lease is lost", async || {
        let extended = beat(&mut client, &leased.lease_token).await;
        if extended.time_left.is_some() {
            let left = began.elapsed() + unwire(extended.time_left.as_ref());
            assert!(
                left <= most + Duration::from_millis(500),
                "extended until {left:?}"
            );
            leased.lease_token = extended.lease_token;
            return None;
        }
        (!extended.try_again).then(|| proto::LostReason::try_from(extended.lost))
    })
    .await;
    assert_eq!(reason, Ok(LostReason::Expired));

    let letters = eventually_some(SOON, "a dead letter", async || {
        Some(dead(&mut client, "q").await).filter(|letters| !letters.is_empty())
    })
    .await;
    assert_eq!(letters[0].reason(), DeadReason::LeaseExpired);
    create(&mut client, "q", "foo").await;
}
