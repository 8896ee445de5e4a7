//! The stream is a contract too: what others published to it.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_published_to_the_stream_is_served_with_defaults() {
    let (nats, server) = one_server().await;
    let mut client = client(&server).await;
    make_queue(&server, "reconcile", proto::QueueConfig::default()).await;
    let plain = async_nats::jetstream::new(nats.connect().await);
    let stored = plain
        .publish("work.reconcile.foo-123", "by hand".into())
        .await;
    stored.expect("a publish").await.expect("a publish ack");

    let seen = job(&mut client, "reconcile", "foo-123")
        .await
        .expect("the job");
    let (outcome, busy) = offer(&mut client, submit("reconcile", "foo-123", "other")).await;
    assert_eq!(
        (outcome, &busy.id),
        (SubmitOutcome::AlreadyOutstanding, &seen.id)
    );
    let mut session = Session::open(&mut client, hello("worker", "reconcile", 1)).await;
    let delivery = session.delivery().await;
    let served = delivery.job.expect("a job");
    assert_eq!(
        (&*served.key, &*served.payload),
        ("foo-123", &b"by hand"[..])
    );
    assert_eq!((delivery.attempt, served.max_attempts), (1, 10));
    assert_eq!(served.id, seen.id);
    assert!(served.submitted_at.is_some());

    // It is retried like any other, as the same job.
    let settled = session
        .settle(&delivery.lease_token, retry_after(Duration::ZERO))
        .await;
    assert_eq!(settled, SettlementOutcome::Settled);
    let again = session.delivery().await;
    assert_eq!(
        (again.attempt, &again.job.expect("a job").id),
        (2, &seen.id)
    );
    let busy = plain
        .publish("work.reconcile.foo-123", "by hand".into())
        .await;
    busy.expect("a publish").await.expect_err("the key is busy");
    let settled = session.settle(&again.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    create(&mut client, "reconcile", "foo-123").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_9_what_cannot_be_read_becomes_a_dead_letter_and_stalls_nobody() {
    let (nats, server) = one_server().await;
    let mut client = client(&server).await;
    make_queue(&server, "q", proto::QueueConfig::default()).await;
    let plain = async_nats::jetstream::new(nats.connect().await);
    let long = format!("work.q.{}", "k".repeat(600));
    // Close to what NATS takes in one line: with a reply or a longer prefix it would be beyond.
    let longest = format!("work.q.{}", "k".repeat(3_900));
    let unreadable = [
        "work.q.%zz",
        "work.q.%c3%bc",
        "work.q.ü",
        "work.q.%61",
        "work.q.a=b",
        &long,
        &longest,
    ];
    for subject in unreadable {
        let stored = plain.publish(subject.to_owned(), "odd".into()).await;
        stored.expect("a publish").await.expect("a publish ack");
    }
    let mut headers = async_nats::HeaderMap::new();
    for name in [
        "Attempt",
        "Max-Attempts",
        "Backoff",
        "Not-Before",
        "Expires-At",
        "Attributes",
        "Id",
        "Mark",
        "From",
    ] {
        headers.insert(format!("Keywork-{name}"), "nonsense");
    }
    let stored = plain
        .publish_with_headers("work.q.headers", headers, "odd".into())
        .await;
    stored.expect("a publish").await.expect("a publish ack");
    create(&mut client, "q", "fine").await;

    let mut session = Session::open(&mut client, hello("worker", "q", 10)).await;
    let mut keys = HashSet::new();
    while keys.len() < 2 {
        for delivery in session.deliveries().await {
            assert_eq!(delivery.attempt, 1);
            keys.insert(delivery.job.expect("a job").key);
            let settled = session.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
        }
    }
    assert_eq!(keys, ["fine".to_owned(), "headers".to_owned()].into());
    let letters = eventually_some(SOON, "the unreadable ones are dead letters", async || {
        Some(dead(&mut client, "q").await).filter(|letters| letters.len() == unreadable.len())
    })
    .await;
    for letter in &letters {
        assert_eq!(letter.reason(), DeadReason::Unreadable);
        assert_eq!(letter.job.as_ref().expect("a job").payload, "odd");
    }
    let request = proto::GetQueueRequest { name: "q".into() };
    let queue = admin(&server)
        .await
        .get_queue(request)
        .await
        .expect("a queue");
    let stats = queue
        .into_inner()
        .queue
        .and_then(|q| q.stats)
        .expect("counts");
    assert_eq!(stats.outstanding, 0, "{stats:?}");
}
