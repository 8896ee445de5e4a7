//! What an ack does: by which subject, to whom, and what its answer is worth.

use std::time::Duration;

use async_nats::jetstream;
use keywork_testkit::eventually;

use super::lab::{AT_ONCE, Ack, Delivery, Lab, NO_SUCH_SEQUENCE, SOON, WRONG_LAST_SEQUENCE, jobs};

/// The ack subject from what a lease token holds: the time and the count of waiting messages are
/// not needed.
fn rebuilt(stream: &str, delivery: &Delivery) -> String {
    format!(
        "$JS.ACK.{stream}.c.{}.{}.{}.0.0",
        delivery.count, delivery.sequence, delivery.consumer_sequence
    )
}

#[tokio::test]
async fn an_ack_subject_has_nine_tokens() {
    for lab in jobs().both().await {
        lab.submit("a").await;
        let sequence = lab.submit("b").await;
        let delivery = lab.pull(2, SOON).await.pop().unwrap();
        let tokens: Vec<&str> = delivery.ack_subject.split('.').collect();
        let [
            js,
            ack,
            stream,
            consumer,
            count,
            stored,
            delivered,
            time,
            waiting,
        ] = tokens[..]
        else {
            panic!("{tokens:?}");
        };
        assert_eq!(
            [js, ack, stream, consumer],
            ["$JS", "ACK", &lab.stream, "c"]
        );
        assert_eq!(
            [count, stored, delivered],
            ["1", &sequence.to_string(), "2"]
        );
        assert!(time.parse::<u64>().unwrap() > 1_700_000_000_000_000_000);
        assert_eq!(waiting, "0");
    }
}

#[tokio::test]
async fn a_subject_rebuilt_from_numbers_extends_and_acks() {
    for lab in jobs().ack_wait(Duration::from_secs(2)).both().await {
        lab.submit("a").await;
        let delivery = lab.take().await;
        let subject = rebuilt(&lab.stream, &delivery);
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(lab.ack(&subject, "+WPI").await, Ack::Yes);
        }
        assert!(lab.is_quiet().await);
        assert_eq!(lab.ack(&subject, "+ACK").await, Ack::Yes);
        lab.submit_soon("a").await;
    }
}

#[tokio::test]
async fn of_an_ack_subject_only_the_sequence_of_the_stream_counts() {
    for lab in jobs().both().await {
        lab.submit("a").await;
        lab.submit("b").await;
        let held = lab.pull(2, SOON).await.pop().unwrap();
        let subject = format!("$JS.ACK.{}.c.77.{}.99.0.0", lab.stream, held.sequence);
        assert_eq!(lab.ack(&subject, "+ACK").await, Ack::Yes);
        lab.submit_soon("b").await;
        assert!(lab.holder("a").await.is_some());
    }
}

#[tokio::test]
async fn a_late_ack_removes_the_job_that_another_worker_holds() {
    for kind in ["+ACK", "+TERM"] {
        for lab in jobs().ack_wait(Duration::from_secs(1)).both().await {
            lab.submit("a").await;
            let late = lab.take().await;
            let owner = lab.take().await;
            assert_eq!((owner.sequence, owner.count), (late.sequence, 2));
            assert_eq!(lab.ack(&late.ack_subject, kind).await, Ack::Yes);
            lab.submit_soon("a").await;
        }
    }
}

#[tokio::test]
async fn a_stale_nak_starts_a_third_owner() {
    for lab in jobs().ack_wait(Duration::from_secs(1)).both().await {
        lab.submit("a").await;
        let stale = lab.take().await;
        let owner = lab.take().await;
        assert_eq!(lab.ack(&stale.ack_subject, "-NAK").await, Ack::Yes);
        let third = lab.pull(1, AT_ONCE).await.pop().unwrap();
        assert_eq!((third.sequence, third.count), (owner.sequence, 3));
    }
}

#[tokio::test]
async fn a_stale_progress_extends_the_lease_of_another() {
    for lab in jobs().ack_wait(Duration::from_secs(2)).both().await {
        lab.submit("a").await;
        let stale = lab.take().await;
        let owner = lab.take().await;
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(lab.ack(&stale.ack_subject, "+WPI").await, Ack::Yes);
        }
        // Three seconds into an ack wait of two, it is still the owner's.
        assert!(lab.is_quiet().await);
        assert_eq!(lab.ack(&owner.ack_subject, "+ACK").await, Ack::Yes);
    }
}

