//! Many sessions, many tokens, much to read.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn law_9_a_bad_token_among_a_hundred_is_the_only_one_that_is_refused() {
    let (_nats, server) = one_server().await;
    let (_elsewhere, stranger) = one_server().await;
    let mut outside = client(&stranger).await;
    create(&mut outside, "hundred", "k").await;
    let foreign = pull(&mut outside, "hundred", SOON).await.expect("a job");

    let mut client = client(&server).await;
    for n in 0..198 {
        create(&mut client, "hundred", &format!("k{n}")).await;
    }
    let mut session = Session::open(&mut client, hello("w", "hundred", 198)).await;
    let mut held: Vec<Bytes> = Vec::new();
    while held.len() < 198 {
        let more = session.deliveries().await;
        held.extend(more.into_iter().map(|d| d.lease_token));
    }
    for (bad, good) in [Bytes::from_static(b"\xff nonsense"), foreign.lease_token]
        .into_iter()
        .zip(held.chunks(99))
    {
        let mut tokens = good.to_vec();
        tokens.insert(50, bad.clone());
        let lost = session.beat(&tokens.iter().collect::<Vec<_>>()).await;
        assert_eq!((lost.len(), &lost[0].lease_token), (1, &bad), "{lost:?}");
        let settlements = tokens.iter().map(|t| settlement(t, complete())).collect();
        session
            .send(Up::Settlements(proto::Settlements { settlements }))
            .await;
        let mut results = Vec::new();
        while results.len() < 100 {
            let more = session.wait_for(|message| match message {
                Down::SettlementResults(list) => Some(list.results.clone()),
                _ => None,
            });
            results.extend(more.await);
        }
        for result in results {
            let expected = if result.lease_token == bad {
                SettlementOutcome::InvalidLease
            } else {
                SettlementOutcome::Settled
            };
            assert_eq!(result.outcome(), expected);
        }
    }
    // The stream lives, and the stranger's job was not touched.
    assert!(session.beat(&[]).await.is_empty());
    assert!(job(&mut outside, "hundred", "k").await.is_some());
}

fn resident_megabytes(server: &KeyworkServer) -> u64 {
    let pid = server.pid().expect("a server that runs");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.expect("its size") / 1_024
}

#[tokio::test(flavor = "multi_thread")]
async fn of_ten_thousand_waiting_sessions_one_gets_the_job() {
    const SESSIONS: usize = 10_000;
    const CHANNELS: usize = 10;
    let (nats, server) = one_server().await;
    // A long lease, so that ten thousand sessions may be silent meanwhile.
    make_queue(&server, "crowd", lasting(Duration::from_secs(3_600))).await;
    let before = resident_megabytes(&server);
    let channels = join_all((0..CHANNELS).map(|_| client(&server))).await;
    let opened: Vec<_> = futures::stream::iter(0..SESSIONS)
        .map(|n| {
            bare_session(
                channels[n % CHANNELS].clone(),
                hello(&format!("w{n}"), "crowd", 1),
            )
        })
        .buffer_unordered(200)
        .collect()
        .await;
    assert_eq!(opened.len(), SESSIONS);
    let resident = resident_megabytes(&server);

    let (ups, downs): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    let mut waiting: FuturesUnordered<_> = downs
        .into_iter()
        .map(|mut down| async move { (down.message().await, down) })
        .collect();
    let mut producer = client(&server).await;
    create(&mut producer, "crowd", "k").await;
    let (first, _down) = timeout(SOON, waiting.next())
        .await
        .expect("a delivery in time")
        .expect("one of them");
    let message = first.expect("no error").and_then(|r| r.message);
    let Some(Down::Deliveries(list)) = message else {
        panic!("something else: {message:?}");
    };
    assert_eq!(list.deliveries.len(), 1);
    let more = timeout(Duration::from_secs(1), waiting.next()).await;
    assert!(more.is_err(), "another one was told something");

    // While sessions come, more is asked for; then it settles, whatever their number.
    let mut pulls = 0;
    eventually(SOON, "a handful of pulls wait at NATS", async || {
        pulls = waiting_pulls(&nats, "crowd").await;
        (1..=8).contains(&pulls)
    })
    .await;
    let figures = format!(
        "{pulls} pulls wait at NATS; the server has {resident} MB resident, {before} before"
    );
    // An optimised server takes less: this guards against growth out of proportion.
    assert!(resident - before < 700, "{figures}");
    eprintln!("{SESSIONS} sessions: {figures}");
    drop(ups);
}

