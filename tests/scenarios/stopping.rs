//! Stopping: of workers and of servers, alone and in turn, with everything that was under way.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

use std::{process::Stdio, time::Duration};

use keywork::proto::{
    self, JobState, SettlementOutcome, lease_request::Message as Up,
    lease_response::Message as Down,
};
use keywork_sdk::{Submit, SubmitOutcome as Outcome};
use keywork_testkit::{KeyworkServer, eventually};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::AsyncReadExt,
    net::TcpStream,
    process::{Child, Command},
    task::JoinSet,
    time::{Instant, timeout},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
};

use crate::support::{
    KEYWORK, Runs, SHORT_LEASE, SOON, Session, Working, channel, client, complete, create, hello,
    job, make_queue, one_server, sdk, server_on, short_lease, submit, wire,
};

fn lasting(lease: Duration) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(lease)),
        ..short_lease()
    }
}

/// A `keywork work` of its own process.
fn work(server: &KeyworkServer, queue: &str, script: &str) -> Child {
    Command::new(KEYWORK)
        .args(["work", queue, "--server", &server.endpoint()])
        .args(["--shutdown-grace", "60s", "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("keywork work starts")
}

fn terminate(child: &Child) {
    let pid = child.id().expect("a process that runs").cast_signed();
    kill(Pid::from_raw(pid), Signal::SIGTERM).expect("a signal");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_told_to_stop_keeps_its_lease_until_its_long_job_is_settled() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "drains", short_lease()).await;
    let mut client = client(&server).await;
    create(&mut client, "drains", "k").await;
    // What is leased and has not started would be given back.
    let started = server.dir().join("started");
    let script = format!("touch '{}'; sleep 12", started.display());
    let mut worker = work(&server, "drains", &script);
    eventually(SOON, "the job runs", async || started.exists()).await;
    let stopped_at = Instant::now();
    terminate(&worker);
    eventually(SOON * 2, "the job has ended", async || {
        let Some(seen) = job(&mut client, "drains", "k").await else {
            return true;
        };
        let now = (seen.state(), seen.attempt);
        assert_eq!(now, (JobState::Leased, 1), "it lost its lease");
        false
    })
    .await;
    assert!(stopped_at.elapsed() > SHORT_LEASE * 4, "it did not go on");
    let status = timeout(SOON, worker.wait()).await.expect("an end in time");
    assert!(status.expect("its status").success());
    // Free means free, also of leftovers.
    create(&mut client, "drains", "k").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_amid_deliveries_leaves_nothing_waiting_and_costs_no_attempt() {
    const JOBS: usize = 300;
    let (_nats, server) = one_server().await;
    // What waited out a lease would be a minute late.
    make_queue(&server, "amid", lasting(Duration::from_secs(60))).await;
    let (mut client, endpoint) = (client(&server).await, server.endpoint());
    let keys: Vec<String> = (0..JOBS).map(|n| format!("k{n}")).collect();
    let items = keys.iter().map(|key| submit("amid", key, "x")).collect();
    let request = proto::SubmitBatchRequest { items };
    client.submit_batch(request).await.expect("an answer");

    let (runs, time) = (Runs::default(), Duration::from_millis(40));
    let mut ran = 0;
    for n in 0..4 {
        let name = format!("stops-{n}");
        let mut worker = Working::start(sdk([&*endpoint]), "amid", &name, 16, &runs, time);
        eventually(SOON, "jobs run", async || runs.count() >= ran + 30).await;
        worker.drain().await.expect("a clean end");
        ran = runs.count();
        let counts = worker.worker.counts();
        assert_eq!(counts.leases_lost, 0, "{counts:?}");
    }
    let mut last = Working::start(sdk([&*endpoint]), "amid", "goes-on", 16, &runs, time);
    eventually(SOON, "all jobs have ended", async || {
        runs.count() == JOBS && last.worker.counts().settled > 0
    })
    .await;
    last.drain().await.expect("a clean end");
    runs.assert_each_ran_once(keys);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_while_a_worker_drains_is_settled_before_it_closes() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "flush", lasting(Duration::from_secs(60))).await;
    let (mut client, endpoint, runs) = (client(&server).await, server.endpoint(), Runs::default());
    let keys: Vec<String> = (0..50).map(|n| format!("k{n}")).collect();
    for key in &keys {
        create(&mut client, "flush", key).await;
    }
    let time = Duration::from_secs(1);
    let mut worker = Working::start(sdk([&*endpoint]), "flush", "w", 50, &runs, time);
    eventually(SOON, "all jobs run", async || runs.count() == 50).await;
    worker.drain().await.expect("a clean end");
    assert_eq!(worker.worker.counts().settled, 50);
    // Settled means free, from the moment that it has stopped.
    for key in &keys {
        create(&mut client, "flush", key).await;
    }
    runs.assert_each_ran_once(keys);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_session_settles_before_it_closes() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    create(&mut client, "settles", "k").await;
    let mut session = Session::open(&mut client, hello("w", "settles", 1)).await;
    let delivery = session.delivery().await;
    session.send(Up::Drain(proto::Drain {})).await;
    session
        .wait_for(|message| matches!(message, Down::DrainAck(_)).then_some(()))
        .await;
    let settled = session.settle(&delivery.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    session.close();
    create(&mut client, "settles", "k").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_told_to_stop_ends_within_its_grace_whatever_is_open() {
    const GRACE: Duration = Duration::from_secs(6);
    let (nats, other) = one_server().await;
    make_queue(&other, "moves", lasting(Duration::from_secs(15))).await;
    let builder = KeyworkServer::at(KEYWORK).nats(nats.url());
    let server = builder.arg("--stop-grace").arg("6s").start().await;

    // A health watch, a reflection stream, a silent connection, a pull, a session that says nothing, and
    // one that never began.
    let channel = channel(&server.endpoint()).await;
    let mut health = HealthClient::new(channel.clone());
    let watch = health.watch(HealthCheckRequest::default()).await;
    let mut watch = watch.expect("a watch").into_inner();
    let first = watch.message().await.expect("no error").expect("a status");
    assert_eq!(first.status(), ServingStatus::Serving);
    let mut reflection = ServerReflectionClient::new(channel.clone());
    let (asking, requests) = tokio::sync::mpsc::channel(1);
    let list = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    asking.send(list).await.expect("room");
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let answers = reflection.server_reflection_info(requests).await;
    let mut answers = answers.expect("a stream").into_inner();
    assert!(answers.message().await.expect("no error").is_some());
    let mut silent = TcpStream::connect(server.address())
        .await
        .expect("it accepts");
    let mut raw = client(&server).await;
    let mut session = Session::open(&mut raw, hello("raw", "moves", 0)).await;
    let (_up, never) = tokio::sync::mpsc::channel::<proto::LeaseRequest>(1);
    let never = tokio_stream::wrappers::ReceiverStream::new(never);
    let began_not = raw.lease(never).await.expect("headers");
    let mut puller = raw.clone();
    let pulling = async move {
        let request = proto::PullRequest {
            queue: "empty".into(),
            wait: Some(wire(Duration::from_secs(60))),
            ..Default::default()
        };
        puller.pull(request).await
    };
    let mut pulls = JoinSet::new();
    pulls.spawn(pulling);

    // Workers that know the stopping server and another one, and run through all of it.
    let (runs, time) = (Runs::default(), Duration::from_millis(1_500));
    let places = [server.endpoint(), other.endpoint()];
    let mut workers: Vec<Working> = (0..6)
        .map(|n| {
            let places = sdk(places.iter().map(String::as_str));
            Working::start(places, "moves", &format!("w{n}"), 4, &runs, time)
        })
        .collect();
    let mut producer = client(&other).await;
    let keys: Vec<String> = (0..96).map(|n| format!("k{n}")).collect();
    let items = keys.iter().map(|key| submit("moves", key, "x")).collect();
    let request = proto::SubmitBatchRequest { items };
    producer.submit_batch(request).await.expect("an answer");
    eventually(SOON, "jobs run", async || runs.count() >= 24).await;

    let began = Instant::now();
    server.begin_to_terminate();
    let away = session
        .wait_for(|message| match message {
            Down::GoAway(away) => Some(*away),
            _ => None,
        })
        .await;
    assert_eq!(away.reason(), proto::GoAwayReason::Draining);
    eventually(SOON, "the server ends", async || server.ended().is_some()).await;
    let took = began.elapsed();
    // Its tasks have two seconds of their own, and the machine is busy.
    assert!(took < GRACE + Duration::from_secs(5), "after {took:?}");
    let output = server.output();
    assert!(output.contains("stopped"), "{output}");
    let mut said = Vec::new();
    let end = timeout(SOON, silent.read_to_end(&mut said)).await;
    assert!(end.is_ok(), "the silent connection is left open");
    drop(began_not);

    eventually(SOON * 2, "all jobs have ended", async || {
        let settled = workers.iter().map(|w| w.worker.counts().settled);
        settled.sum::<u64>() >= 96
    })
    .await;
    runs.assert_each_ran_once(keys);
    for worker in &mut workers {
        assert_eq!(worker.endpoint(), other.endpoint());
        assert_eq!(worker.worker.counts().leases_lost, 0);
        worker.drain().await.expect("a clean end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_nothing_open_stops_at_once() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    create(&mut client, "idle", "k").await;
    let began = Instant::now();
    let status = server.terminate().await.expect("it ran");
    assert!(status.success(), "{status}");
    // Its grace is ten seconds.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "it took {took:?}");
    let output = server.output();
    assert!(output.contains("abandoned=0"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn law_5_rolling_restarts_under_load_lose_nothing_and_run_nothing_twice() {
    const RESTARTS: usize = 6;
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    make_queue(&a, "rolls", lasting(Duration::from_secs(15))).await;
    let places = [a.endpoint(), b.endpoint()];
    let both = || sdk(places.iter().map(String::as_str));
    let (runs, time) = (Runs::default(), Duration::from_millis(100));
    let mut workers: Vec<Working> = (0..4)
        .map(|n| Working::start(both(), "rolls", &format!("w{n}"), 8, &runs, time))
        .collect();

    let stop = tokio_util::sync::CancellationToken::new();
    let mut producers = JoinSet::new();
    for n in 0..4 {
        let (client, stop) = (both(), stop.clone());
        producers.spawn(async move {
            let mut accepted = Vec::new();
            while !stop.is_cancelled() {
                let key = format!("p{n}-{}", accepted.len());
                let outcome = client.submit(Submit::new("rolls", &*key)).await;
                match outcome.expect("an answer, from one server or the other") {
                    Outcome::Created(_) => accepted.push(key),
                    other => panic!("{key} is new: {other:?}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            accepted
        });
    }
    for n in 0..RESTARTS {
        let before = runs.count();
        eventually(SOON, "jobs run", async || runs.count() > before + 50).await;
        let server = [&a, &b][n % 2];
        let status = server.terminate().await.expect("it ran");
        assert!(status.success(), "{status}");
        server.restart().await;
    }
    stop.cancel();
    let keys: Vec<String> = producers.join_all().await.into_iter().flatten().collect();
    eventually(SOON * 2, "all jobs have ended", async || {
        let settled = workers.iter().map(|w| w.worker.counts().settled);
        settled.sum::<u64>() >= keys.len() as u64
    })
    .await;
    for worker in &mut workers {
        worker.drain().await.expect("a clean end");
        let counts = worker.worker.counts();
        assert_eq!(counts.leases_lost, 0, "{counts:?}");
    }
    runs.assert_each_ran_once(keys);
}
