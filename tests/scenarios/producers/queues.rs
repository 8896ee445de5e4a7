//! Listing, changing and checking queues.

use super::*;

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
    assert!(status.message().contains("lease_duration"), "{status:?}");
    assert!(!status.message().contains("max_depth"), "{status:?}");
}
