//! Leases and heartbeats: how long a lease holds, whose it is, and how many a session may hold.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

use std::{collections::HashMap, fs, path::Path, time::Duration};

use bytes::Bytes;
use keywork::proto::{
    self, Delivery, JobState, LostReason, SettlementOutcome, lease_request::Message as Up,
    lease_response::Message as Down,
};
use keywork_sdk::{Submit, worker::CancelReason};
use keywork_testkit::{FaultProxy, KeyworkServer, Mode, eventually};
use prost::Message as _;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};

use crate::{
    streams::relay::Relay,
    support::{
        Client, Runs, SHORT_LEASE, SOON, Session, Working, ack, admin, channel, client, complete,
        create, field, hello, job, make_queue, one_server, pull, reason, release, sdk, server_on,
        short_lease, submit, unwire, wire,
    },
};

/// A lease that outlives the liveness timeout and a reconnect also on a busy machine.
const LEASE: Duration = Duration::from_secs(24);

fn lasting(lease: Duration) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(lease)),
        ..short_lease()
    }
}

/// Waits until a worker holds a key's job.
async fn leased(client: &Client, queue: &str, key: &str) {
    eventually(SOON, "a worker holds the job", async || {
        let seen = job(&mut client.clone(), queue, key).await;
        seen.is_some_and(|job| job.state() == JobState::Leased)
    })
    .await;
}

