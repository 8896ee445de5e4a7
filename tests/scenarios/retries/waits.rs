//! How long a job waits before its next attempt.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_and_an_explicit_failure_cost_one_attempt_and_wait_alike() {
    let (_nats, server) = one_server().await;
    let wait = Duration::from_secs(4);
    let config = proto::QueueConfig {
        backoff: Some(backoff(wait, wait)),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    for key in ["crashes", "fails"] {
        create(&mut client, "q", key).await;
    }
    let crashed = pull(&mut client, "q", SOON).await.expect("the first job");
    let deadline = Instant::now() + unwire(crashed.time_left.as_ref());
    let failing = pull(&mut client, "q", SOON).await.expect("the second job");
    let settled = ack(&mut client, &failing.lease_token, retry()).await;
    let failed = Instant::now();
    assert_eq!(settled, SettlementOutcome::Settled);

    for (key, since, error) in [
        ("fails", failed, "it did not work"),
        ("crashes", deadline, "the lease ran out"),
    ] {
        let again = pull(&mut client, "q", SOON).await.expect("the job again");
        let waited = Instant::now().saturating_duration_since(since);
        let job = again.job.expect("a job");
        assert_eq!((&*job.key, again.attempt), (key, 2));
        assert_eq!(job.last_error, error);
        // Jitter takes up to half of a wait; the deadline was counted on the way here.
        assert!(
            waited + ROUNDED + Duration::from_millis(100) >= wait / 2,
            "{key} waited only {waited:?}"
        );
        assert!(waited < wait + LOADED, "{key} waited {waited:?}");
        ack(&mut client, &again.lease_token, complete()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_double_up_to_the_longest() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 1)).await;
    let (initial, max) = (Duration::from_millis(400), Duration::from_millis(1_600));
    let own = proto::SubmitRequest {
        backoff: Some(backoff(initial, max)),
        ..submit("q", "foo", "payload")
    };
    offer(&mut client, own).await;
    let mut leased = session.delivery().await;
    for factor in [1, 2, 4, 4] {
        let settled_at = Instant::now();
        session.settle(&leased.lease_token, retry()).await;
        leased = session.delivery().await;
        let waited = settled_at.elapsed();
        assert!(
            waited + ROUNDED >= initial * factor / 2,
            "{waited:?} at {factor}"
        );
        assert!(waited < initial * factor + LOADED, "{waited:?} at {factor}");
    }
    assert_eq!(leased.attempt, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_with_a_delay_waits_as_long_as_that_and_holds_its_key() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 1)).await;
    create(&mut client, "q", "foo").await;
    let leased = session.delivery().await;
    let (delay, began) = (Duration::from_secs(2), Instant::now());
    session
        .settle(&leased.lease_token, retry_after(delay))
        .await;

    let waiting = job(&mut client, "q", "foo").await.expect("the job");
    assert_eq!((waiting.state(), waiting.attempt), (JobState::Retrying, 2));
    assert_eq!(waiting.last_error, "not yet");
    let (outcome, _) = offer(&mut client, submit("q", "foo", "other")).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
    // Its place is free for another job meanwhile.
    create(&mut client, "q", "bar").await;
    let other = session.delivery().await;
    assert_eq!(other.job.expect("a job").key, "bar");
    session.settle(&other.lease_token, complete()).await;

    let again = session.delivery().await;
    let waited = began.elapsed();
    assert!(
        waited + ROUNDED >= delay && waited < delay + LOADED,
        "{waited:?}"
    );
    assert_eq!(again.attempt, 2);

    // None at all.
    session
        .settle(&again.lease_token, retry_after(Duration::ZERO))
        .await;
    assert_eq!(session.delivery().await.attempt, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_delay_is_rejected_and_the_lease_stays() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    create(&mut client, "q", "foo").await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    for bad in [
        prost_types::Duration {
            seconds: -1,
            nanos: 0,
        },
        prost_types::Duration {
            seconds: 367 * 86_400,
            nanos: 0,
        },
    ] {
        let outcome = proto::settlement::Outcome::Retry(proto::Retry {
            delay: Some(bad),
            error: String::new(),
        });
        let request = proto::AckRequest {
            settlements: vec![settlement(&leased.lease_token, outcome)],
        };
        let result = client
            .ack(request)
            .await
            .expect("an answer")
            .into_inner()
            .results
            .remove(0);
        assert_eq!(result.outcome(), SettlementOutcome::Rejected);
        assert_eq!(result.error.expect("why").field, "retry.delay");
    }
    let settled = ack(&mut client, &leased.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_costs_no_attempt_and_no_wait() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let one_attempt = proto::SubmitRequest {
        max_attempts: 1,
        backoff: Some(backoff(
            Duration::from_secs(3_600),
            Duration::from_secs(3_600),
        )),
        ..submit("q", "foo", "payload")
    };
    offer(&mut client, one_attempt).await;
    let mut fencing = 0;
    for _ in 0..5 {
        let leased = pull(&mut client, "q", SOON).await.expect("the job");
        assert_eq!(leased.attempt, 1);
        assert!(leased.fencing_number > fencing);
        fencing = leased.fencing_number;
        let settled = ack(&mut client, &leased.lease_token, release()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
        let (outcome, _) = offer(&mut client, submit("q", "foo", "other")).await;
        assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
    }
    assert_eq!(dead(&mut client, "q").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_s_delay_survives_a_restart_of_the_server_and_of_nats() {
    let (nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut at = client(&server).await;
    let mut first = Session::open(&mut at, hello("first", "q", 10)).await;
    let (delay, mut began) = (Duration::from_secs(9), Instant::now());
    for key in ["a", "b", "c"] {
        create(&mut at, "q", key).await;
        let leased = first.delivery().await;
        began = Instant::now();
        first.settle(&leased.lease_token, retry_after(delay)).await;
    }
    let scheduled = proto::SubmitRequest {
        start: Some(Start::Delay(wire(delay))),
        ..submit("q", "d", "payload")
    };
    offer(&mut at, scheduled).await;
    // Long enough that the delays are with JetStream too.
    assert!(first.nothing_for(Duration::from_millis(300)).await);

    server.kill();
    server.restart().await;
    let mut at = client(&server).await;
    assert_eq!(
        job(&mut at, "q", "a").await.expect("the job").state(),
        JobState::Retrying
    );
    nats.kill();
    nats.restart().await;
    let mut worker = eventually_some(SOON, "the server is back on NATS", async || {
        Session::try_open(&mut at, hello("second", "q", 10))
            .await
            .ok()
    })
    .await;
    let mut served = HashSet::new();
    while served.len() < 4 {
        for delivery in worker.beating().await {
            let waited = began.elapsed();
            assert!(waited + ROUNDED >= delay, "{waited:?} is too early");
            // After a kill of NATS what may have been leased before is left alone for a while.
            assert!(
                waited < delay + SHORT_LEASE * 3 + MARGIN + LOADED * 2,
                "{waited:?} is too late"
            );
            let job = delivery.job.expect("a job");
            assert_eq!(delivery.attempt, if job.key == "d" { 1 } else { 2 });
            served.insert(job.key);
            let settled = worker.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
        }
    }
}
