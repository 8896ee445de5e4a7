//! The same request again (law 6).

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn law_6_the_same_request_is_the_same_job_outstanding_or_ended() {
    let (nats, server) = one_server().await;
    let other = server_on(&nats.url()).await;
    let (mut here, mut there) = (client(&server).await, client(&other).await);
    make_queue(&server, "q", short_lease()).await;
    let request = with_id(submit("q", "foo", "payload"), 1);
    let (outcome, first) = offer(&mut here, request.clone()).await;
    assert_eq!(
        (outcome, &first.id),
        (SubmitOutcome::Created, &request.request_id)
    );
    let mut again = async |state: JobState| {
        for client in [&mut here, &mut there] {
            let (outcome, job) = offer(client, request.clone()).await;
            assert_eq!(outcome, SubmitOutcome::Duplicate);
            assert_eq!((&job.id, &*job.key), (&first.id, "foo"));
            assert_eq!(job.state(), state, "{job:?}");
        }
    };

    again(JobState::Queued).await;
    let mut worker = client(&server).await;
    let leased = pull(&mut worker, "q", SOON).await.expect("the job");
    again(JobState::Leased).await;
    let later = retry_after(Duration::from_secs(2));
    ack(&mut worker, &leased.lease_token, later).await;
    again(JobState::Retrying).await;
    let leased = pull(&mut worker, "q", SOON).await.expect("the job");
    ack(&mut worker, &leased.lease_token, complete()).await;
    again(JobState::Ended).await;

    // The key is another job's now: the first one's retry changes nothing of it.
    let second = create(&mut worker, "q", "foo").await;
    again(JobState::Ended).await;
    let holder = job(&mut worker, "q", "foo").await.expect("a job");
    assert_eq!(holder.id, second.id);
    assert!(
        pull(&mut worker, "q", SOON)
            .await
            .is_some_and(|d| d.job.is_some_and(|j| j.id == second.id))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn law_6_the_same_request_is_the_same_job_with_three_replicas() {
    let (_cluster, a, b) = cluster_with_two_servers().await;
    make_queue(&a, "q", proto::QueueConfig::default()).await;
    let (mut a, mut b) = (client(&a).await, client(&b).await);
    let request = with_id(submit("q", "foo", "payload"), 1);
    // All at once: the answers to most of them come while the first is still on its way.
    let offers = (0..40).map(|n| {
        let (mut client, request) = (if n % 2 == 0 { &a } else { &b }.clone(), request.clone());
        async move { offer(&mut client, request).await }
    });
    let answers = join_all(offers).await;
    let of = |outcome| answers.iter().filter(|(o, _)| *o == outcome).count();
    // One was accepted; the answer that said so may have been lost, and its retry is a duplicate.
    let (created, duplicate) = (of(SubmitOutcome::Created), of(SubmitOutcome::Duplicate));
    assert!(created <= 1 && created + duplicate == 40, "{answers:?}");
    let id = &answers[0].1.id;
    assert!(answers.iter().all(|(_, job)| job.id == *id), "{answers:?}");

    // All the same, there is one job, and it runs once.
    let leased = pull(&mut a, "q", SOON).await.expect("the job");
    assert_eq!(leased.job.as_ref().map(|job| &job.id), Some(id));
    ack(&mut a, &leased.lease_token, complete()).await;
    let second = pull(&mut b, "q", Duration::from_millis(500)).await;
    assert_eq!(second, None, "the job ran twice");
    let (outcome, job) = offer(&mut b, request).await;
    assert_eq!(
        (outcome, job.state()),
        (SubmitOutcome::Duplicate, JobState::Ended)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn law_6_a_full_queue_remembers_and_forgets_no_request_with_three_replicas() {
    let (_cluster, server, _) = cluster_with_two_servers().await;
    let config = proto::QueueConfig {
        max_depth: Some(1),
        ..proto::QueueConfig::default()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    let first = with_id(submit("q", "ended", "payload"), 1);
    offer(&mut client, first.clone()).await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    ack(&mut client, &leased.lease_token, complete()).await;
    // Filled until it is full: a limit may be overshot by what the server has not counted yet.
    let mut refused = None;
    for number in 2..50 {
        let request = with_id(submit("q", &format!("key-{number}"), "payload"), number);
        match client.submit(request.clone()).await {
            Ok(response) => assert_eq!(response.into_inner().outcome(), SubmitOutcome::Created),
            Err(status) => {
                assert_reason(&status, "QUEUE_FULL");
                refused = Some(request);
                break;
            }
        }
    }
    let refused = refused.expect("an offer that finds the queue full");
    let (outcome, _) = offer(&mut client, first).await;
    assert_eq!(outcome, SubmitOutcome::Duplicate);

    // What was refused was not taken for accepted: with room it is.
    let (outcome, job) = eventually_some(SOON, "there is room", async || {
        if let Some(leased) = pull(&mut client, "q", Duration::from_millis(200)).await {
            ack(&mut client, &leased.lease_token, complete()).await;
        }
        let response = client.submit(refused.clone()).await.ok()?.into_inner();
        Some((response.outcome(), response.job.unwrap_or_default()))
    })
    .await;
    assert_eq!(
        (outcome, job.id),
        (SubmitOutcome::Created, refused.request_id)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn law_6_a_dead_letter_s_request_is_remembered() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let request = with_id(submit("q", "foo", "payload"), 1);
    offer(&mut client, request.clone()).await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    ack(&mut client, &leased.lease_token, fail()).await;

    let (outcome, again) = offer(&mut client, request).await;
    assert_eq!(outcome, SubmitOutcome::Duplicate);
    assert_eq!(again.state(), JobState::Ended);
    assert_eq!(job(&mut client, "q", "foo").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_of_another_key_s_job_is_refused_by_field() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    offer(&mut client, with_id(submit("q", "foo", "payload"), 1)).await;

    let refused = client
        .submit(with_id(submit("q", "bar", "payload"), 1))
        .await;
    assert_violates(&refused.expect_err("another key's"), &["request_id"]);
    assert_eq!(job(&mut client, "q", "bar").await, None);
    let no_uuid = proto::SubmitRequest {
        request_id: "twelve".into(),
        ..submit("q", "bar", "payload")
    };
    let refused = client.submit(no_uuid).await;
    assert_violates(&refused.expect_err("no UUID"), &["request_id"]);
}