async fn waiting_pulls(nats: &NatsServer, queue: &str) -> usize {
    let context = jetstream::new(nats.connect().await);
    let stream = context.get_stream(format!("WORK_{queue}")).await;
    let consumer = stream.expect("the stream").get_consumer("workers").await;
    let mut consumer: jetstream::consumer::PullConsumer = consumer.expect("the consumer");
    consumer.info().await.expect("its state").num_waiting
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_read_is_cut_off_and_its_leases_go_back() {
    let (_nats, server) = one_server().await;
    // The leases last a minute: what comes back sooner was given back.
    make_queue(&server, "unread", lasting(Duration::from_secs(60))).await;
    let mut direct = client(&server).await;
    let payload = "x".repeat(400_000);
    for n in 0..40 {
        let request = submit("unread", &format!("k{n}"), &payload);
        direct.submit(request).await.expect("an answer");
    }
    let mut apart = client(&server).await;
    let (up, rx) = tokio::sync::mpsc::channel(16);
    let first = proto::LeaseRequest {
        message: Some(Up::Hello(hello("deaf", "unread", 40))),
    };
    up.send(first).await.expect("room");
    let opened = apart.lease(ReceiverStream::new(rx)).await;
    let mut down = opened.expect("a stream").into_inner();

    // It goes on with its heartbeats, and reads nothing.
    let mut beating = JoinSet::new();
    beating.spawn(async move {
        for sequence in 1.. {
            let message = Some(Up::Heartbeat(proto::LeaseHeartbeat {
                sequence,
                lease_tokens: Vec::new(),
            }));
            if up.send(proto::LeaseRequest { message }).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    eventually(SOON, "it holds all the jobs", async || {
        let seen = job(&mut direct, "unread", "k39").await.expect("it");
        seen.holder == "deaf"
    })
    .await;
    let liveness = Duration::from_secs(50);
    let mut attempts = Vec::new();
    eventually(liveness + SOON, "its jobs go to others", async || {
        let others = pull(&mut direct, "unread", Duration::from_secs(1)).await;
        attempts.extend(others.map(|delivery| delivery.attempt));
        attempts.len() == 40
    })
    .await;
    assert_eq!(attempts, [1; 40], "it cost attempts");

    // It hears of it when it reads at last.
    let status = loop {
        match timeout(SOON, down.message()).await.expect("an end in time") {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended as if all were well"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(reason(&status), "SESSION_NOT_READING");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_jobs_come_in_messages_that_every_client_takes() {
    const SIZE: usize = 400_000;
    let (_nats, server) = one_server().await;
    make_queue(&server, "large", lasting(Duration::from_secs(60))).await;
    // Its messages are limited as gRPC's are by default: to 4 MiB.
    let mut client = client(&server).await;
    let payload = "x".repeat(SIZE);
    let offer = async |client: &mut Client| {
        for n in 0..30 {
            let request = submit("large", &format!("k{n}"), &payload);
            client.submit(request).await.expect("an answer");
        }
    };
    offer(&mut client).await;
    let mut session = Session::open(&mut client, hello("w", "large", 30)).await;
    let mut held = Vec::new();
    while held.len() < 30 {
        held.extend(session.deliveries().await);
    }
    for delivery in &held {
        session.settle(&delivery.lease_token, fail()).await;
    }
    session.close();
    // What were delivered to it now would stay leased.
    eventually(SOON, "the session has ended", async || {
        sessions_of(&server, "large").await == 0
    })
    .await;
    offer(&mut client).await;
    let mut pulled = 0;
    while pulled < 30 {
        let request = proto::PullRequest {
            queue: "large".into(),
            max_jobs: 30,
            wait: Some(wire(SOON)),
            ..Default::default()
        };
        let answer = client.pull(request).await.expect("an answer that fits");
        let deliveries = answer.into_inner().deliveries;
        assert!(!deliveries.is_empty(), "jobs that are not given back");
        assert!(deliveries.iter().all(|delivery| delivery.attempt == 1));
        pulled += deliveries.len();
    }
    let mut request = proto::ListDeadJobsRequest {
        queue: "large".into(),
        ..Default::default()
    };
    let mut listed = 0;
    loop {
        let page = client.list_dead_jobs(request.clone()).await;
        let page = page.expect("a page that fits").into_inner();
        listed += page.jobs.len();
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(listed, 30);
    // A redrive is no page: it goes on for as many as it was asked for. Here their keys are busy.
    let request = proto::RedriveDeadJobsRequest {
        queue: "large".into(),
        max_jobs: 30,
        ..Default::default()
    };
    let answer = client.redrive_dead_jobs(request).await.expect("an answer");
    assert_eq!(answer.into_inner().results.len(), 30);
}
