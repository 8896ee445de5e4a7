//! Answers are true while leaders are killed (laws 1 and 7).

use super::*;

/// What the answers to submits of one key said.
#[derive(Debug, Default)]
struct Answers {
    created: HashSet<String>,
    named: HashSet<String>,
}

/// Offers a key until there is an answer to it, and notes the answer.
async fn race_for(
    at: &mut Client,
    key: &str,
    retried: bool,
    answers: &Mutex<HashMap<String, Answers>>,
) {
    let request_id = uuid_of(rand::random());
    let until = Instant::now() + 3 * SOON;
    loop {
        assert!(Instant::now() < until, "no answer to a submit of {key}");
        let mut request = submit(QUEUE, key, &request_id);
        if retried {
            request.request_id.clone_from(&request_id);
        }
        let Ok(answer) = at.submit(request).await else {
            if retried {
                sleep(Duration::from_millis(50)).await;
                continue;
            }
            // Perhaps it is stored: nothing was said of it.
            return;
        };
        let answer = answer.into_inner();
        let id = answer
            .job
            .as_ref()
            .map(|j| j.id.clone())
            .unwrap_or_default();
        let mut answers = answers.lock().expect("answers");
        let of_key = answers.entry(key.into()).or_default();
        if answer.outcome() == SubmitOutcome::Created {
            of_key.created.insert(id.clone());
        }
        of_key.named.insert(id);
        return;
    }
}

/// The node that leads the queue's stream.
async fn leader(cluster: &NatsCluster) -> &NatsServer {
    let found = keywork_testkit::eventually_some(SOON, "the stream has a leader", async || {
        let context = async_nats::jetstream::new(cluster.connect().await);
        let stream = context.get_stream(format!("WORK_{QUEUE}")).await.ok()?;
        stream.cached_info().cluster.as_ref()?.leader.clone()
    })
    .await;
    cluster.node(&found)
}

#[tokio::test(flavor = "multi_thread")]
async fn law_1_no_key_is_given_twice_while_leaders_are_killed() {
    let (cluster, a, b) = cluster_with_two_servers().await;
    make_queue(&a, QUEUE, lease_of(Duration::from_secs(60))).await;
    let answers: Arc<Mutex<HashMap<String, Answers>>> = Arc::default();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut racing = JoinSet::new();
    for n in 0..8 {
        let mut at = client(if n % 2 == 0 { &a } else { &b }).await;
        let (answers, stopped) = (Arc::clone(&answers), stopped.clone());
        racing.spawn(async move {
            // All go through the same keys, a few at a time.
            let began = Instant::now();
            while !*stopped.borrow() {
                let round = began.elapsed().as_millis() / 100;
                for key in 0..3 {
                    race_for(&mut at, &format!("key-{round}-{key}"), n < 6, &answers).await;
                }
            }
        });
    }
    let created = |least: usize| {
        let answers = Arc::clone(&answers);
        async move {
            let count = || {
                let answers = answers.lock().expect("answers");
                answers.values().filter(|a| !a.created.is_empty()).count()
            };
            eventually(2 * SOON, "keys are created", async || count() >= least).await;
            count()
        }
    };
    for _ in 0..2 {
        let before = created(10).await;
        let leader = leader(&cluster).await;
        leader.kill();
        created(before + 20).await;
        leader.restart().await;
    }
    stop.send_replace(true);
    while let Some(ended) = racing.join_next().await {
        ended.expect("a client that got its answers");
    }
    cluster.wait_until_whole().await;

    let answers = std::mem::take(&mut *answers.lock().expect("answers"));
    let mut at = client(&a).await;
    for (key, answers) in &answers {
        let stored = job(&mut at, QUEUE, key).await;
        let stored: HashSet<String> = stored.into_iter().map(|job| job.id).collect();
        assert!(answers.created.len() <= 1, "{key}: {answers:?}");
        assert!(
            answers.named.is_subset(&stored),
            "{key}: {stored:?} but {answers:?}"
        );
    }
    let count = answers.len();
    let mut session = Session::open(&mut at, hello("w", QUEUE, 10_000)).await;
    let _living = session.keep_beating(Vec::new());
    let mut delivered = HashSet::new();
    while !answers.keys().all(|key| delivered.contains(key)) {
        for delivery in session.deliveries().await {
            assert!(delivered.insert(key_of(&delivery)), "{delivery:?} twice");
        }
    }
    assert!(session.nothing_for(Duration::from_millis(500)).await);
    assert_eq!(delivered.len(), count);
}

/// Leases so many jobs by unary pulls.
async fn pull_all(at: &mut Client, count: usize) -> Vec<Delivery> {
    let mut held = Vec::new();
    while held.len() < count {
        let request = proto::PullRequest {
            queue: QUEUE.into(),
            max_jobs: u32::try_from(count - held.len()).expect("a count"),
            wait: Some(wire(SOON)),
            ..Default::default()
        };
        if let Ok(answer) = at.pull(request).await {
            held.extend(answer.into_inner().deliveries);
        }
    }
    held
}

