//! Hello, and what can be done by hand.

use super::*;

/// The end of a stream that begins with `first`; `None`: with nothing at all.
async fn refusal(client: &mut Client, first: Vec<Up>) -> Status {
    let (up, rx) = tokio::sync::mpsc::channel(8);
    for message in first {
        let request = proto::LeaseRequest {
            message: Some(message),
        };
        up.send(request).await.expect("room");
    }
    let stream = tokio_stream::wrappers::ReceiverStream::new(rx);
    let mut down = match client.lease(stream).await {
        Ok(response) => response.into_inner(),
        Err(status) => return status,
    };
    loop {
        match timeout(SOON, down.message()).await.expect("an end in time") {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended as if all were well"),
            Err(status) => return status,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hello_comes_first_and_once_and_soon() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let capacity = Up::Capacity(proto::Capacity { capacity: 1 });
    let not_first = refusal(&mut client, vec![capacity]).await;
    assert_eq!(not_first.code(), Code::InvalidArgument);
    assert_eq!(reason(&not_first), "HELLO_MISSING");

    let began = Instant::now();
    let mut silent = client.clone();
    let (never, headers) = tokio::join!(refusal(&mut silent, Vec::new()), async {
        // The server answers headers at once: it does not wait for Hello.
        let (_up, rx) = tokio::sync::mpsc::channel::<proto::LeaseRequest>(1);
        let stream = tokio_stream::wrappers::ReceiverStream::new(rx);
        let mut client = client.clone();
        let opened = timeout(Duration::from_secs(5), client.lease(stream)).await;
        opened.expect("headers before Hello").is_ok()
    });
    assert!(headers);
    assert_eq!(never.code(), Code::Unavailable);
    assert_eq!(reason(&never), "HELLO_LATE");
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(10), "refused after {took:?}");

    let first = || Up::Hello(hello("w", "hello", 1));
    let twice = refusal(&mut client, vec![first(), first()]).await;
    assert_eq!(twice.code(), Code::InvalidArgument);
    assert_eq!(
        (&*reason(&twice), &*field(&twice)),
        ("INVALID_FIELD", "hello")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_hello_is_named() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let good = || hello("w", "named", 1);
    let queue = |queue: &str, weight| proto::QueueSubscription {
        queue: queue.into(),
        weight,
    };
    let with = |queues| proto::Hello { queues, ..good() };
    let many = (0..65).map(|n| queue(&format!("q{n}"), 1)).collect();
    let wrong: Vec<(proto::Hello, &str)> = vec![
        (with(vec![]), "queues"),
        (with(many), "queues"),
        (with(vec![queue("a", 1), queue("a", 2)]), "queues[1].queue"),
        (with(vec![queue("Not A Name", 1)]), "queues[0].queue"),
        (with(vec![queue("a", 101)]), "queues[0].weight"),
        (hello("w", "named", 100_001), "capacity"),
        (hello(&"w".repeat(257), "named", 1), "worker_id"),
        (
            proto::Hello {
                protocol_version: 2,
                ..good()
            },
            "protocol_version",
        ),
        (
            proto::Hello {
                sdk_name: "s".repeat(65),
                ..good()
            },
            "sdk_name",
        ),
        (
            proto::Hello {
                sdk_version: "s".repeat(65),
                ..good()
            },
            "sdk_version",
        ),
    ];
    for (hello, named) in wrong {
        let status = refusal(&mut client, vec![Up::Hello(hello)]).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{named}: {status:?}");
        let found = field(&status);
        assert!(found.starts_with(named), "{found} instead of {named}");
    }
    let unknown = proto::Hello {
        held_leases: vec![Bytes::from_static(b"no token")],
        ..good()
    };
    let session = Session::open(&mut client, unknown).await;
    let lost = &session.welcome.lost;
    assert_eq!((lost.len(), lost[0].reason()), (1, LostReason::Invalid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_typed_by_hand_yields_a_job_that_a_unary_ack_settles_at_any_server() {
    let (nats, server) = one_server().await;
    let other = server_on(&nats.url()).await;
    let mut clients = [client(&server).await, client(&other).await];
    // Nothing but a queue and a capacity.
    let bare = proto::Hello {
        queues: vec![proto::QueueSubscription {
            queue: "hand".into(),
            weight: 0,
        }],
        capacity: 1,
        ..proto::Hello::default()
    };
    let mut session = Session::open(&mut clients[0], bare).await;
    assert!(!session.welcome.worker_id.is_empty());
    let term = unwire(session.welcome.queues[0].lease_duration.as_ref());
    assert_eq!(term, Duration::from_secs(15), "the default");
    for (n, at) in [0, 1, 0].into_iter().enumerate() {
        let key = format!("k{n}");
        create(&mut clients[0], "hand", &key).await;
        let delivery = session.delivery().await;
        assert_eq!((self::key(&delivery), delivery.attempt), (&*key, 1));
        let left = unwire(delivery.time_left.as_ref());
        assert!(
            left > Duration::ZERO && left <= term,
            "{left:?} of {term:?}"
        );
        let settled = ack(&mut clients[at], &delivery.lease_token, complete()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
        create(&mut clients[1 - at], "hand", &key).await;
        let again = session.delivery().await;
        let settled = session.settle(&again.lease_token, complete()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_hangs_up_on_a_pull_strands_nothing() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "hang-up", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for round in 0..20 {
        let mut callers = JoinSet::new();
        for _ in 0..8 {
            let mut caller = client.clone();
            callers.spawn(async move { pull(&mut caller, "hang-up", SOON).await });
        }
        // A pull that is answered before its caller hung up keeps its lease. These have no job to be
        // answered with, so all that matters is that the server has heard of each, and of its end.
        eventually(SOON, "the pulls are there", async || {
            sessions_of(&server, "hang-up").await == 8
        })
        .await;
        drop(callers);
        eventually(SOON, "the pulls are hung up on", async || {
            sessions_of(&server, "hang-up").await == 0
        })
        .await;
        create(&mut client, "hang-up", &format!("k{round}")).await;
        let delivery = pull(&mut client, "hang-up", SOON).await.expect("the job");
        assert_eq!(delivery.attempt, 1);
        ack(&mut client, &delivery.lease_token, complete()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_comes_down_as_it_went_up() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let payload: Vec<u8> = (0..=u8::MAX).cycle().take(300_000).collect();
    let request = proto::SubmitRequest {
        payload: payload.clone().into(),
        content_type: "application/octet-stream".into(),
        attributes: [("trace".into(), "ü".into())].into(),
        ..submit("bytes", "k", "")
    };
    client.submit(request).await.expect("an answer");
    let mut session = Session::open(&mut client, hello("w", "bytes", 1)).await;
    let first = session
        .wait_for(|message| match message {
            Down::Deliveries(list) => list.deliveries[0].job.clone(),
            _ => None,
        })
        .await;
    assert_eq!(first.payload, payload);
    assert_eq!(first.content_type, "application/octet-stream");
    assert_eq!(first.attributes["trace"], "ü");
}
