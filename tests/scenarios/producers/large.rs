//! What is large, and what is odd to store.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn law_9_attributes_that_cost_most_to_store_hold_up_no_retry() {
    let (_nats, server) = one_server().await;
    // The largest payload that NATS takes: 1 MiB less what is kept for headers.
    let config = proto::QueueConfig {
        max_payload_bytes: Some(1024 * 1024 - 64 * 1024),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    for (n, text) in ["\u{1}", "\n", "\"", "ü", "%", "\u{7f}", " "]
        .into_iter()
        .enumerate()
    {
        let value = text.repeat(16_383 / text.len());
        let request = proto::SubmitRequest {
            payload: vec![7; 1024 * 1024 - 64 * 1024].into(),
            attributes: [("a".to_owned(), value)].into(),
            ..submit("q", &format!("ü😀 {n}").repeat(40), "")
        };
        let (outcome, _) = offer(&mut client, request.clone()).await;
        assert_eq!(outcome, SubmitOutcome::Created, "{text:?}");
        let leased = pull(&mut client, "q", SOON).await.expect("the job");
        let error = proto::settlement::Outcome::Retry(proto::Retry {
            delay: Some(wire(Duration::ZERO)),
            error: "ü\u{1}".repeat(2_000),
        });
        let settled = ack(&mut client, &leased.lease_token, error).await;
        assert_eq!(settled, SettlementOutcome::Settled, "{text:?}");
        assert_comes_through(&mut client, &request).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_9_large_jobs_come_in_messages_that_a_client_takes() {
    const JOBS: usize = 20;
    let (_nats, server) = one_server().await;
    // These clients refuse messages of more than 4 MiB, as gRPC clients do unless they are told otherwise.
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 0)).await;
    let items = |prefix: &str| -> Vec<_> {
        (0..JOBS)
            .map(|n| proto::SubmitRequest {
                payload: vec![7; 512 * 1024].into(),
                attributes: [("a".to_owned(), "v".repeat(16_000))].into(),
                ..submit("q", &format!("{prefix}-{n}"), "")
            })
            .collect()
    };
    let request = proto::SubmitBatchRequest {
        items: items("on-a-stream"),
    };
    client.submit_batch(request).await.expect("verdicts");
    let capacity = u32::try_from(JOBS).expect("a few");
    session
        .send(Up::Capacity(proto::Capacity { capacity }))
        .await;
    let mut keys = HashSet::new();
    while keys.len() < JOBS {
        for delivery in session.deliveries().await {
            keys.insert(delivery.job.expect("a job").key);
            let settled = session.settle(&delivery.lease_token, fail()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
        }
    }
    session.close();
    // What were delivered to it now would stay leased.
    eventually(SOON, "the session has ended", async || {
        sessions_of(&server, "q").await == 0
    })
    .await;

    let request = proto::SubmitBatchRequest {
        items: items("by-a-pull"),
    };
    client.submit_batch(request).await.expect("verdicts");
    let mut keys = HashSet::new();
    while keys.len() < JOBS {
        let request = proto::PullRequest {
            queue: "q".into(),
            max_jobs: 1_000,
            wait: Some(wire(SOON)),
            ..Default::default()
        };
        let pulled = client.pull(request).await.expect("an answer").into_inner();
        assert!(!pulled.deliveries.is_empty(), "the rest never comes");
        for delivery in pulled.deliveries {
            assert_eq!(delivery.attempt, 1);
            assert!(keys.insert(delivery.job.expect("a job").key));
            let settled = ack(&mut client, &delivery.lease_token, fail()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
        }
    }

    let (mut letters, mut page_token) = (0, String::new());
    loop {
        let request = proto::ListDeadJobsRequest {
            queue: "q".into(),
            page_token,
            ..Default::default()
        };
        let page = client
            .list_dead_jobs(request)
            .await
            .expect("a page")
            .into_inner();
        letters += page.jobs.len();
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(letters, 2 * JOBS);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_9_offers_with_large_attributes_have_an_answer_that_a_client_takes() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let items = (0..400)
        .map(|n| proto::SubmitRequest {
            attributes: [("a".to_owned(), "v".repeat(16_000))].into(),
            ..submit("q", &format!("key-{n}"), "payload")
        })
        .collect();
    let request = proto::SubmitBatchRequest { items };
    let response = client.submit_batch(request).await.expect("verdicts");
    assert!(
        response
            .into_inner()
            .results
            .iter()
            .all(|r| verdict(r) == "Created")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_attributes_come_through_as_they_are() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let odd = [
        "",
        " ",
        " a ",
        "\r\n",
        "a: b\r\nNats-Rollup: all",
        "ü😀",
        "\0",
        "\"",
        "\\u0000",
        "%0A",
        "\u{85}\u{7f}",
    ];
    let attributes: BTreeMap<_, _> = odd
        .iter()
        .map(|text| (format!("n{text}"), (*text).to_owned()))
        .collect();
    let request = proto::SubmitRequest {
        attributes,
        content_type: " a; b=\"c: d\" ".into(),
        ..submit("q", "foo", "payload")
    };
    offer(&mut client, request.clone()).await;
    assert_comes_through(&mut client, &request).await;
}

/// nats-server closes a connection that has more than 64 MiB to read; what was on its way would cost an attempt.
#[tokio::test(flavor = "multi_thread")]
async fn law_9_many_large_jobs_at_once_cost_no_connection_and_no_attempt() {
    const JOBS: usize = 300;
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    for from in (0..JOBS).step_by(6) {
        // As much as one message may hold.
        let items = (from..from + 6)
            .map(|n| proto::SubmitRequest {
                payload: vec![7; 512 * 1024].into(),
                ..submit("q", &format!("k{n}"), "")
            })
            .collect();
        let request = proto::SubmitBatchRequest { items };
        client.submit_batch(request).await.expect("verdicts");
    }
    let mut session = Session::open(&mut client, hello("worker", "q", 1_000)).await;
    let mut keys = HashSet::new();
    while keys.len() < JOBS {
        for delivery in session.deliveries().await {
            assert_eq!(delivery.attempt, 1, "it was lost on its way");
            let settled = session.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
            keys.insert(delivery.job.expect("a job").key);
        }
    }
}
