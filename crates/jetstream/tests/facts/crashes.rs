//! What one nats-server forgets when it is killed, and what a new leader makes of deliveries.

use std::time::Duration;

use serde_json::Value;

use super::lab::{AT_ONCE, Ack, CONSUMER, Lab, accepted, jobs};

const JOBS: usize = 10;

/// Submits and delivers a job, re-seats it if told to, and ends it with a confirmed ack.
async fn end_one(lab: &Lab, key: &str, reseat: bool) {
    let first = lab.submit(key).await;
    let mut delivery = lab.take().await;
    if reseat {
        lab.reseat(key, first, "again").await.sequence().unwrap();
        delivery = lab.take().await;
    }
    assert_eq!(lab.ack(&delivery.ack_subject, "+ACK").await, Ack::Yes);
    assert_eq!(lab.holder(key).await, None);
}

/// How many of the keys hold a job.
async fn held(lab: &Lab, prefix: &str) -> usize {
    let mut held = 0;
    for number in 0..JOBS {
        held += usize::from(lab.holder(&format!("{prefix}{number}")).await.is_some());
    }
    held
}

/// A lab in which jobs have ended beside one that lives, with and without having been re-seated.
async fn with_ended_jobs() -> Lab {
    let lab = jobs().with_front().alone().await;
    lab.submit("alive").await;
    lab.take().await;
    for number in 0..JOBS {
        end_one(&lab, &format!("plain{number}"), false).await;
        end_one(&lab, &format!("reseated{number}"), true).await;
    }
    lab
}

/// Known behaviour that Keywork's records of ended jobs mend: what evicted the old sequence left no
/// trace on disk yet.
#[tokio::test]
async fn a_job_that_was_reseated_and_ended_is_back_after_a_crash() {
    let mut lab = with_ended_jobs().await;
    // Longer than the sync interval: it is not the disk that was late.
    tokio::time::sleep(Duration::from_secs(2)).await;
    lab.crash().await;
    assert_eq!(held(&lab, "reseated").await, JOBS);
    assert_eq!(held(&lab, "plain").await, 0);
    // Stored, and in nobody's hands: they are neither delivered nor pending.
    assert_eq!(lab.out().await, 1);
    assert!(lab.pull(JOBS, AT_ONCE).await.is_empty());
}

#[tokio::test]
async fn after_a_clean_stop_no_ended_job_is_back() {
    let mut lab = with_ended_jobs().await;
    lab.restart().await;
    assert_eq!(held(&lab, "reseated").await, 0);
    assert_eq!(held(&lab, "plain").await, 0);
    assert!(lab.holder("alive").await.is_some());
}

/// Known behaviour that Keywork's sweep after a restart mends: such a key is dead.
#[tokio::test]
async fn what_is_stored_at_or_below_the_ack_floor_is_never_delivered() {
    let mut lab = jobs().with_front().alone().await;
    for number in 0..JOBS {
        end_one(&lab, &format!("reseated{number}"), true).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    lab.crash().await;
    let stored = lab.holder("reseated0").await.unwrap();
    assert!(stored <= lab.floor().await);
    assert_eq!(lab.out().await, 0);
    assert!(lab.pull(JOBS, AT_ONCE).await.is_empty());

    // A re-seat gives it a sequence that is delivered.
    let again = lab
        .reseat("reseated0", stored, "again")
        .await
        .sequence()
        .unwrap();
    assert_eq!(lab.take().await.sequence, again);
}

/// Known behaviour that Keywork's wait after a change of leader mends: a delivery is replicated with the time at
/// which its message was stored, an extension with its own.
#[tokio::test]
async fn a_new_leader_takes_a_delivery_that_was_not_extended_for_as_old_as_its_message() {
    let wait = Duration::from_secs(6);
    let lab = jobs().ack_wait(wait).of_three().await;
    lab.submit("extended").await;
    lab.submit("old").await;
    tokio::time::sleep(wait + Duration::from_secs(1)).await;
    lab.submit("new").await;
    let held = lab.pull(3, wait).await;
    assert_eq!(held.len(), 3);
    assert_eq!(lab.ack(&held[0].ack_subject, "+WPI").await, Ack::Yes);
    let verb = format!("CONSUMER.LEADER.STEPDOWN.{}.{CONSUMER}", lab.stream);
    accepted(&lab.api(&verb, &Value::Null).await);
    let again = lab.pull(3, Duration::from_secs(3)).await;
    let again: Vec<_> = again.iter().map(|d| (&*d.subject, d.count)).collect();
    assert_eq!(again, [(&*lab.subject("old"), 2)]);
}
