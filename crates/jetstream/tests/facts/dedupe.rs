//! What `Nats-Msg-Id` does, and what it does not.

use std::collections::HashSet;

use futures::future::join_all;

use super::lab::{
    Ack, Answer, DUPLICATE_IN_FLIGHT, EXPECTED_SEQUENCE, MSG_ID, SOON, WRONG_LAST_SEQUENCE, jobs,
};

#[tokio::test]
async fn a_retry_of_a_submit_is_a_duplicate_and_not_busy() {
    for lab in jobs().both().await {
        let first = lab
            .publish("a", "job", &[(MSG_ID, "id")])
            .await
            .sequence()
            .unwrap();
        let retry = lab.publish("a", "job", &[(MSG_ID, "id")]).await;
        assert_eq!(retry, Answer::Duplicate(first));
    }
}

#[tokio::test]
async fn an_expected_sequence_hides_the_duplicate_on_one_replica_only() {
    let headers = [(MSG_ID, "id"), (EXPECTED_SEQUENCE, "0")];
    for lab in jobs().both().await {
        let first = lab.publish("a", "job", &headers).await.sequence().unwrap();
        let retry = lab.publish("a", "job", &headers).await;
        if lab.is_three() {
            assert_eq!(retry, Answer::Duplicate(first));
        } else {
            assert_eq!(retry.code(), Some(WRONG_LAST_SEQUENCE));
        }
    }
}

#[tokio::test]
async fn an_id_counts_for_the_whole_stream_and_not_for_its_subject() {
    for lab in jobs().both().await {
        let first = lab
            .publish("a", "job", &[(MSG_ID, "id")])
            .await
            .sequence()
            .unwrap();
        let other = lab.publish("b", "job", &[(MSG_ID, "id")]).await;
        assert_eq!(other, Answer::Duplicate(first));
        assert_eq!(lab.holder("b").await, None);
    }
}

#[tokio::test]
async fn a_duplicate_does_not_mean_that_the_job_is_still_there() {
    for lab in jobs().both().await {
        let first = lab
            .publish("a", "job", &[(MSG_ID, "id")])
            .await
            .sequence()
            .unwrap();
        lab.delete(first).await.unwrap();
        let retry = lab.publish("a", "job", &[(MSG_ID, "id")]).await;
        assert_eq!(retry, Answer::Duplicate(first));
        assert_eq!(lab.holder("a").await, None);
    }
}

#[tokio::test]
async fn a_restart_forgets_the_ids_of_jobs_that_have_ended() {
    let mut lab = jobs().alone().await;
    let there = lab
        .publish("there", "job", &[(MSG_ID, "there")])
        .await
        .sequence()
        .unwrap();
    lab.publish("gone", "job", &[(MSG_ID, "gone")]).await;
    let deliveries = lab.pull(2, SOON).await;
    let gone = deliveries
        .iter()
        .find(|delivery| delivery.sequence != there)
        .unwrap();
    assert_eq!(lab.ack(&gone.ack_subject, "+ACK").await, Ack::Yes);

    lab.restart().await;
    let retry = lab.publish("there", "job", &[(MSG_ID, "there")]).await;
    assert_eq!(retry, Answer::Duplicate(there));
    let again = lab.publish("gone", "job", &[(MSG_ID, "gone")]).await;
    assert!(again.sequence().is_some(), "{again:?}");
}

#[tokio::test]
async fn of_many_retries_at_once_one_is_stored() {
    for lab in jobs().both().await {
        let racing = (0..20).map(|_| lab.publish("a", "job", &[(MSG_ID, "id")]));
        let answers = join_all(racing).await;
        let stored = answers
            .iter()
            .filter(|answer| answer.sequence().is_some())
            .count();
        assert_eq!(stored, 1, "{answers:?}");
        // A duplicate in flight: ask again in a moment. It does not say which sequence it will be.
        let codes: HashSet<u64> = answers.iter().filter_map(Answer::code).collect();
        assert!(
            codes.is_subset(&HashSet::from([DUPLICATE_IN_FLIGHT])),
            "{codes:?}"
        );
    }
}
