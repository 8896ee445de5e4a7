//! Which subjects a key may become.

use std::time::Duration;

use keywork_testkit::eventually;

use super::lab::{SOON, jobs};

#[tokio::test]
async fn percent_encoded_keys_are_ordinary_subjects() {
    for lab in jobs().both().await {
        for key in ["foo-123", "a%2Eb", "%2A", "%3E", "%25", "%C3%BC", "%20"] {
            let sequence = lab.submit(key).await;
            assert_eq!(lab.holder(key).await, Some(sequence), "{key}");
        }
    }
}

#[tokio::test]
async fn a_wildcard_is_accepted_as_a_literal_subject() {
    for lab in jobs().both().await {
        let plain = lab.submit("a").await;
        let wild = lab.submit("*").await;
        let deliveries = lab.pull(2, SOON).await;
        let subjects: Vec<&str> = deliveries.iter().map(|one| one.subject.as_str()).collect();
        assert_eq!(subjects, [lab.subject("a"), lab.subject("*")]);
        assert_eq!(
            [plain, wild],
            [deliveries[0].sequence, deliveries[1].sequence]
        );
    }
}

#[tokio::test]
async fn the_longest_encoded_key_fits() {
    // 512 bytes, each of them encoded.
    let key = "%C3".repeat(512);
    for lab in jobs().both().await {
        let sequence = lab.submit(&key).await;
        assert_eq!(lab.take().await.sequence, sequence);
    }
}

#[tokio::test]
async fn a_subject_over_four_kilobytes_closes_the_whole_connection() {
    let lab = jobs().alone().await;
    let connection = lab.client.server_info().client_id;
    let publish = lab
        .client
        .request(lab.subject(&"k".repeat(5_000)), "job".into());
    // Whether an error comes, or nothing, is the client's affair.
    let _ = tokio::time::timeout(Duration::from_secs(1), publish).await;
    eventually(SOON, "the client had to connect again", async || {
        lab.client.server_info().client_id != connection
    })
    .await;
}
