//! One per key (law 1).

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn law_1_a_key_has_one_outstanding_job_and_is_free_when_it_ends() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let first = create(&mut client, "reconcile", "foo-123").await;

    let (outcome, holder) = offer(&mut client, submit("reconcile", "foo-123", "again")).await;
    assert_eq!(
        (outcome, &holder.id),
        (SubmitOutcome::AlreadyOutstanding, &first.id)
    );

    let leased = pull(&mut client, "reconcile", SOON).await.expect("the job");
    let seen = job(&mut client, "reconcile", "foo-123")
        .await
        .expect("an outstanding job");
    assert_eq!(seen.state(), JobState::Leased);
    let settled = ack(&mut client, &leased.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    create(&mut client, "reconcile", "foo-123").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_1_of_many_submits_of_one_key_through_two_servers_one_is_accepted() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    let clients = [client(&a).await, client(&b).await];
    let offers = (0..100).map(|n| {
        let mut client = clients[n % 2].clone();
        async move { offer(&mut client, submit("reconcile", "foo", "payload")).await }
    });
    let answers = join_all(offers).await;

    let created: Vec<_> = answers
        .iter()
        .filter(|(outcome, _)| *outcome == SubmitOutcome::Created)
        .collect();
    assert_eq!(created.len(), 1, "{created:?}");
    for (outcome, job) in &answers {
        assert!(matches!(
            outcome,
            SubmitOutcome::Created | SubmitOutcome::AlreadyOutstanding
        ));
        assert_eq!(job.id, created[0].1.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_rejected_by_name_and_the_lease_stays() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    create(&mut client, "q", "foo").await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    let with_result = Outcome::Complete(proto::Complete {
        result: Bytes::from_static(b"42"),
    });
    let request = proto::AckRequest {
        settlements: vec![settlement(&leased.lease_token, with_result)],
    };

    let response = client.ack(request).await.expect("an answer");
    let result = &response.into_inner().results[0];
    assert_eq!(result.outcome(), SettlementOutcome::Rejected);
    let error = result.error.as_ref().expect("why");
    assert_eq!(error.code, i32::from(tonic::Code::Unimplemented));
    assert_eq!(error.reason, "NOT_SERVED_YET");
    assert!(error.message.contains("result"), "{error:?}");

    let extended = beat(&mut client, &leased.lease_token).await;
    assert!(extended.time_left.is_some(), "{extended:?}");
    let settled = ack(&mut client, &extended.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    create(&mut client, "q", "foo").await;
}
