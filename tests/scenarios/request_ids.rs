//! Retrying a submit (law 6) when JetStream no longer remembers its id.

use keywork::proto::{
    Release, SettlementOutcome, SubmitOutcome, SubmitRequest, settlement::Outcome,
};
use keywork_testkit::eventually_some;

use crate::support::{SOON, ack, client, offer, one_server, pull, submit};

const ID: &str = "0198f1de-2c5b-7c3a-9d1e-3f6a5b7c8d9e";

/// A job that was stored anew carries no id for JetStream, so a restarted one knows of none.
#[tokio::test(flavor = "multi_thread")]
async fn law_6_a_retry_finds_its_own_outstanding_job_after_nats_has_forgotten_the_id() {
    let (nats, server) = one_server().await;
    let mut client = client(&server).await;
    let request = SubmitRequest {
        request_id: ID.into(),
        ..submit("reconcile", "foo-123", "v1")
    };
    assert_eq!(
        offer(&mut client, request.clone()).await.0,
        SubmitOutcome::Created
    );
    let leased = pull(&mut client, "reconcile", SOON).await.expect("the job");
    let released = ack(
        &mut client,
        &leased.lease_token,
        Outcome::Release(Release {}),
    )
    .await;
    assert_eq!(released, SettlementOutcome::Settled);

    nats.restart().await;
    let answer = eventually_some(SOON, "the server reaches NATS again", async || {
        client.clone().submit(request.clone()).await.ok()
    })
    .await
    .into_inner();
    assert_eq!(answer.outcome(), SubmitOutcome::Duplicate);
    assert_eq!(answer.job.expect("the job").id, ID);
}