#[tokio::test]
async fn an_ack_of_a_job_long_gone_is_answered_yes() {
    for lab in jobs().both().await {
        lab.submit("a").await;
        let delivery = lab.take().await;
        for kind in ["+ACK", "+ACK", "+WPI", "-NAK", "+TERM"] {
            assert_eq!(lab.ack(&delivery.ack_subject, kind).await, Ack::Yes);
        }
    }
}

#[tokio::test]
async fn an_ack_that_nobody_heard_is_seen_by_a_request_and_not_by_double_ack() {
    let lab = jobs().alone().await;
    lab.submit("a").await;
    let delivery = lab.take().await;
    lab.delete_consumer().await;
    assert_eq!(
        lab.ack(&delivery.ack_subject, "+ACK").await,
        Ack::NobodyThere
    );

    let message = async_nats::Message {
        subject: delivery.subject.into(),
        reply: Some(delivery.ack_subject.into()),
        payload: "".into(),
        headers: None,
        status: None,
        description: None,
        length: 0,
    };
    let context = jetstream::new(lab.client.clone());
    assert!(
        jetstream::Message { message, context }
            .double_ack()
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_delete_frees_the_key_at_once_and_tells_the_truth() {
    for lab in jobs().both().await {
        let mut held = lab.submit("a").await;
        for round in 0..100 {
            taken(&lab, held).await;
            assert_eq!(lab.delete(held).await, Ok(()), "round {round}");
            let next = lab.publish("a", "job", &[]).await.sequence();
            assert!(next.is_some(), "round {round}");
            let gone = lab.delete(held).await.unwrap_err();
            assert!(NO_SUCH_SEQUENCE.contains(&gone), "{gone} in round {round}");
            held = next.unwrap();
        }
    }
}

async fn taken(lab: &Lab, sequence: u64) {
    assert_eq!(lab.take().await.sequence, sequence);
}

#[tokio::test]
async fn deleting_what_is_gone_has_two_codes() {
    for lab in jobs().both().await {
        lab.submit("before").await;
        let between = lab.submit("between").await;
        let after = lab.submit("after").await;
        lab.delete(between).await.unwrap();
        assert_eq!(lab.delete(between).await, Err(NO_SUCH_SEQUENCE[1]));
        assert_eq!(lab.delete(after + 100).await, Err(NO_SUCH_SEQUENCE[0]));
    }
}

/// Known behaviour, in one or two of a hundred rounds: on three replicas the consumer reads its own
/// node's copy of the stream. What it delivers then can be neither ended nor re-seated.
#[tokio::test]
async fn a_job_that_was_just_deleted_may_still_be_delivered_on_three_replicas() {
    let lab = jobs().of_three().await;
    for _ in 0..200 {
        let gone = lab.submit("a").await;
        lab.delete(gone).await.unwrap();
        let there = lab.submit("a").await;
        let delivered = lab.take().await.sequence;
        if delivered == gone {
            assert!(NO_SUCH_SEQUENCE.contains(&lab.delete(gone).await.unwrap_err()));
            assert_eq!(
                lab.reseat("a", gone, "again").await.code(),
                Some(WRONG_LAST_SEQUENCE)
            );
        } else {
            assert_eq!(delivered, there);
        }
        lab.delete(there).await.unwrap();
    }
}

#[tokio::test]
async fn deleting_a_job_that_is_out_removes_its_pending_entry() {
    for lab in jobs().ack_wait(Duration::from_secs(1)).both().await {
        lab.submit("a").await;
        let held = lab.take().await.sequence;
        assert_eq!(lab.out().await, 1);
        lab.delete(held).await.unwrap();
        eventually(SOON, "nothing is out", async || lab.out().await == 0).await;
    }
}

#[tokio::test]
async fn a_consumer_made_again_repeats_its_ack_subjects() {
    for lab in jobs().both().await {
        lab.submit("a").await;
        let before = lab.take().await;
        lab.delete_consumer().await;
        lab.create_consumer().await;
        let after = lab.take().await;
        assert_eq!(after.ack_subject, before.ack_subject);
    }
}

#[tokio::test]
async fn a_stream_made_again_repeats_its_sequences() {
    for lab in jobs().both().await {
        let before = lab.submit("a").await;
        lab.delete_stream().await;
        lab.create_stream().await;
        assert_eq!(lab.submit("a").await, before);
    }
}
