//! Keys that must not stick (laws 1, 2 and 7).

use keywork::proto::{JobState, SettlementOutcome, SubmitOutcome};

use crate::support::{SOON, ack, client, complete, create, job, offer, one_server, pull, submit};

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