/// Waits until a key is free.
async fn free(client: &Client, queue: &str, key: &str, within: Duration) {
    eventually(within, "the job has ended", async || {
        job(&mut client.clone(), queue, key).await.is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_twenty_lease_durations_runs_once_and_is_leased_throughout() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "long", short_lease()).await;
    let (client, runs) = (client(&server).await, Runs::default());
    let time = SHORT_LEASE * 20;
    let endpoint = server.endpoint();
    let mut worker = Working::start(sdk([&*endpoint]), "long", "w", 4, &runs, time);
    create(&mut client.clone(), "long", "k").await;
    leased(&client, "long", "k").await;

    eventually(time + SOON, "the job has ended", async || {
        let seen = job(&mut client.clone(), "long", "k").await;
        let state = seen.as_ref().map(proto::Job::state);
        assert!(
            matches!(state, None | Some(JobState::Leased)),
            "it lost its lease: {seen:?}, {:?}",
            runs.all()
        );
        state.is_none()
    })
    .await;
    runs.assert_each_ran_once(["k".to_owned()]);
    let counts = worker.worker.counts();
    assert_eq!((counts.sessions, counts.leases_lost), (1, 0), "{counts:?}");
    worker.drain().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_expires_in_a_buffer_where_a_hundred_jobs_wait_for_two_workers_of_one_place() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "buffer", lasting(Duration::from_secs(3))).await;
    let (client, runs) = (client(&server).await, Runs::default());
    let keys: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    for key in &keys {
        create(&mut client.clone(), "buffer", key).await;
    }
    let endpoint = server.endpoint();
    let start = |name| {
        let time = Duration::from_secs(1);
        Working::start(sdk([&*endpoint]), "buffer", name, 1, &runs, time)
    };
    let mut workers = [start("a"), start("b")];
    eventually(SOON * 6, "all jobs have ended", async || {
        let settled = workers.iter().map(|w| w.worker.counts().settled);
        settled.sum::<u64>() == 100
    })
    .await;
    runs.assert_each_ran_once(keys);
    for worker in &mut workers {
        assert_eq!(worker.worker.counts().leases_lost, 0);
        worker.drain().await.expect("a clean end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_of_ten_lease_durations_is_one_run_in_time() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "later", short_lease()).await;
    let runs = Runs::default();
    let endpoint = server.endpoint();
    let time = Duration::from_millis(10);
    let mut worker = Working::start(sdk([&*endpoint]), "later", "w", 4, &runs, time);
    let (offered, delay) = (Instant::now(), SHORT_LEASE * 10);
    let outcome = sdk([&*endpoint])
        .submit(Submit::new("later", "k").delay(delay))
        .await
        .expect("an answer");
    assert!(outcome.is_accepted(), "{outcome:?}");
    eventually(delay + SOON, "the job has ended", async || {
        worker.worker.counts().settled == 1
    })
    .await;
    runs.assert_each_ran_once(["k".to_owned()]);
    let waited = runs.all()[0].began - offered;
    assert!(waited >= delay, "it ran too early, after {waited:?}");
    let late = waited - delay;
    assert!(late < Duration::from_secs(5), "it ran {late:?} too late");
    worker.drain().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_connection_is_swallowed_moves_within_the_liveness_timeout_with_its_job() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "hole", lasting(LEASE)).await;
    let (client, runs) = (client(&server).await, Runs::default());
    let proxies = [
        FaultProxy::start(server.address()).await,
        FaultProxy::start(server.address()).await,
    ];
    let endpoints = proxies
        .each_ref()
        .map(|p| format!("http://{}/", p.address()));
    let places = sdk(endpoints.iter().map(String::as_str));
    let time = LEASE + Duration::from_secs(2);
    let mut worker = Working::start(places, "hole", "w", 1, &runs, time);
    create(&mut client.clone(), "hole", "k").await;
    leased(&client, "hole", "k").await;

    let first = worker.endpoint();
    let at = endpoints.iter().position(|endpoint| *endpoint == first);
    let (began, at) = (Instant::now(), at.expect("one of the two"));
    proxies[at].set(Mode::BlackHole);
    let liveness = LEASE / 3 * 5 / 2;
    eventually(liveness + SOON, "the worker has moved", async || {
        worker.worker.counts().sessions == 2
    })
    .await;
    let took = began.elapsed();
    assert_ne!(worker.endpoint(), first);
    // It cannot know before the timeout; when it does, it waits 100 to 200 ms, and dials.
    assert!(
        took < liveness + Duration::from_secs(2),
        "moved after {took:?}"
    );

    free(&client, "hole", "k", SOON).await;
    runs.assert_each_ran_once(["k".to_owned()]);
    worker.drain().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_job_of_a_worker_that_is_cut_off_is_leased_again_soon_and_never_twice_at_once() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "cut", short_lease()).await;
    let (client, runs) = (client(&server).await, Runs::default());
    let proxy = FaultProxy::start(server.address()).await;
    let endpoint = format!("http://{}", proxy.address());
    let long = Duration::from_secs(600);
    let cut_off = Working::start(sdk([&*endpoint]), "cut", "cut-off", 1, &runs, long);
    create(&mut client.clone(), "cut", "k").await;
    leased(&client, "cut", "k").await;

    let endpoint = server.endpoint();
    let soon = Duration::from_millis(50);
    let mut other = Working::start(sdk([&*endpoint]), "cut", "other", 1, &runs, soon);
    other.ready().await;
    let began = Instant::now();
    proxy.set(Mode::BlackHole);
    free(&client, "cut", "k", SOON).await;
    let took = began.elapsed();
    let [first, second] = &runs.of("k")[..] else {
        panic!("two runs: {:?}", runs.all());
    };
    assert_eq!(first.stopped, Some(CancelReason::LeaseLost));
    assert_eq!((&*second.worker, second.attempt), ("other", 2));
    runs.assert_no_overlap();
    // The lease, a second of JetStream's wait beyond it, and the backoff; the rest is for a busy machine.
    assert!(
        took < SHORT_LEASE + Duration::from_secs(5),
        "after {took:?}"
    );
    other.drain().await.expect("a clean end");
    drop(cut_off);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blip_of_the_network_costs_no_lease() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "blip", lasting(LEASE)).await;
    let (client, runs) = (client(&server).await, Runs::default());
    let proxy = FaultProxy::start(server.address()).await;
    let endpoint = format!("http://{}", proxy.address());
    let time = LEASE / 2;
    let mut worker = Working::start(sdk([&*endpoint]), "blip", "w", 8, &runs, time);
    let keys: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
    for key in &keys {
        create(&mut client.clone(), "blip", key).await;
    }
    eventually(SOON, "all jobs run", async || runs.count() == 8).await;

    // What is sent comes late; and, the second time, connections break and cannot be made.
    for mode in [Mode::BlackHole, Mode::Reset] {
        proxy.set(mode);
        tokio::time::sleep(Duration::from_secs(2)).await;
        proxy.set(Mode::Pass);
        worker.ready().await;
    }
    assert!(worker.worker.counts().sessions >= 2, "the connection broke");
    for key in &keys {
        free(&client, "blip", key, SOON).await;
    }
    runs.assert_each_ran_once(keys);
    assert_eq!(worker.worker.counts().leases_lost, 0);
    worker.drain().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_was_lost_on_its_way_comes_back_at_once_and_costs_no_attempt() {
    let (nats, server) = one_server().await;
    let other = server_on(&nats.url()).await;
    let minute = Duration::from_secs(60);
    make_queue(&server, "way", lasting(minute)).await;
    // The worker comes back to the same server, and to another one.
    for (key, back_at) in [("same", &server), ("other", &other)] {
        let (proxy, mut direct) = (
            FaultProxy::start(server.address()).await,
            client(&server).await,
        );
        let way = channel(&format!("http://{}", proxy.address())).await;
        let worker = format!("worker-{key}");
        let mut through = Client::new(way);
        let session = Session::open(&mut through, hello(&worker, "way", 1)).await;
        proxy.set(Mode::HoldFromServer);
        create(&mut direct, "way", key).await;
        leased(&direct, "way", key).await;
        proxy.set(Mode::Reset);
        drop(session);

        let began = Instant::now();
        let mut back = client(back_at).await;
        let mut session = Session::open(&mut back, hello(&worker, "way", 1)).await;
        let delivery = session.delivery().await;
        assert_eq!(delivery.attempt, 1, "{key}: no attempt was made");
        assert!(began.elapsed() < minute, "{key}: it waited for its lease");
        let settled = session.settle(&delivery.lease_token, complete()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_never_saw_its_delivery_runs_it_once_it_is_back() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "back", lasting(Duration::from_secs(60))).await;
    let (client, runs) = (client(&server).await, Runs::default());
    let proxy = FaultProxy::start(server.address()).await;
    let endpoint = format!("http://{}", proxy.address());
    let soon = Duration::from_millis(10);
    let mut worker = Working::start(sdk([&*endpoint]), "back", "w", 1, &runs, soon);
    worker.ready().await;
    proxy.set(Mode::HoldFromServer);
    create(&mut client.clone(), "back", "k").await;
    leased(&client, "back", "k").await;
    proxy.set(Mode::Reset);
    proxy.set(Mode::Pass);
    free(&client, "back", "k", SOON).await;
    runs.assert_each_ran_once(["k".to_owned()]);
    worker.drain().await.expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_clock_is_an_hour_off_keeps_its_leases() {
    let hour = Duration::from_secs(3_600);
    let (_nats, server) = one_server().await;
    make_queue(&server, "clock", short_lease()).await;
    let (client, runs) = (client(&server).await, Runs::default());
    // To a worker whose clock is behind, all of the server's times lie ahead; and the other way round.
    for (key, relay) in [
        ("ahead", Relay::start(&server).await.times_later(hour)),
        ("behind", Relay::start(&server).await.times_earlier(hour)),
    ] {
        let endpoint = relay.endpoint();
        let time = SHORT_LEASE * 3;
        let mut worker = Working::start(sdk([&*endpoint]), "clock", key, 1, &runs, time);
        create(&mut client.clone(), "clock", key).await;
        leased(&client, "clock", key).await;
        free(&client, "clock", key, SOON).await;
        assert_eq!(runs.of(key).len(), 1, "{:?}", runs.of(key));
        assert_eq!(worker.worker.counts().leases_lost, 0);
        worker.drain().await.expect("a clean end");
    }
}

#[test]
fn a_worker_tells_no_time_and_reads_no_clock_of_the_wall() {
    let set = prost_types::FileDescriptorSet::decode(proto::DESCRIPTOR).expect("descriptors");
    let messages: HashMap<String, prost_types::DescriptorProto> = set
        .file
        .iter()
        .flat_map(|file| {
            let package = file.package().to_owned();
            let named = move |m: &prost_types::DescriptorProto| {
                (format!(".{package}.{}", m.name()), m.clone())
            };
            file.message_type.iter().map(named)
        })
        .collect();
    let mut to_look_at: Vec<String> = ["LeaseRequest", "HeartbeatRequest", "AckRequest"]
        .into_iter()
        .map(|name| format!(".keywork.v1.{name}"))
        .collect();
    let mut looked_at = Vec::new();
    while let Some(name) = to_look_at.pop() {
        assert_ne!(name, ".google.protobuf.Timestamp", "after {looked_at:?}");
        if looked_at.contains(&name) {
            continue;
        }
        let fields = messages.get(&name).map_or(&[][..], |m| &m.field[..]);
        to_look_at.extend(fields.iter().filter_map(|field| field.type_name.clone()));
        looked_at.push(name);
    }
    assert!(looked_at.len() > 10, "{looked_at:?}");

    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk/rust/src/worker");
    let entries = fs::read_dir(sources).expect("the worker's sources");
    for entry in entries.map(|entry| entry.expect("an entry").path()) {
        let text = fs::read_to_string(&entry).expect("a source");
        assert!(!text.contains("SystemTime"), "{}", entry.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn capacity_is_a_level_that_can_be_raised_and_lowered() {
    const STILL: Duration = Duration::from_millis(500);
    let (_nats, server) = one_server().await;
    make_queue(&server, "level", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for n in 0..12 {
        create(&mut client, "level", &format!("k{n}")).await;
    }
    let mut session = Session::open(&mut client, hello("w", "level", 3)).await;
    let mut held = Vec::new();
    take(&mut session, &mut held, 3).await;
    assert!(session.nothing_for(STILL).await, "more than its capacity");

    let capacity = |capacity| Up::Capacity(proto::Capacity { capacity });
    session.send(capacity(5)).await;
    take(&mut session, &mut held, 5).await;
    assert!(session.nothing_for(STILL).await, "more than its capacity");

    session.send(capacity(2)).await;
    for _ in 0..3 {
        let delivery = held.pop().expect("a lease");
        let settled = session.settle(&delivery.lease_token, complete()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
    assert!(
        session.nothing_for(STILL).await,
        "it still holds two of two"
    );
    let delivery = held.pop().expect("a lease");
    session.settle(&delivery.lease_token, release()).await;
    take(&mut session, &mut held, 2).await;

    // Leases that it goes on with count like any other.
    drop(session);
    let resumed = proto::Hello {
        held_leases: held.iter().map(|d| d.lease_token.clone()).collect(),
        ..hello("w", "level", 3)
    };
    let mut session = Session::open(&mut client, resumed).await;
    assert_eq!(session.welcome.resumed.len(), 2, "{:?}", session.welcome);
    take(&mut session, &mut held, 3).await;
    assert!(session.nothing_for(STILL).await, "more than its capacity");

    session.send(capacity(0)).await;
    for delivery in held.drain(..) {
        let settled = session.settle(&delivery.lease_token, complete()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
    assert!(session.nothing_for(STILL).await, "its capacity is zero");
}

/// Takes deliveries until `held` has as many.
async fn take(session: &mut Session, held: &mut Vec<Delivery>, count: usize) {
    while held.len() < count {
        held.extend(session.deliveries().await);
    }
    assert_eq!(held.len(), count, "more than there is room for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_several_queues_is_shared_by_their_weights() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    for queue in ["heavy", "light"] {
        make_queue(&server, queue, lasting(Duration::from_secs(60))).await;
        for n in 0..80 {
            create(&mut client, queue, &format!("k{n}")).await;
        }
    }
    let weighed = |queue: &str, weight| proto::QueueSubscription {
        queue: queue.into(),
        weight,
    };
    let hello = proto::Hello {
        queues: vec![weighed("heavy", 3), weighed("light", 1)],
        ..hello("w", "heavy", 8)
    };
    let mut session = Session::open(&mut client, hello).await;
    let mut served: Vec<String> = Vec::new();
    while served.len() < 80 {
        for delivery in session.deliveries().await {
            served.push(delivery.job.clone().unwrap_or_default().queue);
            let settled = session.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
        }
    }
    let heavy = served[..80]
        .iter()
        .filter(|queue| *queue == "heavy")
        .count();
    assert!(
        (48..=72).contains(&heavy),
        "{heavy} of 80, of weight 3 in 4"
    );

    // A queue without jobs leaves its part to the other.
    while served.len() < 160 {
        for delivery in session.deliveries().await {
            served.push(delivery.job.clone().unwrap_or_default().queue);
            session.settle(&delivery.lease_token, complete()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_heartbeat_extends_exactly_what_it_lists() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "beats", short_lease()).await;
    let mut client = client(&server).await;
    for key in ["listed", "left-out"] {
        create(&mut client, "beats", key).await;
    }
    let mut session = Session::open(&mut client, hello("w", "beats", 2)).await;
    let mut held = Vec::new();
    take(&mut session, &mut held, 2).await;
    let began = Instant::now();
    let listed = held.iter().position(|d| key(d) == "listed").expect("it");
    let listed = held.swap_remove(listed).lease_token;
    let left_out = held.remove(0).lease_token;

    let every = SHORT_LEASE / 4;
    let mut beats = tokio::time::interval(every);
    let mut lost_after = None;
    while began.elapsed() < SHORT_LEASE * 3 || lost_after.is_none() {
        beats.tick().await;
        assert!(session.beat(&[&listed]).await.is_empty(), "it is extended");
        if lost_after.is_none()
            && let Ok(lost) = timeout(Duration::from_millis(1), session.lost()).await
        {
            assert_eq!((lost.len(), &lost[0].lease_token), (1, &left_out));
            assert_eq!(lost[0].reason(), LostReason::Expired);
            lost_after = Some(began.elapsed());
        }
        assert!(began.elapsed() < SOON, "the other one is never lost");
    }
    let lost_after = lost_after.unwrap_or_default();
    assert!(lost_after > SHORT_LEASE / 2, "lost after {lost_after:?}");

    // What is lost stays lost, however late it is listed; what was extended is settled.
    let lost = session.beat(&[&listed, &left_out]).await;
    assert_eq!((lost.len(), &lost[0].lease_token), (1, &left_out));
    let outcome = session.settle(&left_out, complete()).await;
    assert_eq!(outcome, SettlementOutcome::LeaseLost);
    let outcome = session.settle(&listed, complete()).await;
    assert_eq!(outcome, SettlementOutcome::Settled);
    // It is served again, here or later.
    let seen = job(&mut client, "beats", "left-out").await;
    assert!(seen.is_some(), "its job goes on");
}

fn key(delivery: &Delivery) -> &str {
    delivery.job.as_ref().map_or("", |job| &job.key)
}

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
        (with(vec![queue("a", 1), queue("a", 2)]), "queues"),
        (with(vec![queue("Not A Name", 1)]), "queues"),
        (with(vec![queue("a", 101)]), "queues.weight"),
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

/// How many sessions serve a queue, pulls included.
async fn sessions_of(server: &KeyworkServer, queue: &str) -> u32 {
    let request = proto::GetQueueRequest { name: queue.into() };
    let answer = admin(server).await.get_queue(request).await;
    let queue = answer.expect("a queue").into_inner().queue;
    queue.and_then(|q| q.stats).expect("counts").sessions
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_hangs_up_on_a_pull_strands_nothing() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "hang-up", lasting(Duration::from_secs(60))).await;
    let mut client = client(&server).await;
    for round in 0..20 {
        for _ in 0..8 {
            let mut caller = client.clone();
            let pulling = pull(&mut caller, "hang-up", SOON);
            assert!(timeout(Duration::from_millis(5), pulling).await.is_err());
        }
        // A pull that is answered before its caller hung up keeps its lease. These have no job to be
        // answered with, so all that matters is that the server has heard.
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
