//! How a busy key, a full stream and a race are told apart.

use std::collections::HashSet;

use async_nats::connection::State;
use futures::future::join_all;
use keywork_testkit::eventually;

use super::lab::{
    AT_ONCE, Answer, EXPECTED_SEQUENCE, PUBLISH_IN_FLIGHT, SOON, STORE_FAILED, WRONG_LAST_SEQUENCE,
    jobs,
};

const BUSY: &str = "maximum messages per subject exceeded";
const FULL: &str = "maximum messages exceeded";
const FULL_BYTES: &str = "maximum bytes exceeded";

fn refused(text: &str) -> Answer {
    Answer::Refused(STORE_FAILED, text.into())
}

#[tokio::test]
async fn a_busy_key_is_a_store_error_that_only_its_text_explains() {
    for lab in jobs().both().await {
        lab.submit("a").await;
        assert_eq!(lab.publish("a", "job", &[]).await, refused(BUSY));
    }
}

#[tokio::test]
async fn a_full_stream_has_the_code_of_a_busy_key_and_another_text() {
    for lab in jobs().stream("max_msgs", 1).both().await {
        lab.submit("a").await;
        assert_eq!(lab.publish("b", "job", &[]).await, refused(FULL));
    }
    for lab in jobs().stream("max_bytes", 300).both().await {
        lab.publish("a", &"x".repeat(200), &[])
            .await
            .sequence()
            .unwrap();
        assert_eq!(
            lab.publish("b", &"x".repeat(200), &[]).await,
            refused(FULL_BYTES)
        );
    }
}

#[tokio::test]
async fn a_full_stream_hides_on_three_replicas_that_the_key_is_busy() {
    for lab in jobs().stream("max_msgs", 1).both().await {
        lab.submit("a").await;
        let text = if lab.is_three() { FULL } else { BUSY };
        assert_eq!(lab.publish("a", "job", &[]).await, refused(text));
    }
}

#[tokio::test]
async fn an_expected_sequence_of_zero_names_the_job_that_holds_the_key() {
    for lab in jobs().both().await {
        lab.submit("other").await;
        let holder = lab.submit("a").await;
        let text = format!("wrong last sequence: {holder}");
        let answer = lab.publish("a", "job", &[(EXPECTED_SEQUENCE, "0")]).await;
        assert_eq!(answer, Answer::Refused(WRONG_LAST_SEQUENCE, text));
    }
}

#[tokio::test]
async fn of_many_submits_of_one_key_at_once_one_is_stored() {
    for lab in jobs().both().await {
        for key in ["a", "b", "c"] {
            let racing = (0..20).map(|_| lab.publish(key, "job", &[(EXPECTED_SEQUENCE, "0")]));
            let answers = join_all(racing).await;
            let stored = answers
                .iter()
                .filter(|answer| answer.sequence().is_some())
                .count();
            assert_eq!(stored, 1, "{answers:?}");
            // In flight: ask again in a moment. It is neither success nor busy.
            let codes: HashSet<u64> = answers.iter().filter_map(Answer::code).collect();
            let known = HashSet::from([WRONG_LAST_SEQUENCE, PUBLISH_IN_FLIGHT]);
            assert!(codes.is_subset(&known), "{codes:?}");
        }
    }
}

#[tokio::test]
async fn a_publish_that_timed_out_may_be_stored_after_the_reconnect() {
    let lab = jobs().alone().await;
    lab.server().kill();
    eventually(SOON, "the client has noticed", async || {
        lab.client.connection_state() == State::Disconnected
    })
    .await;
    let publish = lab.client.request(lab.subject("a"), "job".into());
    let timed_out = tokio::time::timeout(AT_ONCE, publish).await;
    assert!(timed_out.is_err());
    lab.server().restart().await;
    eventually(SOON, "the job is stored after all", async || {
        lab.holder("a").await.is_some()
    })
    .await;
}
