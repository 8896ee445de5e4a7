//! Many jobs at the same moment.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_that_are_due_at_once_are_served_promptly_with_little_capacity() {
    due_at_once(Duration::from_secs(15)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_many_leases_that_ran_out_at_once_are_served_again_promptly() {
    const JOBS: usize = 200;
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    submit_many(&mut client, JOBS, None).await;
    let request = proto::PullRequest {
        queue: "q".into(),
        max_jobs: u32::try_from(JOBS).expect("a few"),
        wait: Some(wire(SOON)),
        ..Default::default()
    };
    // Taken by a worker that is never heard of again.
    let mut taken = 0;
    while taken < JOBS {
        let pulled = client.pull(request.clone()).await.expect("an answer");
        taken += pulled.into_inner().deliveries.len();
    }
    let ran_out = Instant::now() + SHORT_LEASE + MARGIN;
    let mut session = Session::open(&mut client, hello("worker", "q", 10)).await;
    let served = serve_all(&mut session, JOBS, 2).await;
    let late = Instant::now().saturating_duration_since(ran_out);
    assert_eq!(served.len(), JOBS);
    assert!(late < LOADED * 2, "the last one came {late:?} late");
}

/// 200 jobs with one delay, and a session that holds ten at a time. `lease` is long: a job that JetStream
/// puts off by one wait would be seen.
async fn due_at_once(lease: Duration) {
    const JOBS: usize = 200;
    let (_nats, server) = one_server().await;
    let config = proto::QueueConfig {
        lease_duration: Some(wire(lease)),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 10)).await;
    let delay = Duration::from_secs(3);
    let at = Instant::now() + delay;
    submit_many(&mut client, JOBS, Some(delay)).await;
    let submitted = Instant::now() + delay;
    let served = serve_all(&mut session, JOBS, 1).await;
    let now = Instant::now();
    assert_eq!(served.len(), JOBS);
    assert!(now + ROUNDED >= at, "too early");
    let late = now.saturating_duration_since(submitted);
    assert!(late < LOADED, "the last one came {late:?} late");
}

/// Submits jobs in one batch.
async fn submit_many(client: &mut Client, jobs: usize, delay: Option<Duration>) {
    let items = (0..jobs)
        .map(|n| proto::SubmitRequest {
            start: delay.map(|delay| Start::Delay(wire(delay))),
            ..submit("q", &format!("key-{n}"), "payload")
        })
        .collect();
    let request = proto::SubmitBatchRequest { items };
    let results = client
        .submit_batch(request)
        .await
        .expect("verdicts")
        .into_inner()
        .results;
    for result in results {
        match result.result {
            Some(Wire::Response(response)) => {
                assert_eq!(response.outcome(), SubmitOutcome::Created)
            }
            other => panic!("not accepted: {other:?}"),
        }
    }
}

/// Completes whatever comes, at this attempt, until so many jobs have come: each once.
async fn serve_all(session: &mut Session, jobs: usize, attempt: u32) -> HashSet<String> {
    let mut served = HashSet::new();
    while served.len() < jobs {
        for delivery in session.beating().await {
            let job = delivery.job.expect("a job");
            assert_eq!(delivery.attempt, attempt, "{}", job.key);
            assert!(served.insert(job.key), "a job was served twice");
            let settlements = vec![settlement(&delivery.lease_token, complete())];
            session
                .send(Up::Settlements(proto::Settlements { settlements }))
                .await;
        }
    }
    served
}
