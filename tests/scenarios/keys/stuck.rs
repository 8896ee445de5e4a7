//! A key is never stuck (law 2), whatever is killed.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_failed_job_frees_its_key_and_its_dead_letter_stays() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let one_attempt = proto::SubmitRequest {
        max_attempts: 1,
        ..submit("reconcile", "foo", "payload")
    };
    let (_, first) = offer(&mut client, one_attempt).await;
    let leased = pull(&mut client, "reconcile", SOON).await.expect("the job");

    let settled = ack(&mut client, &leased.lease_token, fail()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    let second = create(&mut client, "reconcile", "foo").await;

    assert_ne!(first.id, second.id);
    let letters = dead(&mut client, "reconcile").await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].reason(), DeadReason::Failed);
    let died = letters[0].job.as_ref().expect("a job");
    assert_eq!((&died.id, died.state()), (&first.id, JobState::Dead));
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_workers_that_always_vanish_end_in_a_dead_letter_and_a_free_key() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    let two_attempts = proto::SubmitRequest {
        max_attempts: 2,
        ..submit("q", "foo", "payload")
    };
    let (_, first) = offer(&mut client, two_attempts).await;
    for attempt in 1..=2 {
        let leased = pull(&mut client, "q", SOON).await.expect("the job");
        assert_eq!(leased.attempt, attempt);
    }

    let letter = the_dead_letter(&mut client, "q").await;
    assert_eq!(letter.reason(), DeadReason::LeaseExpired);
    assert_eq!(letter.job.expect("a job").id, first.id);
    create(&mut client, "q", "foo").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_server_killed_between_the_last_expiry_and_the_dead_letter_leaves_no_key_stuck() {
    let (_nats, server) = one_server().await;
    let config = proto::QueueConfig {
        max_attempts: Some(1),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut gone = client(&server).await;
    create(&mut gone, "q", "foo").await;
    create(&mut gone, "q", "bar").await;
    for _ in 0..2 {
        pull(&mut gone, "q", SOON).await.expect("a job");
    }
    let leased_at = Instant::now();
    server.kill();
    // JetStream's own wait is over while no server is there.
    sleep_until(leased_at + SHORT_LEASE + Duration::from_millis(1_500)).await;
    server.restart().await;
    let mut client = client(&server).await;

    // A submit names one of the keys, and nothing names the other.
    eventually(SOON, "the key is free again", async || {
        let (outcome, _) = offer(&mut client, submit("q", "foo", "again")).await;
        outcome == SubmitOutcome::Created
    })
    .await;
    eventually(SOON, "both jobs are dead letters", async || {
        dead(&mut client, "q").await.len() == 2
    })
    .await;
    for letter in dead(&mut client, "q").await {
        assert_eq!(letter.reason(), DeadReason::LeaseExpired);
    }
    assert_eq!(job(&mut client, "q", "bar").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_server_killed_at_any_moment_leaves_no_key_stuck_and_no_job_lost() {
    const KILLS: u64 = 8;
    let (_nats, server) = one_server().await;
    let config = proto::QueueConfig {
        max_attempts: Some(3),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let books = Arc::new(Books::default());
    for round in 0..KILLS {
        let stop = AtomicBool::new(false);
        let work = async {
            let (submitting, working) = (
                submit_until(&server, &books, &stop),
                work_until(&server, &books, &stop),
            );
            tokio::join!(submitting, working)
        };
        let kill = async {
            // Never at the same step of the work.
            sleep(Duration::from_millis(
                300 + 97 * round + rand::random::<u64>() % 100,
            ))
            .await;
            server.kill();
            stop.store(true, Ordering::Relaxed);
        };
        tokio::join!(work, kill);
        server.restart().await;
    }
    let mut client = client(&server).await;
    drain_all(&mut client, &server, "q", &books).await;

    for key in 0..KEYS {
        create(&mut client, "q", &format!("key-{key}")).await;
    }
    for letter in all_dead(&mut client, "q").await {
        books.end(&letter.job.expect("a job").id);
    }
    let lost: Vec<_> = books.unaccounted();
    assert!(lost.is_empty(), "accepted and never seen again: {lost:?}");
    assert!(
        books.accepted() > 100,
        "too little was done to prove anything: {}",
        books.accepted()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_the_job_of_a_killed_worker_is_leased_again_when_its_lease_has_run_out() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    let mut killed = Session::open(&mut client, hello("killed", "q", 1)).await;
    let first = {
        create(&mut client, "q", "foo").await;
        killed.delivery().await
    };
    let deadline = Instant::now() + unwire(first.time_left.as_ref());
    killed.close();

    let mut other = Session::open(&mut client, hello("other", "q", 1)).await;
    let again = other.beating_delivery().await;
    let late = Instant::now().saturating_duration_since(deadline);
    // The time left was counted when the delivery was sent, and the way here took a moment.
    assert!(
        Instant::now() + Duration::from_millis(100) >= deadline,
        "leased again before the deadline"
    );
    assert!(late < Duration::from_secs(2) + LOADED, "{late:?} late");
    assert_eq!(again.attempt, 2);
    assert!(again.fencing_number > first.fencing_number);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_the_job_of_a_killed_worker_is_leased_again_after_the_disconnect_grace() {
    let grace = Duration::from_millis(500);
    let (_nats, server) = one_server().await;
    let config = proto::QueueConfig {
        lease_duration: Some(wire(Duration::from_secs(30))),
        disconnect_grace: Some(wire(grace)),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    let mut killed = Session::open(&mut client, hello("killed", "q", 1)).await;
    assert_eq!(
        unwire(killed.welcome.queues[0].disconnect_grace.as_ref()),
        grace
    );
    create(&mut client, "q", "foo").await;
    killed.delivery().await;
    let mut other = Session::open(&mut client, hello("other", "q", 1)).await;
    let broke_off = Instant::now();
    killed.close();

    let again = other.delivery().await;
    let waited = broke_off.elapsed();
    assert!(waited >= grace, "{waited:?} is before the grace was over");
    assert!(
        waited < grace + Duration::from_secs(1) + LOADED,
        "{waited:?}"
    );
    assert_eq!(again.attempt, 2);
}

const KEYS: u64 = 40;

/// What was accepted, and what may have ended.
#[derive(Default)]
struct Books {
    accepted: Mutex<HashSet<String>>,
    ended: Mutex<HashSet<String>>,
}

impl Books {
    fn accept(&self, id: &str) {
        let mut accepted = self.accepted.lock().expect("the books");
        assert!(accepted.insert(id.into()), "{id} was accepted twice");
    }

    fn end(&self, id: &str) {
        self.ended.lock().expect("the books").insert(id.into());
    }

    fn accepted(&self) -> usize {
        self.accepted.lock().expect("the books").len()
    }

    fn unaccounted(&self) -> Vec<String> {
        let (accepted, ended) = (
            self.accepted.lock().expect("the books"),
            self.ended.lock().expect("the books"),
        );
        accepted.difference(&ended).cloned().collect()
    }
}

/// Submits until the server is gone.
async fn submit_until(server: &KeyworkServer, books: &Books, stop: &AtomicBool) {
    let client = client(server).await;
    join_all((0..4).map(|_| {
        let mut client = client.clone();
        async move {
            while !stop.load(Ordering::Relaxed) {
                let key = format!("key-{}", rand::random::<u64>() % KEYS);
                let Ok(response) = client.submit(submit("q", &key, "payload")).await else {
                    return;
                };
                let response = response.into_inner();
                if response.outcome() == SubmitOutcome::Created {
                    books.accept(&response.job.expect("a job").id);
                }
            }
        }
    }))
    .await;
}

/// Leases and settles in all ways until the server is gone. A settlement without an answer may count.
async fn work_until(server: &KeyworkServer, books: &Books, stop: &AtomicBool) {
    let client = client(server).await;
    join_all((0..4).map(|_| {
        let mut client = client.clone();
        async move {
            while !stop.load(Ordering::Relaxed) {
                let request = proto::PullRequest {
                    queue: "q".into(),
                    max_jobs: 4,
                    wait: Some(wire(Duration::from_millis(200))),
                    ..Default::default()
                };
                let Ok(response) = client.pull(request).await else {
                    return;
                };
                let settlements: Vec<_> = response
                    .into_inner()
                    .deliveries
                    .into_iter()
                    .map(|delivery| {
                        let id = delivery.job.expect("a job").id;
                        let outcome = match rand::random::<u8>() % 4 {
                            0 => retry_after(Duration::from_millis(20)),
                            1 => fail(),
                            _ => {
                                books.end(&id);
                                complete()
                            }
                        };
                        settlement(&delivery.lease_token, outcome)
                    })
                    .collect();
                if settlements.is_empty() {
                    continue;
                }
                if client.ack(proto::AckRequest { settlements }).await.is_err() {
                    return;
                }
            }
        }
    }))
    .await;
}

/// Completes whatever comes until nothing is outstanding.
async fn drain_all(client: &mut Client, server: &KeyworkServer, queue: &str, books: &Books) {
    let mut admin = admin(server).await;
    let until = Instant::now() + SOON * 2;
    loop {
        let request = proto::GetQueueRequest { name: queue.into() };
        let stats = admin
            .get_queue(request)
            .await
            .expect("a queue")
            .into_inner();
        let stats = stats.queue.and_then(|q| q.stats).expect("counts");
        if stats.outstanding == 0 {
            return;
        }
        assert!(Instant::now() < until, "some jobs never come: {stats:?}");
        if let Some(leased) = pull(client, queue, Duration::from_millis(500)).await {
            let settled = ack(client, &leased.lease_token, complete()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
            books.end(&leased.job.expect("a job").id);
        }
    }
}
