//! Re-seating: replacing the job at one sequence by itself at a new one, atomically.

use std::time::Duration;

use super::lab::{AT_ONCE, Ack, Answer, MSG_ID, SOON, STORE_FAILED, WRONG_LAST_SEQUENCE, jobs};

#[tokio::test]
async fn it_works_at_the_limit_of_one_message_a_subject() {
    for lab in jobs().both().await {
        let first = lab.submit("a").await;
        let second = lab.reseat("a", first, "again").await.sequence().unwrap();
        assert!(second > first);
        assert_eq!(lab.holder("a").await, Some(second));
        assert!(lab.publish("a", "job", &[]).await.code().is_some());
    }
}

#[tokio::test]
async fn nothing_that_a_former_owner_sends_has_an_effect_after_it() {
    for kind in ["+ACK", "+TERM", "-NAK", "+WPI"] {
        for lab in jobs().both().await {
            let first = lab.submit("a").await;
            let former = lab.take().await;
            let second = lab.reseat("a", first, "again").await.sequence().unwrap();
            let owner = lab.take().await;
            assert_eq!(owner.sequence, second);

            // Answered yes, as always.
            assert_eq!(lab.ack(&former.ack_subject, kind).await, Ack::Yes);
            assert!(lab.pull(1, AT_ONCE).await.is_empty(), "{kind}");
            assert_eq!(lab.holder("a").await, Some(second), "{kind}");
            assert_eq!(lab.out().await, 1, "{kind}");
            assert_eq!(lab.ack(&owner.ack_subject, "+ACK").await, Ack::Yes);
            lab.submit_soon("a").await;
        }
    }
}

#[tokio::test]
async fn it_removes_the_pending_entry_of_the_old_sequence() {
    for lab in jobs().ack_wait(Duration::from_secs(1)).both().await {
        let first = lab.submit("a").await;
        lab.take().await;
        let second = lab.reseat("a", first, "again").await.sequence().unwrap();
        let owner = lab.take().await;
        assert_eq!(owner.sequence, second);
        assert_eq!(lab.out().await, 1);
        // Only the new sequence comes back when its ack wait has run out.
        assert_eq!(lab.take().await.sequence, second);
    }
}

#[tokio::test]
async fn a_late_one_is_refused_and_brings_nothing_back() {
    for lab in jobs().both().await {
        let first = lab.submit("a").await;
        let second = lab.reseat("a", first, "again").await.sequence().unwrap();
        let text = format!("wrong last sequence: {second}");
        let late = lab.reseat("a", first, "late").await;
        assert_eq!(late, Answer::Refused(WRONG_LAST_SEQUENCE, text));

        lab.delete(second).await.unwrap();
        let gone = lab.reseat("a", second, "late").await;
        let text = "wrong last sequence: 0".to_owned();
        assert_eq!(gone, Answer::Refused(WRONG_LAST_SEQUENCE, text));
        assert_eq!(lab.holder("a").await, None);
    }
}

#[tokio::test]
async fn its_retry_is_refused_when_it_carries_no_id() {
    for lab in jobs().both().await {
        let first = lab.submit("a").await;
        lab.reseat("a", first, "again").await.sequence().unwrap();
        let retry = lab.reseat("a", first, "again").await;
        assert_eq!(retry.code(), Some(WRONG_LAST_SEQUENCE));
    }
}

#[tokio::test]
async fn its_retry_with_an_id_of_its_own_is_a_duplicate_on_three_replicas_only() {
    let id = [(MSG_ID, "this re-seat")];
    for lab in jobs().both().await {
        let first = lab.submit("a").await;
        let second = lab
            .reseat_with("a", first, "again", &id)
            .await
            .sequence()
            .unwrap();
        let retry = lab.reseat_with("a", first, "again", &id).await;
        if lab.is_three() {
            assert_eq!(retry, Answer::Duplicate(second));
        } else {
            assert_eq!(retry.code(), Some(WRONG_LAST_SEQUENCE));
        }
    }
}

#[tokio::test]
async fn with_the_id_of_the_submit_it_stores_nothing() {
    let id = [(MSG_ID, "the submit")];
    for lab in jobs().both().await {
        let first = lab.publish("a", "job", &id).await.sequence().unwrap();
        let again = lab.reseat_with("a", first, "again", &id).await;
        assert_eq!(again, Answer::Duplicate(first));
        assert_eq!(lab.holder("a").await, Some(first));
    }
}

#[tokio::test]
async fn it_fails_in_a_stream_that_is_full_by_count_on_three_replicas() {
    for lab in jobs().stream("max_msgs", 1).both().await {
        let first = lab.submit("a").await;
        let again = lab.reseat("a", first, "again").await;
        if lab.is_three() {
            assert_eq!(again.code(), Some(STORE_FAILED));
        } else {
            assert!(again.sequence().is_some(), "{again:?}");
        }
    }
}

#[tokio::test]
async fn it_fails_in_a_stream_that_is_full_by_bytes() {
    let large = "x".repeat(200);
    for lab in jobs().stream("max_bytes", 300).both().await {
        let first = lab.publish("a", &large, &[]).await.sequence().unwrap();
        let again = lab.reseat("a", first, &large).await;
        assert_eq!(again.code(), Some(STORE_FAILED));
    }
}

#[tokio::test]
async fn a_message_that_is_replaced_before_its_delivery_is_never_delivered() {
    for lab in jobs().both().await {
        let first = lab.submit("a").await;
        let second = lab.reseat("a", first, "again").await.sequence().unwrap();
        let delivered = lab.pull(2, SOON / 10).await;
        let sequences: Vec<u64> = delivered.iter().map(|one| one.sequence).collect();
        assert_eq!(sequences, [second]);
    }
}
