//! Later, and not too late: delays and expiry.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_holds_its_key_and_is_served_at_its_time_as_attempt_1() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 10)).await;
    let (wait, submitted) = (Duration::from_secs(2), Instant::now());
    let (outcome, first) = offer(&mut client, delayed(submit("q", "delay", "payload"), wait)).await;
    assert_eq!(
        (outcome, first.state()),
        (SubmitOutcome::Created, JobState::Scheduled)
    );
    let at = proto::SubmitRequest {
        start: Some(Start::StartAt(from_now(wait))),
        ..submit("q", "start_at", "payload")
    };
    offer(&mut client, at).await;
    let past = proto::SubmitRequest {
        start: Some(Start::StartAt(prost_types::Timestamp {
            seconds: 1,
            nanos: 0,
        })),
        ..submit("q", "past", "payload")
    };
    let (_, past) = offer(&mut client, past).await;
    assert_eq!(past.state(), JobState::Queued);

    let at_once = session.delivery().await;
    assert_eq!(at_once.job.expect("a job").key, "past");
    for key in ["delay", "start_at"] {
        let (outcome, busy) = offer(&mut client, submit("q", key, "other")).await;
        assert_eq!(
            (outcome, busy.state()),
            (SubmitOutcome::AlreadyOutstanding, JobState::Scheduled)
        );
        assert!(
            job(&mut client, "q", key)
                .await
                .is_some_and(|j| j.start_at.is_some())
        );
    }
    let mut keys = HashSet::new();
    while keys.len() < 2 {
        for delivery in session.deliveries().await {
            let waited = submitted.elapsed();
            // Times are kept in whole milliseconds.
            assert!(
                waited + Duration::from_millis(2) >= wait,
                "{waited:?} is too early"
            );
            assert!(waited < wait + IN_TIME, "{waited:?} is too late");
            assert_eq!(delivery.attempt, 1);
            keys.insert(delivery.job.expect("a job").key);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_did_not_start_in_time_is_a_dead_letter_and_its_key_is_free() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    let expiring = |key: &str| proto::SubmitRequest {
        expires_at: Some(from_now(Duration::from_secs(1))),
        ..submit("q", key, "payload")
    };
    // Nobody serves the queue until the time is over.
    for key in ["seen-by-a-submit", "seen-by-a-look", "seen-by-a-worker"] {
        offer(&mut client, expiring(key)).await;
    }
    let too_late = proto::SubmitRequest {
        expires_at: Some(from_now(Duration::from_secs(1))),
        ..delayed(
            submit("q", "starts-too-late", "payload"),
            Duration::from_millis(1_500),
        )
    };
    offer(&mut client, too_late).await;
    eventually(SOON, "the job is too late to start", async || {
        job(&mut client, "q", "seen-by-a-look").await.is_none()
    })
    .await;
    create(&mut client, "q", "seen-by-a-submit").await;

    let leased = pull(&mut client, "q", SOON).await.expect("the new job");
    assert_eq!(leased.job.expect("a job").key, "seen-by-a-submit");
    assert_eq!(pull(&mut client, "q", Duration::from_secs(2)).await, None);
    let letters = eventually_some(SOON, "all four are dead letters", async || {
        Some(dead(&mut client, "q").await).filter(|letters| letters.len() == 4)
    })
    .await;
    assert!(letters.iter().all(|l| l.reason() == DeadReason::Expired));
    create(&mut client, "q", "seen-by-a-worker").await;
    create(&mut client, "q", "starts-too-late").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_started_does_not_expire() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    let expires = Instant::now() + Duration::from_secs(1);
    let expiring = proto::SubmitRequest {
        expires_at: Some(from_now(Duration::from_secs(1))),
        ..submit("q", "foo", "payload")
    };
    offer(&mut client, expiring).await;
    let mut leased = pull(&mut client, "q", SOON).await.expect("the job");
    while Instant::now() < expires + Duration::from_secs(1) {
        let extended = beat(&mut client, &leased.lease_token).await;
        assert!(extended.time_left.is_some(), "{extended:?}");
        leased.lease_token = extended.lease_token;
        let (outcome, _) = offer(&mut client, submit("q", "foo", "other")).await;
        assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
        assert!(job(&mut client, "q", "foo").await.is_some());
        sleep(Duration::from_millis(200)).await;
    }
    // Nor does its next attempt.
    let settled = ack(&mut client, &leased.lease_token, retry()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    let again = pull(&mut client, "q", SOON).await.expect("the job");
    assert_eq!(again.attempt, 2);
    let settled = ack(&mut client, &again.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    assert_eq!(dead(&mut client, "q").await, []);
}
