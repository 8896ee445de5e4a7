//! AckWait as the length of a lease: what keeps it, what ends it, what breaks it.

use std::time::Duration;

use async_nats::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::lab::{AT_ONCE, Ack, CONSUMER, SOON, jobs, nanos};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn progress_that_was_answered_before_the_deadline_keeps_the_lease() {
    for lab in jobs().ack_wait(2 * SECOND).both().await {
        lab.submit("a").await;
        let held = lab.take().await;
        sleep(SECOND).await;
        let start = Instant::now();
        assert_eq!(lab.ack(&held.ack_subject, "+WPI").await, Ack::Yes);
        let again = lab.take().await;
        assert_eq!(again.count, 2);
        assert!(start.elapsed() > 2 * SECOND, "after {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn progress_after_the_deadline_is_answered_yes_and_rescues_nothing() {
    for lab in jobs().ack_wait(SECOND).both().await {
        lab.submit("a").await;
        let held = lab.take().await;
        // Nobody pulls, so nothing has been redelivered when the progress comes.
        sleep(SECOND + AT_ONCE).await;
        assert_eq!(lab.ack(&held.ack_subject, "+WPI").await, Ack::Yes);
        let again = lab.pull(1, AT_ONCE).await;
        assert_eq!(again.len(), 1);
    }
}

#[tokio::test]
async fn a_shorter_ack_wait_ends_leases_that_are_out() {
    for mut lab in jobs().ack_wait(30 * SECOND).both().await {
        lab.submit("a").await;
        lab.take().await;
        sleep(SECOND).await;
        lab.change_ack_wait(SECOND).await;
        let again = lab.pull(1, 3 * SECOND).await;
        assert_eq!(again.len(), 1);
    }
}

#[tokio::test]
async fn a_ttl_that_runs_out_removes_a_job_that_is_leased() {
    for lab in jobs().stream("allow_msg_ttl", true).both().await {
        lab.publish("a", "job", &[("Nats-TTL", "1s")])
            .await
            .sequence()
            .unwrap();
        lab.take().await;
        lab.submit_soon("a").await;
    }
}

#[tokio::test]
async fn after_the_last_delivery_the_job_stays_and_is_never_delivered_again() {
    for lab in jobs()
        .ack_wait(SECOND)
        .consumer("max_deliver", 1)
        .both()
        .await
    {
        let held = lab.submit("a").await;
        lab.take().await;
        assert!(lab.pull(1, 3 * SECOND).await.is_empty());
        assert_eq!(lab.holder("a").await, Some(held));
        assert!(lab.publish("a", "job", &[]).await.code().is_some());
    }
}

#[tokio::test]
async fn a_paused_consumer_delivers_nothing_and_still_hears_progress_and_acks() {
    for lab in jobs().ack_wait(2 * SECOND).both().await {
        lab.submit("held").await;
        let held = lab.take().await;
        lab.submit("waiting").await;
        lab.pause("2100-01-01T00:00:00Z").await;
        assert!(lab.is_quiet().await);
        for _ in 0..3 {
            sleep(SECOND).await;
            assert_eq!(lab.ack(&held.ack_subject, "+WPI").await, Ack::Yes);
        }
        lab.pause("2000-01-01T00:00:00Z").await;
        // The held one was kept through the pause: only the other one comes.
        let delivered = lab.take().await;
        assert_eq!(delivered.subject, lab.subject("waiting"));
        assert!(lab.is_quiet().await);
        lab.pause("2100-01-01T00:00:00Z").await;
        assert_eq!(lab.ack(&held.ack_subject, "+ACK").await, Ack::Yes);
        lab.submit_soon("held").await;
    }
}

#[tokio::test]
async fn the_end_of_a_pause_serves_no_waiting_pull_until_another_one_comes() {
    for lab in jobs().both().await {
        lab.pause("2100-01-01T00:00:00Z").await;
        lab.submit("a").await;
        let waiting = async { (lab.pull(1, SOON).await.len(), Instant::now()) };
        let waking = async {
            sleep(AT_ONCE).await;
            lab.pause("2000-01-01T00:00:00Z").await;
            sleep(SECOND).await;
            let woken = Instant::now();
            // Too small for any message, so it takes none.
            let pull = json!({ "batch": 1, "max_bytes": 1, "expires": nanos(SECOND) });
            let verb = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{CONSUMER}", lab.stream);
            let request = lab.client.request(verb, pull.to_string().into());
            (woken, request.await.unwrap().status)
        };
        let ((served, served_at), (woken, status)) = tokio::join!(waiting, waking);
        assert_eq!(served, 1);
        assert!(served_at > woken, "the end of the pause was enough");
        assert!(served_at - woken < SECOND, "the other pull was not enough");
        assert_eq!(status, Some(StatusCode::TIMEOUT));
    }
}

#[tokio::test]
async fn more_than_512_waiting_pulls_are_refused() {
    let lab = jobs().alone().await;
    let inbox = lab.client.new_inbox();
    let mut replies = lab.client.subscribe(inbox.clone()).await.unwrap();
    let request = json!({ "batch": 1, "expires": nanos(SOON) }).to_string();
    let verb = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{CONSUMER}", lab.stream);
    for _ in 0..=512 {
        lab.client
            .publish_with_reply(verb.clone(), inbox.clone(), request.clone().into())
            .await
            .unwrap();
    }
    let refused = tokio::time::timeout(SOON, futures::StreamExt::next(&mut replies)).await;
    let status = refused.unwrap().unwrap().status.unwrap();
    assert_eq!(status.as_u16(), 409);
    assert_eq!(
        lab.consumer_info().await["config"]["max_waiting"],
        Value::from(512)
    );
}
