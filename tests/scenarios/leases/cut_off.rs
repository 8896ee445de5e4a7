//! Workers that are cut off, or whose clock is off.

use super::*;

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
        .map(|p| format!("http://{}", p.address()));
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
