//! Busy is not broken (law 8).

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn law_8_busy_names_a_job_that_can_be_read_at_any_server() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    let first = create(&mut at_a, "q", "foo").await;
    let mut session = Session::open(&mut at_a, hello("the-worker", "q", 1)).await;
    let leased = session.delivery().await;

    for client in [&mut at_a, &mut at_b] {
        let (outcome, busy) = offer(client, submit("q", "foo", "other")).await;
        assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
        assert_eq!((&busy.id, busy.state()), (&first.id, JobState::Leased));
        assert!(busy.payload.is_empty());
        let seen = job(client, "q", "foo").await.expect("the job");
        assert_eq!((&seen.id, seen.state()), (&first.id, JobState::Leased));
        assert_eq!((seen.attempt, seen.max_attempts), (1, 10));
        assert_eq!(seen.payload, "payload");
        assert_eq!(seen.holder, "the-worker");
        assert_eq!(seen.fencing_number, leased.fencing_number);
        assert!(seen.lease_deadline.is_some() && seen.age.is_some());
    }
    session
        .settle(&leased.lease_token, retry_after(Duration::from_secs(30)))
        .await;
    for client in [&mut at_a, &mut at_b] {
        let (_, busy) = offer(client, submit("q", "foo", "other")).await;
        assert_eq!(busy.state(), JobState::Retrying);
        let seen = job(client, "q", "foo").await.expect("the job");
        assert_eq!((seen.attempt, &*seen.last_error), (2, "not yet"));
        assert!(seen.start_at.is_some());
        assert_eq!((&*seen.holder, seen.fencing_number), ("", 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_8_on_conflict_is_served_as_asked_or_refused_by_name() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let first = create(&mut client, "q", "foo").await;
    let asking = |on_conflict: OnConflict| proto::SubmitRequest {
        on_conflict: on_conflict.into(),
        ..submit("q", "foo", "again")
    };

    let (outcome, _) = offer(&mut client, asking(OnConflict::Reject)).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
    let failed = client.submit(asking(OnConflict::Fail)).await;
    let status = failed.expect_err("the key is busy");
    assert_eq!(status.code(), Code::AlreadyExists);
    assert_reason(&status, "KEY_BUSY");
    assert!(status.message().contains(&first.id), "{status:?}");
    for (on_conflict, name) in [
        (OnConflict::Rerun, "RERUN"),
        (OnConflict::Replace, "REPLACE"),
    ] {
        let refused = client.submit(asking(on_conflict)).await;
        let status = refused.expect_err("not served");
        assert_eq!(status.code(), Code::Unimplemented);
        assert_reason(&status, "NOT_SERVED_YET");
        assert!(status.message().contains(name), "{status:?}");
    }
    let free = proto::SubmitRequest {
        key: "bar".into(),
        ..asking(OnConflict::Fail)
    };
    let (outcome, _) = offer(&mut client, free).await;
    assert_eq!(outcome, SubmitOutcome::Created);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_8_a_full_queue_is_neither_busy_nor_closed_to_what_is_in_it() {
    let (_nats, server) = one_server().await;
    let config = proto::QueueConfig {
        max_depth: Some(2),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    let ended = with_id(submit("q", "ended", "payload"), 1);
    offer(&mut client, ended.clone()).await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    ack(&mut client, &leased.lease_token, complete()).await;
    let first = with_id(submit("q", "a", "payload"), 2);
    offer(&mut client, first.clone()).await;
    create(&mut client, "q", "b").await;

    let third = with_id(submit("q", "c", "payload"), 3);
    for request in [third.clone(), submit("q", "c", "payload")] {
        let status = client.submit(request).await.expect_err("the queue is full");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_reason(&status, "QUEUE_FULL");
        assert!(status.get_details_retry_info().is_some());
    }
    let (outcome, _) = offer(&mut client, submit("q", "a", "other")).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
    // Law 6 holds here too.
    for request in [first, ended] {
        let (outcome, job) = offer(&mut client, request.clone()).await;
        assert_eq!(
            (outcome, job.id),
            (SubmitOutcome::Duplicate, request.request_id)
        );
    }

    // Other queues are not concerned, and what is in it goes on.
    create(&mut client, "other", "c").await;
    for attempt in [1, 2] {
        let leased = pull(&mut client, "q", SOON).await.expect("a job");
        let key = leased.job.expect("a job").key;
        assert_eq!(
            (&*key, leased.attempt),
            if attempt == 1 { ("a", 1) } else { ("b", 1) }
        );
        let settled = ack(
            &mut client,
            &leased.lease_token,
            retry_after(Duration::ZERO),
        )
        .await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
    let leased = pull(&mut client, "q", SOON).await.expect("the first again");
    assert_eq!(leased.attempt, 2);
    ack(&mut client, &leased.lease_token, complete()).await;
    // There is room again at once, also for what was refused; and it may be delayed like any other.
    let delayed = delayed(third, Duration::from_secs(60));
    let (outcome, job) = offer(&mut client, delayed).await;
    assert_eq!(
        (outcome, job.state()),
        (SubmitOutcome::Created, JobState::Scheduled)
    );
}
