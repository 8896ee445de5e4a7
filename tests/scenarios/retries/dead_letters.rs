//! Dead letters, and redriving them.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_says_why_with_the_last_error_and_all_of_the_job() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let offered = |key: &str| proto::SubmitRequest {
        max_attempts: 2,
        attributes: [("trace".to_owned(), "ü\n".to_owned())].into(),
        content_type: "text/plain".into(),
        ..submit("q", key, "payload")
    };
    offer(&mut client, offered("fails")).await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    let long = proto::settlement::Outcome::Fail(proto::Fail {
        error: "ü\u{1}\r\n%".repeat(1_000),
    });
    let settled = ack(&mut client, &leased.lease_token, long).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    offer(&mut client, offered("exhausts")).await;
    for _ in 0..2 {
        let leased = pull(&mut client, "q", SOON).await.expect("the job");
        let settled = ack(
            &mut client,
            &leased.lease_token,
            retry_after(Duration::ZERO),
        )
        .await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }

    let letters = dead(&mut client, "q").await;
    let reasons: Vec<_> = letters.iter().map(proto::DeadJob::reason).collect();
    assert_eq!(reasons, [DeadReason::Failed, DeadReason::AttemptsExhausted]);
    let jobs: Vec<_> = letters.iter().filter_map(|l| l.job.clone()).collect();
    let kept = &jobs[0].last_error;
    assert!(kept.len() <= 2_048 && kept.len() > 2_040, "{}", kept.len());
    assert!("ü\u{1}\r\n%".repeat(1_000).starts_with(&**kept));
    assert_eq!((jobs[0].attempt, jobs[1].attempt), (1, 2));
    assert_eq!(
        (&*jobs[1].last_error, &*jobs[1].key),
        ("not yet", "exhausts")
    );
    for job in &jobs {
        assert_eq!((job.state(), job.max_attempts), (JobState::Dead, 2));
        assert_eq!(job.payload, "payload");
        assert_eq!(job.attributes, offered("fails").attributes);
        assert_eq!(job.content_type, "text/plain");
    }
    assert!(letters.iter().all(|l| l.died_at.is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_job_starts_at_attempt_1_and_its_dead_letter_is_gone() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let first = with_a_dead_letter(&mut client, "foo").await;

    let results = redrive(&mut client, &[]).await;
    assert_eq!(results.len(), 1);
    assert_eq!(outcome_of(&results[0]), Ok(SubmitOutcome::Created));
    let answered = match &results[0].result.as_ref().expect("a result").result {
        Some(Wire::Response(response)) => response.job.clone().expect("a job"),
        other => panic!("no response: {other:?}"),
    };
    let at = |job: &proto::Job| job.submitted_at.map(|at| (at.seconds, at.nanos));
    assert!(at(&answered) > at(&first), "it was submitted anew");
    assert_eq!(dead(&mut client, "q").await, []);
    let again = pull(&mut client, "q", SOON).await.expect("the job");
    let job = again.job.expect("a job");
    assert_eq!((again.attempt, &job.id), (1, &first.id));
    assert_eq!(job.payload, "payload");

    // As often as it takes: it dies once more, and is redriven once more.
    ack(&mut client, &again.lease_token, fail()).await;
    let letter = dead(&mut client, "q").await.remove(0);
    let results = redrive(&mut client, &[letter.dead_id]).await;
    assert_eq!(outcome_of(&results[0]), Ok(SubmitOutcome::Created));
    let again = pull(&mut client, "q", SOON).await.expect("the job");
    assert_eq!(again.attempt, 1);
    ack(&mut client, &again.lease_token, complete()).await;
    // One that is not there is told apart, and spoils nothing.
    let results = redrive(&mut client, &[letter.dead_id, 999_999]).await;
    for result in &results {
        assert_eq!(outcome_of(result), Err("DEAD_JOB_NOT_FOUND".into()));
    }
    assert_eq!(results.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_into_a_full_queue_is_refused_and_keeps_the_dead_letter() {
    let (_nats, server) = one_server().await;
    let config = proto::QueueConfig {
        max_depth: Some(1),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    with_a_dead_letter(&mut client, "foo").await;
    create(&mut client, "q", "bar").await;

    let results = redrive(&mut client, &[]).await;
    assert_eq!(outcome_of(&results[0]), Err("QUEUE_FULL".into()));
    assert_eq!(dead(&mut client, "q").await.len(), 1);

    let other = pull(&mut client, "q", SOON).await.expect("the other job");
    ack(&mut client, &other.lease_token, complete()).await;
    let results = redrive(&mut client, &[]).await;
    assert_eq!(outcome_of(&results[0]), Ok(SubmitOutcome::Created));
}

#[tokio::test(flavor = "multi_thread")]
async fn law_1_a_redrive_of_a_busy_key_leaves_the_dead_letter_and_the_owner_alone() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    with_a_dead_letter(&mut client, "foo").await;
    with_a_dead_letter(&mut client, "bar").await;
    let second = create(&mut client, "q", "foo").await;
    let owner = pull(&mut client, "q", SOON).await.expect("the second job");

    let results = redrive(&mut client, &[]).await;
    assert_eq!(
        outcome_of(&results[0]),
        Ok(SubmitOutcome::AlreadyOutstanding)
    );
    let named = match &results[0].result.as_ref().expect("a result").result {
        Some(Wire::Response(response)) => response.job.clone().expect("a job"),
        other => panic!("no response: {other:?}"),
    };
    assert_eq!((&named.id, named.state()), (&second.id, JobState::Leased));
    assert_eq!(outcome_of(&results[1]), Ok(SubmitOutcome::Created));
    let left = dead(&mut client, "q").await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].job.as_ref().expect("a job").key, "foo");

    let settled = ack(&mut client, &owner.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    let results = redrive(&mut client, &[left[0].dead_id]).await;
    assert_eq!(outcome_of(&results[0]), Ok(SubmitOutcome::Created));
    let request = proto::DeleteDeadJobsRequest {
        queue: "q".into(),
        dead_ids: Vec::new(),
        all: true,
    };
    let deleted = client.delete_dead_jobs(request).await.expect("an answer");
    assert_eq!(deleted.into_inner().deleted, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_1_of_many_redrives_at_once_one_counts() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    with_a_dead_letter(&mut client, "foo").await;
    let letter = dead(&mut client, "q").await.remove(0);
    let redrives = (0..8).map(|_| {
        let mut client = client.clone();
        async move { redrive(&mut client, &[letter.dead_id]).await }
    });
    let results: Vec<_> = join_all(redrives).await.into_iter().flatten().collect();
    assert!(
        results
            .iter()
            .any(|r| outcome_of(r) == Ok(SubmitOutcome::Created))
    );

    let again = pull(&mut client, "q", SOON).await.expect("the job");
    ack(&mut client, &again.lease_token, complete()).await;
    assert_eq!(
        pull(&mut client, "q", Duration::from_millis(500)).await,
        None
    );
    assert_eq!(dead(&mut client, "q").await, []);
    create(&mut client, "q", "foo").await;
}

/// A job that was failed, as it was submitted.
async fn with_a_dead_letter(client: &mut Client, key: &str) -> proto::Job {
    let first = create(client, "q", key).await;
    let leased = pull(client, "q", SOON).await.expect("the job");
    // Its attempts count for the dead letter, and not for what comes after.
    ack(client, &leased.lease_token, retry_after(Duration::ZERO)).await;
    let leased = pull(client, "q", SOON).await.expect("the job");
    assert_eq!(leased.attempt, 2);
    let settled = ack(client, &leased.lease_token, fail()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    eventually(SOON, "the dead letter is there", async || {
        let letters = dead(client, "q").await;
        letters
            .iter()
            .any(|l| l.job.as_ref().is_some_and(|j| j.id == first.id))
    })
    .await;
    first
}

async fn redrive(client: &mut Client, dead_ids: &[u64]) -> Vec<proto::RedriveResult> {
    let request = proto::RedriveDeadJobsRequest {
        queue: "q".into(),
        dead_ids: dead_ids.to_vec(),
        max_jobs: 0,
    };
    let response = client.redrive_dead_jobs(request).await.expect("an answer");
    response.into_inner().results
}

/// The outcome of one redrive, or the reason of its error.
fn outcome_of(result: &proto::RedriveResult) -> Result<SubmitOutcome, String> {
    match result.result.as_ref().and_then(|r| r.result.as_ref()) {
        Some(Wire::Response(response)) => Ok(response.outcome()),
        Some(Wire::Error(error)) => Err(error.reason.clone()),
        None => Err(String::new()),
    }
}