/// A key's job, as soon as there is a leader that can say.
async fn look(at: &mut Client, key: &str) -> Option<proto::Job> {
    let until = Instant::now() + SOON;
    loop {
        let request = proto::GetJobRequest {
            queue: QUEUE.into(),
            key: key.into(),
        };
        match at.get_job(request).await {
            Ok(answer) => return answer.into_inner().job,
            Err(status) if status.code() == Code::NotFound => return None,
            Err(status) => {
                let again = status.code() == Code::Unavailable && Instant::now() < until;
                assert!(again, "failed to look at {key}: {status:?}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Settles leases until each has an answer that is final.
async fn settle_all(at: &mut Client, held: &[Delivery]) -> HashMap<String, Settled> {
    let mut answers = HashMap::new();
    while answers.len() < held.len() {
        let open = held.iter().filter(|d| !answers.contains_key(&key_of(d)));
        let open: Vec<&Delivery> = open.collect();
        let settlements = open.iter().map(|d| settlement(&d.lease_token, fail()));
        let settlements = settlements.collect();
        let answer = at.ack(proto::AckRequest { settlements }).await;
        let results = answer.expect("an answer to an ack").into_inner().results;
        for (delivery, result) in open.into_iter().zip(results) {
            if result.outcome() != Settled::TryAgain {
                answers.insert(key_of(delivery), result.outcome());
            }
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_no_lease_that_went_to_another_is_called_settled_while_leaders_are_killed() {
    const JOBS: usize = 60;
    let (cluster, a, b) = cluster_with_two_servers().await;
    make_queue(&a, QUEUE, lease_of(SHORT_LEASE)).await;
    let mut at = client(&a).await;
    for round in 0..3 {
        create_all(&mut at, QUEUE, &keys(&format!("key-{round}"), JOBS)).await;
        let leader = leader(&cluster).await;
        let held = pull_all(&mut at, JOBS).await;
        sleep(SHORT_LEASE * 3 / 5).await;
        leader.kill();
        // Another takes what is given again, and keeps it.
        let mut takers = JoinSet::new();
        let mut taker = client(&b).await;
        takers.spawn(async move { pull_all(&mut taker, 1_000).await });

        for (key, answer) in settle_all(&mut at, &held).await {
            if answer != Settled::LeaseLost {
                let outstanding = look(&mut at, &key).await;
                assert_eq!(outstanding, None, "{key} was called {answer:?}");
            }
        }
        drop(takers);
        leader.restart().await;
        cluster.wait_until_whole().await;
        let purge = proto::PurgeQueueRequest { name: QUEUE.into() };
        admin(&a).await.purge_queue(purge).await.expect("a purge");
    }
}

/// A new leader of the consumer takes a delivery that was not extended since for as old as its job.
#[tokio::test(flavor = "multi_thread")]
async fn law_4_leases_of_jobs_that_waited_for_long_hold_when_the_consumers_leader_goes() {
    const JOBS: usize = 30;
    let lease = Duration::from_secs(9);
    let (cluster, a, b) = cluster_with_two_servers().await;
    make_queue(&a, QUEUE, lease_of(lease)).await;
    let mut at = client(&a).await;
    create_all(&mut at, QUEUE, &keys("key", JOBS)).await;
    // JetStream's own wait is a second longer than the lease.
    sleep(lease + Duration::from_secs(2)).await;
    let leader = cluster.node(&leader_of_consumer(&cluster, QUEUE).await);
    let (mut session, held, _) = leased(&mut at, "holder", JOBS).await;
    leader.stop().await;

    let mut at_b = client(&b).await;
    let mut other = Session::open(&mut at_b, hello("other", QUEUE, 1_000)).await;
    let _beating = other.keep_beating(Vec::new());
    assert!(
        other.nothing_for(Duration::from_secs(4)).await,
        "a lease went to another before its deadline"
    );
    let tokens = tokens_of(&held);
    assert_eq!(session.beat(&tokens.iter().collect::<Vec<_>>()).await, []);
    // New jobs are served meanwhile.
    create(&mut at, QUEUE, "new").await;
    assert_eq!(key_of(&other.delivery().await), "new");
    for token in &tokens {
        let settled = session.settle(token, complete()).await;
        assert_eq!(settled, Settled::Settled);
    }
    leader.restart().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_7_every_settled_is_true_when_nats_is_killed() {
    const JOBS: usize = 3_000;
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, lease_of(Duration::from_secs(30))).await;
    let mut at = client(&server).await;
    create_all(&mut at, QUEUE, &keys("key", JOBS)).await;
    let (mut session, held, _) = leased(&mut at, "w", JOBS).await;
    let key_of_token: HashMap<Bytes, String> = held
        .iter()
        .map(|d| (d.lease_token.clone(), key_of(d)))
        .collect();
    for part in held.chunks(50) {
        let settlements = part.iter().map(|d| settlement(&d.lease_token, complete()));
        let settlements = settlements.collect();
        session
            .send(Up::Settlements(proto::Settlements { settlements }))
            .await;
    }
    let (mut settled, mut killed, mut before) = (HashSet::new(), false, 0);
    while settled.len() < JOBS {
        let results = session
            .wait_for(|message| match message {
                Down::SettlementResults(list) => Some(list.results.clone()),
                _ => None,
            })
            .await;
        let mut again = Vec::new();
        for result in results {
            match result.outcome() {
                Settled::TryAgain => again.push(settlement(&result.lease_token, complete())),
                Settled::Settled | Settled::AlreadySettled => {
                    settled.insert(result.lease_token);
                }
                other => panic!("{other:?} of a lease that is in time"),
            }
        }
        if !killed && settled.len() >= 200 {
            nats.kill();
            (killed, before) = (true, settled.len());
            nats.restart().await;
            nats_is_back(&mut at).await;
            for token in &settled {
                let key = &key_of_token[token];
                assert_eq!(job(&mut at, QUEUE, key).await, None, "{key} was settled");
            }
        }
        if !again.is_empty() {
            sleep(Duration::from_millis(100)).await;
            let settlements = proto::Settlements { settlements: again };
            session.send(Up::Settlements(settlements)).await;
        }
    }
    assert!(before < JOBS, "NATS was killed after all was done");
    create_all(&mut at, QUEUE, &keys("key", JOBS)).await;
}
