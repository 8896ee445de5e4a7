//! What was accepted is not lost (law 5), nor its request id (law 6).

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn law_5_nothing_accepted_is_lost_over_kills_of_everything() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    make_queue(&a, QUEUE, lease_of(SHORT_LEASE)).await;
    let ledger = Arc::new(Ledger::default());
    let endpoints = [a.endpoint(), b.endpoint()];
    let worker = |name: &str| {
        let worker = Careful {
            name: name.into(),
            queue: QUEUE.into(),
            endpoints: endpoints.to_vec(),
            capacity: 20,
            longest: SHORT_LEASE,
            ledger: Arc::clone(&ledger),
        };
        worker.start()
    };
    let mut workers = vec![worker("w-1"), worker("w-2"), worker("w-3")];
    let accepted: Arc<Mutex<Vec<String>>> = Arc::default();
    let submitting = submit_for_ever(endpoints.to_vec(), Arc::clone(&accepted));
    let progress = async || {
        let before = accepted.lock().expect("accepted").len();
        eventually(2 * SOON, "submits go on", async || {
            accepted.lock().expect("accepted").len() >= before + 40
        })
        .await;
        let before = ledger.settlements().len();
        eventually(2 * SOON, "work goes on", async || {
            ledger.settlements().len() >= before + 20
        })
        .await;
    };
    progress().await;
    a.kill();
    a.restart().await;
    progress().await;
    workers[0] = worker("w-4");
    nats.kill();
    nats.restart().await;
    progress().await;
    workers[1] = worker("w-5");
    b.kill();
    nats.kill();
    nats.restart().await;
    b.restart().await;
    progress().await;
    drop(submitting);

    let accepted = accepted.lock().expect("accepted").clone();
    let mut at = client(&a).await;
    eventually(3 * SOON, "every accepted job has ended", async || {
        for key in accepted.iter().rev() {
            if job(&mut at, QUEUE, key).await.is_some() {
                return false;
            }
        }
        true
    })
    .await;
    assert_eq!(dead(&mut at, QUEUE).await, []);
    let unseen: Vec<_> = accepted
        .iter()
        .filter(|key| !ledger.asked_for(key))
        .collect();
    assert!(
        unseen.is_empty(),
        "gone, though nobody settled them: {unseen:?}"
    );
    drop(workers);
    ledger.check();
}

/// Submits one key after the other, each until it is accepted, and notes those.
fn submit_for_ever(endpoints: Vec<String>, accepted: Arc<Mutex<Vec<String>>>) -> JoinSet<()> {
    let mut submitting = JoinSet::new();
    submitting.spawn(async move {
        let mut at: Vec<Client> = Vec::new();
        for endpoint in &endpoints {
            at.push(Client::new(crate::support::channel(endpoint).await));
        }
        for n in 0_usize.. {
            let key = format!("key-{n}");
            let mut request = submit(QUEUE, &key, "payload");
            request.request_id = uuid_of(rand::random());
            for turn in n.. {
                if at[turn % 2].submit(request.clone()).await.is_ok() {
                    accepted.lock().expect("accepted").push(key);
                    break;
                }
                sleep(Duration::from_millis(50)).await;
            }
            sleep(Duration::from_millis(5)).await;
        }
    });
    submitting
}

#[tokio::test(flavor = "multi_thread")]
async fn law_6_a_request_id_is_remembered_over_a_kill_of_the_server() {
    let (_nats, server) = one_server().await;
    make_queue(&server, QUEUE, lease_of(LEASE)).await;
    let mut at = client(&server).await;
    let identified = |key: &str, id: &str| proto::SubmitRequest {
        request_id: id.into(),
        ..submit(QUEUE, key, "payload")
    };
    let [stored, ended] = [1, 2].map(uuid_of);
    let (outcome, first) = offer(&mut at, identified("stored", &stored)).await;
    assert_eq!((outcome, &first.id), (SubmitOutcome::Created, &stored));
    create(&mut at, QUEUE, "between").await;
    offer(&mut at, identified("ended", &ended)).await;
    for _ in 0..3 {
        let leased = pull(&mut at, QUEUE, SOON).await.expect("a job");
        let outcome = match key_of(&leased).as_str() {
            "stored" => retry_after(2 * SOON),
            _ => complete(),
        };
        let settled = ack(&mut at, &leased.lease_token, outcome).await;
        assert_eq!(settled, Settled::Settled);
    }
    server.kill();
    server.restart().await;
    let mut at = client(&server).await;
    for (key, id) in [("stored", &stored), ("ended", &ended)] {
        let (outcome, again) = offer(&mut at, identified(key, id)).await;
        assert_eq!(
            (outcome, &again.id),
            (SubmitOutcome::Duplicate, id),
            "{key}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_6_a_request_id_of_an_outstanding_job_is_remembered_over_a_kill_of_nats() {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, lease_of(LEASE)).await;
    let mut at = client(&server).await;
    let [queued, retried] = [1, 2].map(uuid_of);
    let identified = |key: &str, id: &str| proto::SubmitRequest {
        request_id: id.into(),
        ..submit(QUEUE, key, "payload")
    };
    offer(&mut at, identified("retried", &retried)).await;
    lease_and(&mut at, "retried", retry_after(2 * SOON)).await;
    offer(&mut at, identified("queued", &queued)).await;
    nats.kill();
    nats.restart().await;
    nats_is_back(&mut at).await;
    for (key, id) in [("queued", &queued), ("retried", &retried)] {
        let (outcome, again) = offer(&mut at, identified(key, id)).await;
        assert_eq!(
            (outcome, &again.id),
            (SubmitOutcome::Duplicate, id),
            "{key}"
        );
    }
}
