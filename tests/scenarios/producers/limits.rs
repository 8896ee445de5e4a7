//! One bad thing harms only itself (law 9): odd keys, batches, limits.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn law_9_odd_keys_are_served_as_they_are_and_bad_ones_refused() {
    let (_nats, server) = one_server().await;
    let mut worker = client(&server).await;
    let mut session = Session::open(&mut worker, hello("worker", "q", 100)).await;
    let long = "k".repeat(512);
    let long_ones = "😀".repeat(128);
    let odd = [
        ".",
        "..",
        "a.b",
        "a%2Eb",
        "*",
        ">",
        "a.*.>",
        "%",
        "%25",
        "%zz",
        " ",
        " a ",
        "a b",
        "ü",
        "u\u{308}",
        "😀",
        "\u{202e}",
        "$JS.API.>",
        "_INBOX.x",
        "-ERR",
        "+OK",
        "MSG a 1 2",
        "\"'\\",
        "{}",
        "work.q.a",
        "A",
        "a",
        &long,
        &long_ones,
    ];
    let mut client = client(&server).await;
    for key in odd {
        let (outcome, job) = offer(&mut client, submit("q", key, key)).await;
        assert_eq!((outcome, &*job.key), (SubmitOutcome::Created, key));
    }
    for bad in [
        "",
        &"k".repeat(513),
        &("ü".repeat(256) + "x"),
        "a\nb",
        "\r\n",
        "a\0",
        "\u{7f}",
        "\u{85}",
        "\tx",
        &"x".repeat(100_000),
    ] {
        let refused = client.submit(submit("q", bad, "payload")).await;
        assert_violates(&refused.expect_err("a bad key"), &["key"]);
        let request = proto::GetJobRequest {
            queue: "q".into(),
            key: bad.into(),
        };
        let refused = client.get_job(request).await;
        assert_violates(&refused.expect_err("a bad key"), &["key"]);
    }
    for bad in ["", "Q", "a.b", "-q", "q>", "a b", &"q".repeat(65)] {
        let refused = client.submit(submit(bad, "foo", "payload")).await;
        assert_violates(&refused.expect_err("a bad queue"), &["queue"]);
    }

    let mut seen = HashSet::new();
    while seen.len() < odd.len() {
        for delivery in session.deliveries().await {
            let job = delivery.job.expect("a job");
            assert_eq!(job.payload, job.key);
            assert!(seen.insert(job.key));
            let settled = session.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
        }
    }
    assert_eq!(seen, odd.iter().map(|key| (*key).to_owned()).collect());
    assert_eq!(session.beat(&[]).await, []);
    assert_eq!(dead(&mut client, "q").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_9_a_batch_has_one_verdict_an_item_in_order() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let busy = create(&mut client, "q", "busy").await;
    let duplicate = with_id(submit("q", "accepted", "payload"), 1);
    offer(&mut client, duplicate.clone()).await;
    let items = vec![
        submit("q", "new-1", "payload"),
        submit("q", "", "payload"),
        submit("q", "busy", "payload"),
        duplicate,
        submit("q", "new-1", "the same key within the batch"),
        proto::SubmitRequest {
            on_conflict: OnConflict::Fail.into(),
            ..submit("q", "busy", "payload")
        },
        submit("Bad Queue", "foo", "payload"),
        proto::SubmitRequest {
            payload: vec![0; 512 * 1024 + 1].into(),
            ..submit("q", "large", "")
        },
        proto::SubmitRequest {
            on_conflict: OnConflict::Rerun.into(),
            ..submit("q", "rerun", "payload")
        },
        submit("another", "new-2", "payload"),
    ];

    let request = proto::SubmitBatchRequest { items };
    let response = client.submit_batch(request).await.expect("an answer");
    let results = response.into_inner().results;
    let verdicts: Vec<_> = results.iter().map(verdict).collect();
    assert_eq!(
        verdicts,
        [
            "Created",
            "InvalidArgument key",
            "AlreadyOutstanding",
            "Duplicate",
            "AlreadyOutstanding",
            "AlreadyExists ",
            "InvalidArgument queue",
            "InvalidArgument payload",
            "Unimplemented ",
            "Created",
        ]
    );
    let named = |at: usize| match &results[at].result {
        Some(Wire::Response(response)) => response.job.clone().unwrap_or_default().id,
        Some(Wire::Error(_)) | None => String::new(),
    };
    assert_eq!(named(2), busy.id);
    assert_eq!(named(4), named(0));
    assert!(job(&mut client, "another", "new-2").await.is_some());

    for items in [vec![], vec![submit("q", "x", "y"); 1_001]] {
        let refused = client
            .submit_batch(proto::SubmitBatchRequest { items })
            .await;
        assert_violates(&refused.expect_err("a bad list"), &["items"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_9_limits_are_exact_and_named_and_what_is_within_comes_through_whole() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let base = submit("q", "foo", "");
    let bad = |field: &'static str, request: proto::SubmitRequest| (field, request);
    let wide = |name: usize, value: usize| [("n".repeat(name), "v".repeat(value))];
    let cases = [
        bad(
            "payload",
            proto::SubmitRequest {
                payload: vec![0; 524_289].into(),
                ..base.clone()
            },
        ),
        bad(
            "attributes",
            proto::SubmitRequest {
                attributes: many_attributes(65),
                ..base.clone()
            },
        ),
        bad(
            "attributes",
            proto::SubmitRequest {
                attributes: wide(1, 16_384).into(),
                ..base.clone()
            },
        ),
        bad(
            "attributes",
            proto::SubmitRequest {
                attributes: wide(0, 1).into(),
                ..base.clone()
            },
        ),
        bad(
            "content_type",
            proto::SubmitRequest {
                content_type: "x".repeat(256),
                ..base.clone()
            },
        ),
        bad(
            "content_type",
            proto::SubmitRequest {
                content_type: "a\r\nNats-Rollup: all".into(),
                ..base.clone()
            },
        ),
        bad(
            "max_attempts",
            proto::SubmitRequest {
                max_attempts: 1_001,
                ..base.clone()
            },
        ),
        bad(
            "delay",
            delayed(base.clone(), Duration::from_secs(367 * 86_400)),
        ),
    ];
    for (field, request) in cases {
        let status = client.submit(request).await.expect_err(field);
        assert_violates(&status, &[field]);
        assert!(job(&mut client, "q", "foo").await.is_none());
    }
    let limits = [
        ("payload", "524288"),
        ("attributes", "64"),
        ("attributes", "16384"),
    ];
    for (field, limit) in limits {
        let request = match (field, limit) {
            ("payload", _) => proto::SubmitRequest {
                payload: vec![0; 524_289].into(),
                ..base.clone()
            },
            (_, "64") => proto::SubmitRequest {
                attributes: many_attributes(65),
                ..base.clone()
            },
            (_, _) => proto::SubmitRequest {
                attributes: wide(1, 16_384).into(),
                ..base.clone()
            },
        };
        let status = client.submit(request).await.expect_err(field);
        assert!(status.message().contains(limit), "{status:?}");
    }

    let within = proto::SubmitRequest {
        payload: (0..524_288u32)
            .map(|n| n.to_le_bytes()[0])
            .collect::<Vec<_>>()
            .into(),
        attributes: wide(1, 16_383).into(),
        content_type: "t".repeat(255),
        ..base.clone()
    };
    let (outcome, _) = offer(&mut client, within.clone()).await;
    assert_eq!(outcome, SubmitOutcome::Created);
    assert_comes_through(&mut client, &within).await;
}
