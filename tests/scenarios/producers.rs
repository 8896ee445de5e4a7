//! What producers are promised (laws 5, 6, 8 and 9).

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    time::Duration,
};

use bytes::Bytes;
use futures::future::join_all;
use keywork::proto::{
    self, DeadReason, JobState, OnConflict, SettlementOutcome, SubmitOutcome,
    lease_request::Message as Up, submit_request::Start, submit_result::Result as Wire,
};
use keywork_testkit::{KeyworkServer, eventually, eventually_some};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::support::{
    Client, SOON, Session, ack, admin, beat, client, cluster_with_two_servers, complete, create,
    dead, fail, hello, job, make_queue, offer, one_server, pull, retry, retry_after, server_on,
    short_lease, submit, wire,
};

/// One NATS request may take this long, and the machine is loaded.
const IN_TIME: Duration = Duration::from_secs(10);

// ---- the same request again ----

#[tokio::test(flavor = "multi_thread")]
async fn law_6_the_same_request_is_the_same_job_outstanding_or_ended() {
    let (nats, server) = one_server().await;
    let other = server_on(&nats.url()).await;
    let (mut here, mut there) = (client(&server).await, client(&other).await);
    make_queue(&server, "q", short_lease()).await;
    let request = with_id(submit("q", "foo", "payload"), 1);
    let (outcome, first) = offer(&mut here, request.clone()).await;
    assert_eq!(
        (outcome, &first.id),
        (SubmitOutcome::Created, &request.request_id)
    );
    let mut again = async |state: JobState| {
        for client in [&mut here, &mut there] {
            let (outcome, job) = offer(client, request.clone()).await;
            assert_eq!(outcome, SubmitOutcome::Duplicate);
            assert_eq!((&job.id, &*job.key), (&first.id, "foo"));
            assert_eq!(job.state(), state, "{job:?}");
        }
    };

    again(JobState::Queued).await;
    let mut worker = client(&server).await;
    let leased = pull(&mut worker, "q", SOON).await.expect("the job");
    again(JobState::Leased).await;
    let later = retry_after(Duration::from_secs(2));
    ack(&mut worker, &leased.lease_token, later).await;
    again(JobState::Retrying).await;
    let leased = pull(&mut worker, "q", SOON).await.expect("the job");
    ack(&mut worker, &leased.lease_token, complete()).await;
    again(JobState::Ended).await;

    // The key is another job's now: the first one's retry changes nothing of it.
    let second = create(&mut worker, "q", "foo").await;
    again(JobState::Ended).await;
    let holder = job(&mut worker, "q", "foo").await.expect("a job");
    assert_eq!(holder.id, second.id);
    assert!(
        pull(&mut worker, "q", SOON)
            .await
            .is_some_and(|d| d.job.is_some_and(|j| j.id == second.id))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn law_6_the_same_request_is_the_same_job_with_three_replicas() {
    let (_cluster, a, b) = cluster_with_two_servers().await;
    make_queue(&a, "q", proto::QueueConfig::default()).await;
    let (mut a, mut b) = (client(&a).await, client(&b).await);
    let request = with_id(submit("q", "foo", "payload"), 1);
    // All at once: the answers to most of them come while the first is still on its way.
    let offers = (0..40).map(|n| {
        let (mut client, request) = (if n % 2 == 0 { &a } else { &b }.clone(), request.clone());
        async move { offer(&mut client, request).await }
    });
    let answers = join_all(offers).await;
    let of = |outcome| answers.iter().filter(|(o, _)| *o == outcome).count();
    // One was accepted; the answer that said so may have been lost, and its retry is a duplicate.
    let (created, duplicate) = (of(SubmitOutcome::Created), of(SubmitOutcome::Duplicate));
    assert!(created <= 1 && created + duplicate == 40, "{answers:?}");
    let id = &answers[0].1.id;
    assert!(answers.iter().all(|(_, job)| job.id == *id), "{answers:?}");

    // All the same, there is one job, and it runs once.
    let leased = pull(&mut a, "q", SOON).await.expect("the job");
    assert_eq!(leased.job.as_ref().map(|job| &job.id), Some(id));
    ack(&mut a, &leased.lease_token, complete()).await;
    let second = pull(&mut b, "q", Duration::from_millis(500)).await;
    assert_eq!(second, None, "the job ran twice");
    let (outcome, job) = offer(&mut b, request).await;
    assert_eq!(
        (outcome, job.state()),
        (SubmitOutcome::Duplicate, JobState::Ended)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn law_6_a_full_queue_remembers_and_forgets_no_request_with_three_replicas() {
    let (_cluster, server, _) = cluster_with_two_servers().await;
    let config = proto::QueueConfig {
        max_depth: Some(1),
        ..proto::QueueConfig::default()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    let first = with_id(submit("q", "ended", "payload"), 1);
    offer(&mut client, first.clone()).await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    ack(&mut client, &leased.lease_token, complete()).await;
    // Filled until it is full: a limit may be overshot by what the server has not counted yet.
    let mut refused = None;
    for number in 2..50 {
        let request = with_id(submit("q", &format!("key-{number}"), "payload"), number);
        match client.submit(request.clone()).await {
            Ok(response) => assert_eq!(response.into_inner().outcome(), SubmitOutcome::Created),
            Err(status) => {
                assert_reason(&status, "QUEUE_FULL");
                refused = Some(request);
                break;
            }
        }
    }
    let refused = refused.expect("an offer that finds the queue full");
    let (outcome, _) = offer(&mut client, first).await;
    assert_eq!(outcome, SubmitOutcome::Duplicate);

    // What was refused was not taken for accepted: with room it is.
    let (outcome, job) = eventually_some(SOON, "there is room", async || {
        if let Some(leased) = pull(&mut client, "q", Duration::from_millis(200)).await {
            ack(&mut client, &leased.lease_token, complete()).await;
        }
        let response = client.submit(refused.clone()).await.ok()?.into_inner();
        Some((response.outcome(), response.job.unwrap_or_default()))
    })
    .await;
    assert_eq!(
        (outcome, job.id),
        (SubmitOutcome::Created, refused.request_id)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn law_6_a_dead_letter_s_request_is_remembered() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let request = with_id(submit("q", "foo", "payload"), 1);
    offer(&mut client, request.clone()).await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    ack(&mut client, &leased.lease_token, fail()).await;

    let (outcome, again) = offer(&mut client, request).await;
    assert_eq!(outcome, SubmitOutcome::Duplicate);
    assert_eq!(again.state(), JobState::Ended);
    assert_eq!(job(&mut client, "q", "foo").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_of_another_key_s_job_is_refused_by_field() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    offer(&mut client, with_id(submit("q", "foo", "payload"), 1)).await;

    let refused = client
        .submit(with_id(submit("q", "bar", "payload"), 1))
        .await;
    assert_violates(&refused.expect_err("another key's"), &["request_id"]);
    assert_eq!(job(&mut client, "q", "bar").await, None);
    let no_uuid = proto::SubmitRequest {
        request_id: "twelve".into(),
        ..submit("q", "bar", "payload")
    };
    let refused = client.submit(no_uuid).await;
    assert_violates(&refused.expect_err("no UUID"), &["request_id"]);
}

// ---- busy is not broken ----

#[tokio::test(flavor = "multi_thread")]
async fn law_8_busy_names_a_job_that_can_be_read_at_any_server() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    let first = create(&mut at_a, "q", "foo").await;
    let mut session = Session::open(&mut at_a, hello("the-worker", "q", 1)).await;
    let leased = session.delivery().await;

    for client in [&mut at_a, &mut at_b] {
        let (outcome, busy) = offer(client, submit("q", "foo", "other")).await;
        assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
        assert_eq!((&busy.id, busy.state()), (&first.id, JobState::Leased));
        assert!(busy.payload.is_empty());
        let seen = job(client, "q", "foo").await.expect("the job");
        assert_eq!((&seen.id, seen.state()), (&first.id, JobState::Leased));
        assert_eq!((seen.attempt, seen.max_attempts), (1, 10));
        assert_eq!(seen.payload, "payload");
        assert_eq!(seen.holder, "the-worker");
        assert_eq!(seen.fencing_number, leased.fencing_number);
        assert!(seen.lease_deadline.is_some() && seen.age.is_some());
    }
    session
        .settle(&leased.lease_token, retry_after(Duration::from_secs(30)))
        .await;
    for client in [&mut at_a, &mut at_b] {
        let (_, busy) = offer(client, submit("q", "foo", "other")).await;
        assert_eq!(busy.state(), JobState::Retrying);
        let seen = job(client, "q", "foo").await.expect("the job");
        assert_eq!((seen.attempt, &*seen.last_error), (2, "not yet"));
        assert!(seen.start_at.is_some());
        assert_eq!((&*seen.holder, seen.fencing_number), ("", 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_8_on_conflict_is_served_as_asked_or_refused_by_name() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let first = create(&mut client, "q", "foo").await;
    let asking = |on_conflict: OnConflict| proto::SubmitRequest {
        on_conflict: on_conflict.into(),
        ..submit("q", "foo", "again")
    };

    let (outcome, _) = offer(&mut client, asking(OnConflict::Reject)).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
    let failed = client.submit(asking(OnConflict::Fail)).await;
    let status = failed.expect_err("the key is busy");
    assert_eq!(status.code(), Code::AlreadyExists);
    assert_reason(&status, "KEY_BUSY");
    assert!(status.message().contains(&first.id), "{status:?}");
    for (on_conflict, name) in [
        (OnConflict::Rerun, "RERUN"),
        (OnConflict::Replace, "REPLACE"),
    ] {
        let refused = client.submit(asking(on_conflict)).await;
        let status = refused.expect_err("not served");
        assert_eq!(status.code(), Code::Unimplemented);
        assert_reason(&status, "NOT_SERVED_YET");
        assert!(status.message().contains(name), "{status:?}");
    }
    let free = proto::SubmitRequest {
        key: "bar".into(),
        ..asking(OnConflict::Fail)
    };
    let (outcome, _) = offer(&mut client, free).await;
    assert_eq!(outcome, SubmitOutcome::Created);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_8_a_full_queue_is_neither_busy_nor_closed_to_what_is_in_it() {
    let (_nats, server) = one_server().await;
    let config = proto::QueueConfig {
        max_depth: Some(2),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    let ended = with_id(submit("q", "ended", "payload"), 1);
    offer(&mut client, ended.clone()).await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    ack(&mut client, &leased.lease_token, complete()).await;
    let first = with_id(submit("q", "a", "payload"), 2);
    offer(&mut client, first.clone()).await;
    create(&mut client, "q", "b").await;

    let third = with_id(submit("q", "c", "payload"), 3);
    for request in [third.clone(), submit("q", "c", "payload")] {
        let status = client.submit(request).await.expect_err("the queue is full");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_reason(&status, "QUEUE_FULL");
        assert!(status.get_details_retry_info().is_some());
    }
    let (outcome, _) = offer(&mut client, submit("q", "a", "other")).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
    // Law 6 holds here too.
    for request in [first, ended] {
        let (outcome, job) = offer(&mut client, request.clone()).await;
        assert_eq!(
            (outcome, job.id),
            (SubmitOutcome::Duplicate, request.request_id)
        );
    }

    // Other queues are not concerned, and what is in it goes on.
    create(&mut client, "other", "c").await;
    for attempt in [1, 2] {
        let leased = pull(&mut client, "q", SOON).await.expect("a job");
        let key = leased.job.expect("a job").key;
        assert_eq!(
            (&*key, leased.attempt),
            if attempt == 1 { ("a", 1) } else { ("b", 1) }
        );
        let settled = ack(
            &mut client,
            &leased.lease_token,
            retry_after(Duration::ZERO),
        )
        .await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
    let leased = pull(&mut client, "q", SOON).await.expect("the first again");
    assert_eq!(leased.attempt, 2);
    ack(&mut client, &leased.lease_token, complete()).await;
    // There is room again at once, also for what was refused; and it may be delayed like any other.
    let delayed = delayed(third, Duration::from_secs(60));
    let (outcome, job) = offer(&mut client, delayed).await;
    assert_eq!(
        (outcome, job.state()),
        (SubmitOutcome::Created, JobState::Scheduled)
    );
}

// ---- one bad thing harms only itself ----

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

// ---- many at once ----

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_20_000_offers_is_answered_by_correlation_id_also_after_the_caller_is_done() {
    const OFFERS: u64 = 20_000;
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    create(&mut client, "q", "busy").await;
    let (up, offers) = mpsc::channel(16);
    let mut down = client
        .submit_stream(ReceiverStream::new(offers))
        .await
        .expect("a stream")
        .into_inner();
    let send = async move {
        for first in (0..OFFERS).step_by(500) {
            let offers = (first..first + 500).map(stream_offer).collect();
            let message = proto::SubmitStreamRequest { offers };
            up.send(message).await.expect("a stream that takes offers");
        }
        // And this side is closed, with thousands of answers still to come.
    };
    let read = async {
        let mut verdicts: BTreeMap<u64, String> = BTreeMap::new();
        while let Some(message) = down.message().await.expect("a stream without an error") {
            for result in message.results {
                let verdict = verdict(&result.result.expect("a result"));
                let again = verdicts.insert(result.correlation_id, verdict);
                assert_eq!(again, None, "{} was answered twice", result.correlation_id);
            }
        }
        verdicts
    };
    let ((), verdicts) = tokio::join!(send, read);

    assert_eq!(u64::try_from(verdicts.len()), Ok(OFFERS));
    for (id, verdict) in verdicts {
        let expected = match id % 1_000 {
            17 => "InvalidArgument key",
            18 => "AlreadyOutstanding",
            19 => "InvalidArgument submit",
            _ => "Created",
        };
        assert_eq!(verdict, expected, "of offer {id}");
    }
    let request = proto::GetQueueRequest { name: "q".into() };
    let queue = admin(&server)
        .await
        .get_queue(request)
        .await
        .expect("a queue");
    let stats = queue
        .into_inner()
        .queue
        .and_then(|q| q.stats)
        .expect("counts");
    assert_eq!(stats.outstanding, OFFERS / 1_000 * 997 + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_an_offer_ends_when_the_caller_is_done() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let mut down = client
        .submit_stream(tokio_stream::empty())
        .await
        .expect("a stream")
        .into_inner();
    let ended = tokio::time::timeout(SOON, down.message())
        .await
        .expect("an end");
    assert_eq!(ended.expect("a good end"), None);
}

/// One offer of a stream; a few in a thousand are bad, busy or empty.
fn stream_offer(id: u64) -> proto::SubmitOffer {
    let submit = match id % 1_000 {
        17 => Some(submit("q", "", "payload")),
        18 => Some(submit("q", "busy", "payload")),
        19 => None,
        _ => Some(submit("q", &format!("key-{id}"), "payload")),
    };
    proto::SubmitOffer {
        // The caller's choice: also one number for several offers, or the largest one.
        correlation_id: id,
        submit,
    }
}

// ---- later, and not too late ----

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_holds_its_key_and_is_served_at_its_time_as_attempt_1() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 10)).await;
    let (wait, submitted) = (Duration::from_secs(2), Instant::now());
    let (outcome, first) = offer(&mut client, delayed(submit("q", "delay", "payload"), wait)).await;
    assert_eq!(
        (outcome, first.state()),
        (SubmitOutcome::Created, JobState::Scheduled)
    );
    let at = proto::SubmitRequest {
        start: Some(Start::StartAt(from_now(wait))),
        ..submit("q", "start_at", "payload")
    };
    offer(&mut client, at).await;
    let past = proto::SubmitRequest {
        start: Some(Start::StartAt(prost_types::Timestamp {
            seconds: 1,
            nanos: 0,
        })),
        ..submit("q", "past", "payload")
    };
    let (_, past) = offer(&mut client, past).await;
    assert_eq!(past.state(), JobState::Queued);

    let at_once = session.delivery().await;
    assert_eq!(at_once.job.expect("a job").key, "past");
    for key in ["delay", "start_at"] {
        let (outcome, busy) = offer(&mut client, submit("q", key, "other")).await;
        assert_eq!(
            (outcome, busy.state()),
            (SubmitOutcome::AlreadyOutstanding, JobState::Scheduled)
        );
        assert!(
            job(&mut client, "q", key)
                .await
                .is_some_and(|j| j.start_at.is_some())
        );
    }
    let mut keys = HashSet::new();
    while keys.len() < 2 {
        for delivery in session.deliveries().await {
            let waited = submitted.elapsed();
            // Times are kept in whole milliseconds.
            assert!(
                waited + Duration::from_millis(2) >= wait,
                "{waited:?} is too early"
            );
            assert!(waited < wait + IN_TIME, "{waited:?} is too late");
            assert_eq!(delivery.attempt, 1);
            keys.insert(delivery.job.expect("a job").key);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_did_not_start_in_time_is_a_dead_letter_and_its_key_is_free() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    let expiring = |key: &str| proto::SubmitRequest {
        expires_at: Some(from_now(Duration::from_secs(1))),
        ..submit("q", key, "payload")
    };
    // Nobody serves the queue until the time is over.
    for key in ["seen-by-a-submit", "seen-by-a-look", "seen-by-a-worker"] {
        offer(&mut client, expiring(key)).await;
    }
    let too_late = proto::SubmitRequest {
        expires_at: Some(from_now(Duration::from_secs(1))),
        ..delayed(
            submit("q", "starts-too-late", "payload"),
            Duration::from_millis(1_500),
        )
    };
    offer(&mut client, too_late).await;
    eventually(SOON, "the job is too late to start", async || {
        job(&mut client, "q", "seen-by-a-look").await.is_none()
    })
    .await;
    create(&mut client, "q", "seen-by-a-submit").await;

    let leased = pull(&mut client, "q", SOON).await.expect("the new job");
    assert_eq!(leased.job.expect("a job").key, "seen-by-a-submit");
    assert_eq!(pull(&mut client, "q", Duration::from_secs(2)).await, None);
    let letters = eventually_some(SOON, "all four are dead letters", async || {
        Some(dead(&mut client, "q").await).filter(|letters| letters.len() == 4)
    })
    .await;
    assert!(letters.iter().all(|l| l.reason() == DeadReason::Expired));
    create(&mut client, "q", "seen-by-a-worker").await;
    create(&mut client, "q", "starts-too-late").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_started_does_not_expire() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    let expires = Instant::now() + Duration::from_secs(1);
    let expiring = proto::SubmitRequest {
        expires_at: Some(from_now(Duration::from_secs(1))),
        ..submit("q", "foo", "payload")
    };
    offer(&mut client, expiring).await;
    let mut leased = pull(&mut client, "q", SOON).await.expect("the job");
    while Instant::now() < expires + Duration::from_secs(1) {
        let extended = beat(&mut client, &leased.lease_token).await;
        assert!(extended.time_left.is_some(), "{extended:?}");
        leased.lease_token = extended.lease_token;
        let (outcome, _) = offer(&mut client, submit("q", "foo", "other")).await;
        assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
        assert!(job(&mut client, "q", "foo").await.is_some());
        sleep(Duration::from_millis(200)).await;
    }
    // Nor does its next attempt.
    let settled = ack(&mut client, &leased.lease_token, retry()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    let again = pull(&mut client, "q", SOON).await.expect("the job");
    assert_eq!(again.attempt, 2);
    let settled = ack(&mut client, &again.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    assert_eq!(dead(&mut client, "q").await, []);
}

// ---- the stream is a contract too ----

#[tokio::test(flavor = "multi_thread")]
async fn a_job_published_to_the_stream_is_served_with_defaults() {
    let (nats, server) = one_server().await;
    let mut client = client(&server).await;
    make_queue(&server, "reconcile", proto::QueueConfig::default()).await;
    let plain = async_nats::jetstream::new(nats.connect().await);
    let stored = plain
        .publish("work.reconcile.foo-123", "by hand".into())
        .await;
    stored.expect("a publish").await.expect("a publish ack");

    let seen = job(&mut client, "reconcile", "foo-123")
        .await
        .expect("the job");
    let (outcome, busy) = offer(&mut client, submit("reconcile", "foo-123", "other")).await;
    assert_eq!(
        (outcome, &busy.id),
        (SubmitOutcome::AlreadyOutstanding, &seen.id)
    );
    let mut session = Session::open(&mut client, hello("worker", "reconcile", 1)).await;
    let delivery = session.delivery().await;
    let served = delivery.job.expect("a job");
    assert_eq!(
        (&*served.key, &*served.payload),
        ("foo-123", &b"by hand"[..])
    );
    assert_eq!((delivery.attempt, served.max_attempts), (1, 10));
    assert_eq!(served.id, seen.id);
    assert!(served.submitted_at.is_some());

    // It is retried like any other, as the same job.
    let settled = session
        .settle(&delivery.lease_token, retry_after(Duration::ZERO))
        .await;
    assert_eq!(settled, SettlementOutcome::Settled);
    let again = session.delivery().await;
    assert_eq!(
        (again.attempt, &again.job.expect("a job").id),
        (2, &seen.id)
    );
    let busy = plain
        .publish("work.reconcile.foo-123", "by hand".into())
        .await;
    busy.expect("a publish").await.expect_err("the key is busy");
    let settled = session.settle(&again.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    create(&mut client, "reconcile", "foo-123").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_9_what_cannot_be_read_becomes_a_dead_letter_and_stalls_nobody() {
    let (nats, server) = one_server().await;
    let mut client = client(&server).await;
    make_queue(&server, "q", proto::QueueConfig::default()).await;
    let plain = async_nats::jetstream::new(nats.connect().await);
    let long = format!("work.q.{}", "k".repeat(600));
    // Close to what NATS takes in one line: with a reply or a longer prefix it would be beyond.
    let longest = format!("work.q.{}", "k".repeat(3_900));
    let unreadable = [
        "work.q.%zz",
        "work.q.%c3%bc",
        "work.q.ü",
        "work.q.%61",
        "work.q.a=b",
        &long,
        &longest,
    ];
    for subject in unreadable {
        let stored = plain.publish(subject.to_owned(), "odd".into()).await;
        stored.expect("a publish").await.expect("a publish ack");
    }
    let mut headers = async_nats::HeaderMap::new();
    for name in [
        "Attempt",
        "Max-Attempts",
        "Backoff",
        "Not-Before",
        "Expires-At",
        "Attributes",
        "Id",
        "Mark",
        "From",
    ] {
        headers.insert(format!("Keywork-{name}"), "nonsense");
    }
    let stored = plain
        .publish_with_headers("work.q.headers", headers, "odd".into())
        .await;
    stored.expect("a publish").await.expect("a publish ack");
    create(&mut client, "q", "fine").await;

    let mut session = Session::open(&mut client, hello("worker", "q", 10)).await;
    let mut keys = HashSet::new();
    while keys.len() < 2 {
        for delivery in session.deliveries().await {
            assert_eq!(delivery.attempt, 1);
            keys.insert(delivery.job.expect("a job").key);
            let settled = session.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
        }
    }
    assert_eq!(keys, ["fine".to_owned(), "headers".to_owned()].into());
    let letters = eventually_some(SOON, "the unreadable ones are dead letters", async || {
        Some(dead(&mut client, "q").await).filter(|letters| letters.len() == unreadable.len())
    })
    .await;
    for letter in &letters {
        assert_eq!(letter.reason(), DeadReason::Unreadable);
        assert_eq!(letter.job.as_ref().expect("a job").payload, "odd");
    }
    let request = proto::GetQueueRequest { name: "q".into() };
    let queue = admin(&server)
        .await
        .get_queue(request)
        .await
        .expect("a queue");
    let stats = queue
        .into_inner()
        .queue
        .and_then(|q| q.stats)
        .expect("counts");
    assert_eq!(stats.outstanding, 0, "{stats:?}");
}

// ---- queues ----

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_listed_by_name_page_by_page() {
    let (_nats, server) = one_server().await;
    let mut admin = admin(&server).await;
    for name in ["c", "a", "b-1", "b_2", "0"] {
        make_queue(&server, name, proto::QueueConfig::default()).await;
    }
    let (mut names, mut page_token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let request = proto::ListQueuesRequest {
            page_size: 2,
            page_token,
        };
        let page = admin
            .list_queues(request)
            .await
            .expect("a page")
            .into_inner();
        assert!(page.queues.len() <= 2);
        names.extend(page.queues.into_iter().map(|queue| queue.name));
        pages += 1;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(
        (names, pages),
        (["0", "a", "b-1", "b_2", "c"].map(String::from).to_vec(), 3)
    );
    let request = proto::ListQueuesRequest {
        page_size: 1_001,
        ..Default::default()
    };
    let refused = admin.list_queues(request).await;
    assert_violates(&refused.expect_err("too large a page"), &["page_size"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_changes_what_its_mask_names_and_nothing_else() {
    let (nats, server) = one_server().await;
    let other = server_on(&nats.url()).await;
    let mut admin = admin(&server).await;
    let made = proto::QueueConfig {
        max_attempts: Some(7),
        max_depth: Some(50),
        ..short_lease()
    };
    make_queue(&server, "q", made).await;
    let update = |config: proto::QueueConfig, paths: &[&str]| proto::UpdateQueueRequest {
        name: "q".into(),
        config: Some(config),
        update_mask: Some(prost_types::FieldMask {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        }),
    };
    let new = proto::QueueConfig {
        max_attempts: Some(3),
        max_depth: Some(1),
        max_payload_bytes: Some(10),
        ..Default::default()
    };
    let queue = admin
        .update_queue(update(new, &["max_attempts", "max_payload_bytes"]))
        .await;
    let config = queue
        .expect("a change")
        .into_inner()
        .queue
        .and_then(|q| q.config)
        .expect("a configuration");
    assert_eq!(
        (
            config.max_attempts,
            config.max_depth,
            config.max_payload_bytes
        ),
        (Some(3), Some(50), Some(10))
    );
    assert_eq!(config.lease_duration, short_lease().lease_duration);

    // It holds at once here, and soon at the other server.
    let mut here = client(&server).await;
    let refused = here.submit(submit("q", "foo", "eleven bytes")).await;
    assert_violates(&refused.expect_err("too large"), &["payload"]);
    let mut there = client(&other).await;
    create(&mut there, "q", "warm-up").await;
    eventually(SOON, "the other server knows the new limit", async || {
        let key = format!("key-{}", rand::random::<u32>());
        there
            .submit(submit("q", &key, "eleven bytes"))
            .await
            .is_err()
    })
    .await;

    for (paths, field) in [
        (&[][..], "update_mask"),
        (&["no_such_field"], "update_mask"),
        (&["max_attempts"], "config.max_attempts"),
    ] {
        let bad = proto::QueueConfig {
            max_attempts: Some(0),
            ..Default::default()
        };
        let refused = admin.update_queue(update(bad, paths)).await;
        assert_violates(&refused.expect_err("a bad update"), &[field]);
    }
    let unknown = proto::UpdateQueueRequest {
        name: "unknown".into(),
        ..update(proto::QueueConfig::default(), &["max_attempts"])
    };
    let status = admin
        .update_queue(unknown)
        .await
        .expect_err("no such queue");
    assert_eq!(status.code(), Code::NotFound);
    assert_reason(&status, "QUEUE_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_wrong_with_a_configuration_is_said_at_once() {
    let (_nats, server) = one_server().await;
    let mut admin = admin(&server).await;
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let bad = proto::QueueConfig {
        lease_duration: seconds(1),
        max_run_time: seconds(-1),
        max_attempts: Some(1_001),
        backoff: Some(proto::Backoff {
            initial: seconds(10),
            max: seconds(5),
        }),
        max_depth: Some(1_000_000_001),
        max_payload_bytes: Some(u32::MAX),
        disconnect_grace: seconds(0),
        dead_letter_retention: seconds(59),
        dedupe_window: seconds(86_401),
    };
    let fields = [
        "config.lease_duration",
        "config.max_run_time",
        "config.max_attempts",
        "config.backoff.max",
        "config.max_depth",
        "config.max_payload_bytes",
        "config.disconnect_grace",
        "config.dead_letter_retention",
        "config.dedupe_window",
    ];
    let request = proto::CreateQueueRequest {
        name: "q".into(),
        config: Some(bad),
    };
    let refused = admin.create_queue(request).await;
    assert_violates(&refused.expect_err("all of it"), &fields);

    make_queue(&server, "q", proto::QueueConfig::default()).await;
    let paths = fields
        .iter()
        .filter_map(|f| f.split('.').nth(1))
        .map(String::from)
        .collect();
    let request = proto::UpdateQueueRequest {
        name: "q".into(),
        config: Some(bad),
        update_mask: Some(prost_types::FieldMask { paths }),
    };
    let refused = admin.update_queue(request).await;
    assert_violates(&refused.expect_err("all of it"), &fields);
    // Nothing of it was taken.
    make_queue(&server, "q", proto::QueueConfig::default()).await;
    let request = proto::CreateQueueRequest {
        name: "q".into(),
        config: Some(short_lease()),
    };
    let status = admin.create_queue(request).await.expect_err("another one");
    assert_eq!(status.code(), Code::AlreadyExists);
    assert_reason(&status, "QUEUE_EXISTS");
}

// ---- NATS is away ----

#[tokio::test(flavor = "multi_thread")]
async fn law_8_with_nats_gone_nothing_happened_and_it_works_again_by_itself() {
    let (nats, server) = one_server().await;
    // What may have been leased before NATS was killed is left alone for two waits of its.
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    create(&mut client, "q", "before").await;
    nats.kill();
    eventually(SOON, "the server has noticed", async || {
        let status = client.submit(submit("q", "during", "payload")).await;
        status.is_err_and(|status| side_effects(&status) == "none")
    })
    .await;
    // Calls on what is open and on what is not.
    for queue in ["q", "not-open"] {
        let began = Instant::now();
        let refused = client.submit(submit(queue, "during", "payload")).await;
        let status = refused.expect_err("NATS is away");
        assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
        assert_eq!(
            (status.code(), side_effects(&status)),
            (Code::Unavailable, "none")
        );
        assert_reason(&status, "NATS_UNAVAILABLE");
        assert!(status.get_details_retry_info().is_some());
    }
    let request = proto::SubmitBatchRequest {
        items: vec![submit("q", "during", "payload"), submit("q", "", "payload")],
    };
    let results = client
        .submit_batch(request)
        .await
        .expect("verdicts")
        .into_inner()
        .results;
    let verdicts: Vec<_> = results.iter().map(verdict).collect();
    assert_eq!(verdicts, ["Unavailable ", "InvalidArgument key"]);
    let first = match &results[0].result {
        Some(Wire::Error(error)) => error.clone(),
        other => panic!("no error: {other:?}"),
    };
    assert!(!first.side_effects_unknown && first.retry_after.is_some());

    flat_memory(&server, Duration::from_secs(8)).await;

    nats.restart().await;
    eventually(SOON, "it works again", async || {
        client.submit(submit("q", "after", "payload")).await.is_ok()
    })
    .await;
    // What was said not to have happened has not.
    assert_eq!(job(&mut client, "q", "during").await, None);
    assert!(job(&mut client, "q", "before").await.is_some());
    assert!(pull(&mut client, "q", SOON).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn law_8_with_nats_silent_it_is_unknown_what_happened_and_a_retry_finds_out() {
    let (nats, server) = one_server().await;
    let mut client = client(&server).await;
    create(&mut client, "q", "before").await;
    nats.pause();
    let began = Instant::now();
    let unknown = with_id(submit("q", "during", "payload"), 1);
    let refused = client.submit(unknown.clone()).await;
    let status = refused.expect_err("NATS is silent");
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    assert_eq!(
        (status.code(), side_effects(&status)),
        (Code::Unavailable, "unknown")
    );
    assert_reason(&status, "NATS_NO_ANSWER");

    flat_memory(&server, Duration::from_secs(12)).await;

    nats.resume();
    let (outcome, job) = eventually_some(SOON, "the retry has an answer", async || {
        let response = client.submit(unknown.clone()).await.ok()?.into_inner();
        Some((response.outcome(), response.job.unwrap_or_default()))
    })
    .await;
    assert!(matches!(
        outcome,
        SubmitOutcome::Created | SubmitOutcome::Duplicate
    ));
    assert_eq!(job.id, unknown.request_id);
    let mut keys = HashSet::new();
    while !keys.contains("during") {
        let leased = pull(&mut client, "q", SOON)
            .await
            .expect("the job is served");
        keys.insert(leased.job.expect("a job").key);
    }
}

/// Submits as fast as it is answered, and sees to it that the server's memory does not grow.
async fn flat_memory(server: &KeyworkServer, time: Duration) {
    let until = Instant::now() + time;
    let client = client(server).await;
    let submits = (0..16).map(|n| {
        let mut client = client.clone();
        async move {
            let payload = Bytes::from(vec![7; 64 * 1024]);
            let mut answers = 0u64;
            while Instant::now() < until {
                let items = (0..8)
                    .map(|i| proto::SubmitRequest {
                        payload: payload.clone(),
                        ..submit("q", &format!("flood-{n}-{i}"), "")
                    })
                    .collect();
                let request = proto::SubmitBatchRequest { items };
                let results = client
                    .submit_batch(request)
                    .await
                    .expect("verdicts")
                    .into_inner()
                    .results;
                assert!(
                    results.iter().all(|r| verdict(r) == "Unavailable "),
                    "{results:?}"
                );
                answers += 8;
            }
            answers
        }
    });
    let measure = async {
        // What a server of many calls needs at all is there after a while.
        sleep(time / 4).await;
        let early = resident_kib(server);
        sleep(time / 2).await;
        (early, resident_kib(server))
    };
    let (answers, (early, late)) = tokio::join!(join_all(submits), measure);
    let answers: u64 = answers.iter().sum();
    assert!(
        answers >= 128,
        "too few submits to prove anything: {answers}"
    );
    assert!(
        late < early + 48 * 1024,
        "grew from {early} to {late} KiB over {answers} submits"
    );
}

fn resident_kib(server: &KeyworkServer) -> u64 {
    let pid = server.pid().expect("a server that runs");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process's status");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("its memory");
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number")
}

// ---- how requests and answers are written and read here ----

/// The same submit with a request id, made from a number.
fn with_id(request: proto::SubmitRequest, number: u32) -> proto::SubmitRequest {
    proto::SubmitRequest {
        request_id: format!("00000000-0000-4000-8000-{number:012}"),
        ..request
    }
}

/// The same submit with a delay.
fn delayed(request: proto::SubmitRequest, delay: Duration) -> proto::SubmitRequest {
    proto::SubmitRequest {
        start: Some(Start::Delay(wire(delay))),
        ..request
    }
}

/// A time on the wire, so long from now. Client and server have one clock here.
fn from_now(delay: Duration) -> prost_types::Timestamp {
    let at = keywork_now() + delay;
    prost_types::Timestamp {
        seconds: i64::try_from(at.as_secs()).expect("a time"),
        nanos: i32::try_from(at.subsec_nanos()).expect("nanoseconds"),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a caller of the service reads its own clock"
)]
fn keywork_now() -> Duration {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a time after 1970")
}

fn many_attributes(count: usize) -> BTreeMap<String, String> {
    (0..count)
        .map(|n| (format!("name-{n}"), String::new()))
        .collect()
}

/// Leases the job of a submit and compares it with that; and completes it.
async fn assert_comes_through(client: &mut Client, submitted: &proto::SubmitRequest) {
    let leased = pull(client, &submitted.queue, SOON).await.expect("the job");
    let job = leased.job.expect("a job");
    assert_eq!(job.key, submitted.key);
    assert!(job.payload == submitted.payload, "the payload changed");
    assert_eq!(job.attributes, submitted.attributes);
    assert_eq!(job.content_type, submitted.content_type);
    let settled = ack(client, &leased.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
}

/// A result in short: its outcome, or its code with the field at fault.
fn verdict(result: &proto::SubmitResult) -> String {
    match &result.result {
        Some(Wire::Response(response)) => format!("{:?}", response.outcome()),
        Some(Wire::Error(error)) => format!("{:?} {}", Code::from_i32(error.code), error.field),
        None => "nothing".into(),
    }
}

fn side_effects(status: &Status) -> &str {
    let entry = status.metadata().get("side_effects");
    entry
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn assert_reason(status: &Status, reason: &str) {
    let info = status.get_details_error_info().expect("an ErrorInfo");
    assert_eq!((&*info.reason, &*info.domain), (reason, "keywork.dev"));
}

/// It is an INVALID_ARGUMENT that names these fields.
fn assert_violates(status: &Status, fields: &[&str]) {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert_reason(status, "INVALID_FIELD");
    let details = status.get_details_bad_request().expect("a BadRequest");
    // In any order.
    let named = details
        .field_violations
        .iter()
        .map(|v| &*v.field)
        .collect::<BTreeSet<_>>();
    assert_eq!(named, fields.iter().copied().collect(), "{status:?}");
    assert_eq!(details.field_violations.len(), fields.len(), "{status:?}");
}
