//! What a re-seat does to the leases of other jobs, and what keeps them safe from it.
//!
//! A rollup purges its subject, and a purge makes the consumer look through its pending deliveries
//! if its ack floor is below the first sequence of the stream. That look moves the floor past what
//! is still out, and empties the queue of redeliveries.

use std::time::Duration;

use super::lab::{Ack, Lab, SOON, jobs};

const SECOND: Duration = Duration::from_secs(1);

/// An older job is out; a younger one is delivered, re-seated, delivered again and acked.
async fn reseat_beside_an_older_lease(lab: &Lab) -> u64 {
    let older = lab.submit("older").await;
    assert_eq!(lab.take().await.sequence, older);
    let younger = lab.submit("younger").await;
    assert_eq!(lab.take().await.sequence, younger);
    let again = lab
        .reseat("younger", younger, "again")
        .await
        .sequence()
        .unwrap();
    let delivery = lab.take().await;
    assert_eq!(delivery.sequence, again);
    assert_eq!(lab.ack(&delivery.ack_subject, "+ACK").await, Ack::Yes);
    older
}

/// Known behaviour that the message at the front prevents: the older job is never delivered again.
#[tokio::test]
async fn a_reseat_makes_the_consumer_forget_older_leases() {
    for lab in jobs().ack_wait(2 * SECOND).both().await {
        let older = reseat_beside_an_older_lease(&lab).await;
        assert!(lab.pull(1, 5 * SECOND).await.is_empty());
        // On three replicas it is sometimes deleted too: lost, and not only stuck.
        let holder = lab.holder("older").await;
        assert!(
            holder == Some(older) || lab.is_three() && holder.is_none(),
            "{holder:?}"
        );
        assert!(lab.floor().await >= older);
        assert_eq!(lab.out().await, 0);
    }
}

#[tokio::test]
async fn a_job_that_the_consumer_has_forgotten_can_still_be_acked() {
    for lab in jobs().ack_wait(SECOND).both().await {
        lab.submit("older").await;
        let older = lab.take().await;
        let younger = lab.submit("younger").await;
        lab.take().await;
        lab.reseat("younger", younger, "again")
            .await
            .sequence()
            .unwrap();
        let again = lab.take().await;
        assert_eq!(lab.ack(&again.ack_subject, "+ACK").await, Ack::Yes);
        assert!(lab.pull(1, 3 * SECOND).await.is_empty());
        assert_eq!(lab.ack(&older.ack_subject, "+ACK").await, Ack::Yes);
        lab.submit_soon("older").await;
    }
}

#[tokio::test]
async fn a_message_at_the_front_that_the_consumer_does_not_see_keeps_older_leases() {
    for lab in jobs().with_front().ack_wait(2 * SECOND).both().await {
        let older = reseat_beside_an_older_lease(&lab).await;
        let redelivered = lab.take().await;
        assert_eq!((redelivered.sequence, redelivered.count), (older, 2));
    }
}

#[tokio::test]
async fn with_it_every_lease_among_many_reseats_comes_back() {
    const JOBS: usize = 60;
    for lab in jobs().with_front().ack_wait(4 * SECOND).both().await {
        for number in 0..JOBS {
            lab.submit(&format!("k{number}")).await;
        }
        let mut left = Vec::new();
        for (number, delivery) in lab.pull(JOBS, SOON).await.iter().enumerate() {
            match number % 3 {
                0 => left.push(delivery.sequence),
                1 => assert_eq!(lab.ack(&delivery.ack_subject, "+ACK").await, Ack::Yes),
                _ => {
                    let key = format!("k{number}");
                    let again = lab.reseat(&key, delivery.sequence, "again").await;
                    left.push(again.sequence().unwrap());
                    lab.take().await;
                }
            }
        }
        left.sort_unstable();
        let mut redelivered: Vec<u64> = lab
            .pull(left.len(), SOON)
            .await
            .iter()
            .map(|one| one.sequence)
            .collect();
        redelivered.sort_unstable();
        assert_eq!(redelivered, left);
    }
}

/// So the floor is made with the stream, before its first job.
#[tokio::test]
async fn a_reset_puts_the_floor_at_the_front_and_survives_a_crash_at_once() {
    for _ in 0..5 {
        let mut lab = jobs().with_front().alone().await;
        lab.crash().await;
        assert_eq!(lab.floor().await, 1);
    }
}

/// Known behaviour: what waits for redelivery when any job is re-seated waits for one more AckWait.
#[tokio::test]
async fn a_reseat_of_any_job_empties_the_queue_of_redeliveries() {
    for lab in jobs().with_front().ack_wait(2 * SECOND).both().await {
        let older = lab.submit("older").await;
        lab.take().await;
        tokio::time::sleep(SECOND * 5 / 2).await;
        let other = lab.submit("other").await;
        lab.reseat("other", other, "again")
            .await
            .sequence()
            .unwrap();
        // It ran out a while ago, and would have come first.
        let delivered = lab.pull(2, SECOND).await;
        assert_eq!(delivered.len(), 1);
        assert_ne!(delivered[0].sequence, older);
        assert_eq!(lab.take().await.sequence, older);
    }
}
