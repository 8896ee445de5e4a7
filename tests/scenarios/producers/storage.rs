//! NATS has no room left (laws 2 and 8).

use keywork_testkit::{NatsOptions, NatsServer};

use super::*;

/// Payloads of this size fill a small NATS soon.
const PAYLOAD: usize = 500_000;

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_nats_without_room_refuses_new_jobs_and_loses_none() {
    let options = NatsOptions {
        max_file: "16MB".into(),
        ..NatsOptions::default()
    };
    let nats = NatsServer::start_with(options).await;
    let server = server_on(&nats.url()).await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    let large = |key: String| proto::SubmitRequest {
        payload: vec![0; PAYLOAD].into(),
        ..submit("q", &key, "")
    };

    let mut accepted = 0;
    let status = loop {
        match client.submit(large(format!("k{accepted}"))).await {
            Ok(_) => accepted += 1,
            Err(status) => break status,
        }
        assert!(accepted < 100, "NATS has more room than it was given");
    };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_reason(&status, "STORAGE_FULL");
    assert!(status.get_details_retry_info().is_some());
    // A busy key is busy, room or no room.
    let (outcome, _) = offer(&mut client, large("k0".into())).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);

    // What is to be stored anew finds no room, and stays; what ends makes room.
    let failed = pull(&mut client, "q", SOON).await.expect("the first job");
    let settled = ack(&mut client, &failed.lease_token, fail()).await;
    assert_eq!(settled, SettlementOutcome::TryAgain);
    for _ in 0..4 {
        let leased = pull(&mut client, "q", SOON).await.expect("a job");
        let settled = ack(&mut client, &leased.lease_token, complete()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
    let settled = ack(&mut client, &failed.lease_token, fail()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    assert_eq!(dead(&mut client, "q").await.len(), 1);
    let (outcome, _) = offer(&mut client, large("k0".into())).await;
    assert_eq!(outcome, SubmitOutcome::Created);
}
