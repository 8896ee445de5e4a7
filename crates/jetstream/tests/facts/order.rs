//! In which order jobs are delivered, and which are never delivered.

use std::time::Duration;

use super::lab::{Ack, SOON, jobs};

#[tokio::test]
async fn redeliveries_come_before_new_jobs() {
    for lab in jobs().ack_wait(Duration::from_secs(1)).both().await {
        let old = lab.submit("old").await;
        lab.take().await;
        for key in ["new1", "new2", "new3"] {
            lab.submit(key).await;
        }
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let delivered = lab.pull(4, SOON).await;
        let order: Vec<u64> = delivered.iter().map(|delivery| delivery.sequence).collect();
        assert_eq!(order, [old, old + 1, old + 2, old + 3]);
        assert_eq!(delivered[0].count, 2);
    }
}

#[tokio::test]
async fn a_reseated_job_goes_to_the_tail_and_counts_from_one() {
    for lab in jobs().ack_wait(Duration::from_secs(1)).both().await {
        let first = lab.submit("a").await;
        lab.submit("b").await;
        assert_eq!(lab.take().await.sequence, first);
        let again = lab.reseat("a", first, "again").await.sequence().unwrap();
        let delivered = lab.pull(2, SOON).await;
        let order: Vec<_> = delivered
            .iter()
            .map(|one| (one.sequence, one.count))
            .collect();
        assert_eq!(order, [(first + 1, 1), (again, 1)]);
        assert_eq!(delivered[1].payload, b"again");
    }
}

#[tokio::test]
async fn a_first_sequence_can_be_chosen_so_that_fencing_numbers_keep_growing() {
    for lab in jobs()
        .stream("first_seq", 1_700_000_000_000_000_u64)
        .both()
        .await
    {
        assert_eq!(lab.submit("a").await, 1_700_000_000_000_000);
        let delivery = lab.take().await;
        assert_eq!(delivery.sequence, 1_700_000_000_000_000);
        assert_eq!(delivery.consumer_sequence, 1);
        assert_eq!(lab.ack(&delivery.ack_subject, "+ACK").await, Ack::Yes);
        lab.submit_soon("a").await;
    }
}
