//! Streams: they live through what happens behind the server, end when they must, and harm no other.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

pub(crate) mod relay;

use std::{fs, time::Duration};

use async_nats::jetstream;
use bytes::Bytes;
use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use keywork::proto::{
    self, GoAwayReason, SettlementOutcome, lease_request::Message as Up,
    lease_response::Message as Down,
};
use keywork_sdk::worker::WorkerError;
use keywork_testkit::{KeyworkServer, NatsCluster, NatsServer, eventually, eventually_some};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::support::{
    Client, Runs, SHORT_LEASE, SOON, Session, Working, channel, client, cluster_with_two_servers,
    complete, create, fail, field, hello, job, make_queue, one_server, pull, reason, release, sdk,
    server_on, settlement, short_lease, submit, wire,
};
use relay::Relay;

fn lasting(lease: Duration) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(lease)),
        ..proto::QueueConfig::default()
    }
}

/// Reads a session to its end.
async fn end_of(session: &mut Session) -> Option<Status> {
    loop {
        match session.next().await {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(status) => return Some(status),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_reconnects_when_its_stream_ends_as_if_all_were_well() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "ends", lasting(Duration::from_secs(6))).await;
    let (relay, runs) = (Relay::start(&server).await, Runs::default());
    let endpoint = relay.endpoint();
    let time = Duration::from_secs(3);
    let mut worker = Working::start(sdk([&*endpoint]), "ends", "w", 2, &runs, time);
    let mut client = client(&server).await;
    create(&mut client, "ends", "before").await;
    eventually(SOON, "the job runs", async || runs.count() == 1).await;
    for sessions in 2..4 {
        relay.end_streams();
        worker.sessions(sessions).await;
    }
    create(&mut client, "ends", "after").await;
    eventually(SOON, "both jobs have ended", async || {
        worker.worker.counts().settled == 2
    })
    .await;
    runs.assert_each_ran_once(["before".to_owned(), "after".to_owned()]);
    worker.drain().await.expect("a clean end");
}

/// The node that leads a queue's consumer, as any other one says.
async fn leader_of_consumer(cluster: &NatsCluster, queue: &str) -> String {
    let context = jetstream::new(cluster.connect().await);
    eventually_some(SOON, "the consumer has a leader", async || {
        let stream = context.get_stream(format!("WORK_{queue}")).await.ok()?;
        let mut consumer: jetstream::consumer::PullConsumer =
            stream.get_consumer("workers").await.ok()?;
        let info = consumer.info().await.ok()?;
        info.cluster.as_ref()?.leader.clone()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_go_on_when_the_node_that_leads_the_consumer_restarts() {
    const JOBS: usize = 1_500;
    let (cluster, a, b) = cluster_with_two_servers().await;
    let mut client = client(&a).await;
    let keys: Vec<String> = (0..JOBS).map(|n| format!("k{n}")).collect();
    for chunk in keys.chunks(500) {
        let items = chunk.iter().map(|key| submit("moving", key, "x")).collect();
        let request = proto::SubmitBatchRequest { items };
        let answer = client.submit_batch(request).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error:?}: {}", a.output()));
        for result in answer.into_inner().results {
            assert!(
                matches!(
                    result.result,
                    Some(proto::submit_result::Result::Response(_))
                ),
                "{result:?}"
            );
        }
    }
    let (runs, time) = (Runs::default(), Duration::from_millis(40));
    let (first, second) = (a.endpoint(), b.endpoint());
    let mut workers = [
        Working::start(sdk([&*first]), "moving", "a", 2, &runs, time),
        Working::start(sdk([&*second]), "moving", "b", 2, &runs, time),
    ];
    eventually(SOON, "jobs run", async || runs.count() > 100).await;
    let leader = cluster.node(&leader_of_consumer(&cluster, "moving").await);
    leader.kill();
    leader.restart().await;
    eventually(SOON * 6, "all jobs have ended", async || {
        let settled = workers.iter().map(|w| w.worker.counts().settled);
        settled.sum::<u64>() >= JOBS as u64
    })
    .await;
    runs.assert_each_ran_once(keys);
    let all = runs.all();
    let gaps = all.windows(2).map(|pair| pair[1].began - pair[0].began);
    let longest = gaps.max().unwrap_or_default();
    assert!(longest < Duration::from_secs(10), "nothing for {longest:?}");
    for worker in &mut workers {
        worker.drain().await.expect("a clean end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_sends_is_read_while_nats_is_silent() {
    const STALL: Duration = Duration::from_secs(5);
    let (nats, server) = one_server().await;
    make_queue(&server, "stall", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for n in 0..10 {
        create(&mut client, "stall", &format!("k{n}")).await;
    }
    let mut session = Session::open(&mut client, hello("w", "stall", 10)).await;
    let mut held: Vec<Bytes> = Vec::new();
    while held.len() < 10 {
        let more = session.deliveries().await;
        held.extend(more.into_iter().map(|d| d.lease_token));
    }
    nats.pause();
    let began = Instant::now();
    for n in 0..5_000_u64 {
        session
            .send(match n % 3 {
                0 => Up::Heartbeat(proto::LeaseHeartbeat {
                    sequence: n,
                    lease_tokens: held.clone(),
                }),
                1 => Up::Capacity(proto::Capacity {
                    capacity: 10 + u32::from(n % 2 == 0),
                }),
                _ => Up::Settlements(proto::Settlements {
                    settlements: vec![settlement(&Bytes::from_static(b"none"), complete())],
                }),
            })
            .await;
    }
    let took = began.elapsed();
    // Another stream of the same connection is answered meanwhile, too.
    let mut health = HealthClient::new(channel(&server.endpoint()).await);
    let check = timeout(STALL, health.check(HealthCheckRequest::default()));
    check.await.expect("in time").expect("an answer");
    tokio::time::sleep(STALL.saturating_sub(began.elapsed())).await;
    nats.resume();
    assert!(took < STALL, "the server stopped reading: it took {took:?}");

    assert!(
        session
            .beat(&held.iter().collect::<Vec<_>>())
            .await
            .is_empty()
    );
    for token in &held {
        let settled = eventually_some(SOON, "a settlement is confirmed", async || {
            let outcome = session.settle(token, complete()).await;
            (outcome != SettlementOutcome::TryAgain).then_some(outcome)
        })
        .await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_workers_of_one_name_the_newer_wins_and_the_older_stops() {
    let (nats, server) = one_server().await;
    let other = server_on(&nats.url()).await;
    let (first, second) = (server.endpoint(), other.endpoint());
    // At the same server, and at another one.
    for (queue, places) in [("here", [&first, &first]), ("there", [&first, &second])] {
        let (runs, time) = (Runs::default(), Duration::from_millis(10));
        let older_place = sdk([places[0].as_str()]);
        let newer_place = sdk([places[1].as_str()]);
        let mut older = Working::start(older_place, queue, queue, 1, &runs, time);
        older.ready().await;
        let mut newer = Working::start(newer_place, queue, queue, 1, &runs, time);
        newer.ready().await;
        let ended = older.ended().await;
        assert!(matches!(ended, Err(WorkerError::Superseded)), "{ended:?}");
        let mut client = client(&server).await;
        for n in 0..20 {
            create(&mut client, queue, &format!("k{n}")).await;
        }
        eventually(SOON, "the newer one runs all", async || {
            newer.worker.counts().settled == 20
        })
        .await;
        let sessions = (
            older.worker.counts().sessions,
            newer.worker.counts().sessions,
        );
        assert_eq!(sessions, (1, 1), "they took turns");
        newer.drain().await.expect("a clean end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superseded_session_is_told_and_ends_and_its_leases_go_back() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "told", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    create(&mut client, "told", "k").await;
    let mut older = Session::open(&mut client, hello("w", "told", 1)).await;
    let stale = older.delivery().await;
    let mut newer = Session::open(&mut client, hello("w", "told", 1)).await;
    let away = older
        .wait_for(|message| match message {
            Down::GoAway(away) => Some(away.reason()),
            _ => None,
        })
        .await;
    assert_eq!(away, GoAwayReason::Superseded);
    let status = end_of(&mut older).await.expect("an error");
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(reason(&status), "SESSION_SUPERSEDED");

    let fresh = newer.delivery().await;
    assert_eq!(fresh.attempt, 1);
    assert!(fresh.fencing_number > stale.fencing_number);
    let outcome = newer.settle(&stale.lease_token, complete()).await;
    assert_eq!(outcome, SettlementOutcome::LeaseLost);
    let outcome = newer.settle(&fresh.lease_token, complete()).await;
    assert_eq!(outcome, SettlementOutcome::Settled);
}

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

/// A session that is nothing but its stream, cheap enough for ten thousand.
async fn bare_session(
    mut client: Client,
    hello: proto::Hello,
) -> (
    tokio::sync::mpsc::Sender<proto::LeaseRequest>,
    Streaming<proto::LeaseResponse>,
) {
    let (up, rx) = tokio::sync::mpsc::channel(1);
    let first = proto::LeaseRequest {
        message: Some(Up::Hello(hello)),
    };
    up.send(first).await.expect("room");
    let opened = client.lease(ReceiverStream::new(rx)).await;
    let mut down = opened.expect("a stream").into_inner();
    let welcome = timeout(SOON * 3, down.message()).await;
    let welcome = welcome.expect("Welcome in time").expect("no error");
    assert!(welcome.is_some(), "no Welcome");
    (up, down)
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
    drop(session);
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

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_a_session_but_not_its_leases() {
    let (_nats, server) = one_server().await;
    let lease = Duration::from_secs(6);
    make_queue(&server, "silent", lasting(lease)).await;
    let mut client = client(&server).await;
    create(&mut client, "silent", "k").await;
    let mut session = Session::open(&mut client, hello("w", "silent", 1)).await;
    let began = Instant::now();
    let delivery = session.delivery().await;
    let status = end_of(&mut session).await.expect("an error");
    let took = began.elapsed();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(reason(&status), "SESSION_SILENT");
    assert!(took >= lease / 3 * 2, "ended after {took:?}");
    assert!(took < SOON, "ended after {took:?}");
    // Five of six seconds are over. The worker comes back and goes on.
    let back = proto::Hello {
        held_leases: vec![delivery.lease_token.clone()],
        session_ticket: session.welcome.session_ticket.clone(),
        ..hello("w", "silent", 1)
    };
    let mut session = Session::open(&mut client, back).await;
    assert_eq!(session.welcome.resumed.len(), 1, "{:?}", session.welcome);
    let settled = session.settle(&delivery.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_9_a_bad_message_ends_its_own_stream_and_no_other() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "bad", lasting(Duration::from_secs(60))).await;
    // Both over one connection.
    let mut client = client(&server).await;
    let mut good = Session::open(&mut client, hello("good", "bad", 1)).await;
    let many = vec![settlement(&Bytes::new(), complete()); 1_001];
    let too_many_tokens = vec![Bytes::new(); 100_001];
    let bad: Vec<(Option<Up>, &str)> = vec![
        (None, "message"),
        (Some(Up::Hello(hello("bad", "bad", 1))), "hello"),
        (
            Some(Up::Capacity(proto::Capacity { capacity: 100_001 })),
            "capacity",
        ),
        (
            Some(Up::Settlements(proto::Settlements {
                settlements: vec![],
            })),
            "settlements",
        ),
        (
            Some(Up::Settlements(proto::Settlements { settlements: many })),
            "settlements",
        ),
        (
            Some(Up::Heartbeat(proto::LeaseHeartbeat {
                sequence: 1,
                lease_tokens: too_many_tokens,
            })),
            "heartbeat.lease_tokens",
        ),
    ];
    for (message, field) in bad {
        let (up, mut down) = bare_session(client.clone(), hello("bad", "bad", 0)).await;
        up.send(proto::LeaseRequest { message })
            .await
            .expect("room");
        let status = timeout(SOON, down.message()).await.expect("in time");
        let status = status.expect_err("an error");
        assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status:?}");
        assert_eq!(self::field(&status), field);
    }
    create(&mut client, "bad", "k").await;
    let delivery = good.delivery().await;
    assert!(good.beat(&[&delivery.lease_token]).await.is_empty());
    let settled = good.settle(&delivery.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_delivered_after_a_drain_is_acknowledged() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "drain", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for n in 0..10 {
        create(&mut client, "drain", &format!("k{n}")).await;
    }
    let mut session = Session::open(&mut client, hello("w", "drain", 20)).await;
    let mut held = Vec::new();
    while held.len() < 10 {
        held.extend(session.deliveries().await);
    }
    session.send(Up::Drain(proto::Drain {})).await;
    session
        .wait_for(|message| matches!(message, Down::DrainAck(_)).then_some(()))
        .await;
    create(&mut client, "drain", "after").await;
    // Neither more room nor a new level changes that.
    session
        .send(Up::Capacity(proto::Capacity { capacity: 50 }))
        .await;
    let tokens: Vec<Bytes> = held.iter().map(|d| d.lease_token.clone()).collect();
    for token in &tokens[..5] {
        let settled = session.settle(token, complete()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
    let rest: Vec<&Bytes> = tokens[5..].iter().collect();
    assert!(session.beat(&rest).await.is_empty(), "heartbeats go on");
    assert!(session.nothing_for(Duration::from_secs(1)).await);
    for token in rest {
        session.settle(token, release()).await;
    }
    assert!(session.nothing_for(Duration::from_millis(300)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_delivered_after_a_drain_that_comes_in_a_flood() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "flood", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for round in 0..20 {
        let worker = format!("w{round}");
        let items = (0..1_000)
            .map(|n| submit("flood", &format!("{round}-{n}"), "x"))
            .collect();
        let request = proto::SubmitBatchRequest { items };
        client.submit_batch(request).await.expect("an answer");
        let hello = hello(&worker, "flood", 5_000);
        let mut session = Session::open(&mut client, hello).await;
        session.deliveries().await;
        session.send(Up::Drain(proto::Drain {})).await;
        session
            .wait_for(|message| matches!(message, Down::DrainAck(_)).then_some(()))
            .await;
        // What came before the answer is no matter; what the server does on a heartbeat comes after it.
        session.deliveries_before_now();
        assert!(session.beat(&[]).await.is_empty());
        assert!(
            session.nothing_for(Duration::from_millis(50)).await,
            "a delivery after DrainAck, in round {round}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_settled_is_answered_before_a_stream_that_is_closed_ends() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "close", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for n in 0..100 {
        create(&mut client, "close", &format!("k{n}")).await;
    }
    let (up, mut down) = bare_session(client.clone(), hello("w", "close", 100)).await;
    let mut held = Vec::new();
    while held.len() < 100 {
        let next = timeout(SOON, down.message()).await.expect("in time");
        if let Some(Down::Deliveries(list)) = next.expect("no error").and_then(|r| r.message) {
            held.extend(list.deliveries);
        }
    }
    // It says how all of them ended, and closes its half at once.
    let settlements = held
        .iter()
        .zip([complete(), release()].into_iter().cycle())
        .map(|(d, outcome)| settlement(&d.lease_token, outcome))
        .collect();
    let message = Some(Up::Settlements(proto::Settlements { settlements }));
    up.send(proto::LeaseRequest { message })
        .await
        .expect("room");
    drop(up);
    let mut results = Vec::new();
    while let Some(response) = timeout(SOON, down.message())
        .await
        .expect("in time")
        .expect("an end without an error")
    {
        if let Some(Down::SettlementResults(list)) = response.message {
            results.extend(list.results);
        }
    }
    assert_eq!(results.len(), 100, "settlements without an answer");
    assert!(
        results
            .iter()
            .all(|r| r.outcome() == SettlementOutcome::Settled)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_when_nats_is_away_and_when_it_is_back() {
    let (nats, server) = one_server().await;
    let channel = channel(&server.endpoint()).await;
    let mut watches = Vec::new();
    for service in ["", "keywork.v1.WorkQueue", "keywork.v1.QueueAdmin"] {
        let request = HealthCheckRequest {
            service: service.into(),
        };
        let mut health = HealthClient::new(channel.clone());
        let watch = health.watch(request).await.expect("a watch").into_inner();
        watches.push((service, watch));
    }
    for watch in &mut watches {
        until_status(watch, ServingStatus::Serving).await;
    }
    nats.kill();
    for watch in &mut watches {
        until_status(watch, ServingStatus::NotServing).await;
    }
    let mut health = HealthClient::new(channel.clone());
    let seen = health.check(HealthCheckRequest::default()).await;
    let seen = seen.expect("an answer").into_inner().status();
    assert_eq!(seen, ServingStatus::NotServing);
    nats.restart().await;
    for watch in &mut watches {
        until_status(watch, ServingStatus::Serving).await;
    }
}

async fn until_status(
    (service, watch): &mut (&str, Streaming<tonic_health::pb::HealthCheckResponse>),
    wanted: ServingStatus,
) {
    loop {
        let next = timeout(SOON, watch.message()).await;
        let next = next.unwrap_or_else(|_| panic!("{service:?} never turned {wanted:?}"));
        let next = next.expect("no error").expect("a watch that goes on");
        if next.status() == wanted {
            return;
        }
    }
}

const SERVICES: [&str; 4] = [
    "grpc.health.v1.Health",
    "keywork.v1.QueueAdmin",
    "keywork.v1.Schedules",
    "keywork.v1.WorkQueue",
];

#[tokio::test(flavor = "multi_thread")]
async fn reflection_lists_the_services_in_both_versions() {
    let (_nats, server) = one_server().await;
    let channel = channel(&server.endpoint()).await;
    for listed in [
        listed_v1(channel.clone()).await,
        listed_v1alpha(channel).await,
    ] {
        for service in SERVICES {
            assert!(listed.iter().any(|name| name == service), "{listed:?}");
        }
    }
}

async fn listed_v1(channel: Channel) -> Vec<String> {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let requests = tokio_stream::iter([request]);
    let mut client = ServerReflectionClient::new(channel);
    let answers = client.server_reflection_info(requests).await;
    let answer = answers.expect("a stream").into_inner().message().await;
    match answer.expect("no error").and_then(|a| a.message_response) {
        Some(MessageResponse::ListServicesResponse(list)) => {
            list.service.into_iter().map(|s| s.name).collect()
        }
        other => panic!("no list: {other:?}"),
    }
}

async fn listed_v1alpha(channel: Channel) -> Vec<String> {
    use tonic_reflection::pb::v1alpha::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let requests = tokio_stream::iter([request]);
    let mut client = ServerReflectionClient::new(channel);
    let answers = client.server_reflection_info(requests).await;
    let answer = answers.expect("a stream").into_inner().message().await;
    match answer.expect("no error").and_then(|a| a.message_response) {
        Some(MessageResponse::ListServicesResponse(list)) => {
            list.service.into_iter().map(|s| s.name).collect()
        }
        other => panic!("no list: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_disconnect_grace_is_told_of_it_and_loses_its_job_after_it() {
    let (_nats, server) = one_server().await;
    let grace = Duration::from_millis(500);
    let config = proto::QueueConfig {
        lease_duration: Some(wire(Duration::from_secs(60))),
        disconnect_grace: Some(wire(grace)),
        ..short_lease()
    };
    make_queue(&server, "grace", config).await;
    let mut client = client(&server).await;
    create(&mut client, "grace", "k").await;
    let mut session = Session::open(&mut client, hello("w", "grace", 1)).await;
    let told = session.welcome.queues[0].disconnect_grace;
    assert_eq!(told, Some(wire(grace)));
    session.delivery().await;
    let mut other = Session::open(&mut client, hello("other", "grace", 1)).await;
    let began = Instant::now();
    session.close();
    let delivery = other.delivery().await;
    assert_eq!(delivery.attempt, 2, "its attempt is over");
    let took = began.elapsed();
    assert!(took >= grace, "after {took:?}");
    assert!(took < SHORT_LEASE + SOON, "after {took:?}");
}
