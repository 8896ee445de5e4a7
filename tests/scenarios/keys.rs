//! Keys that must not stick (laws 1, 2 and 7).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of the messages of a session, a test picks the one that it waits for"
)]

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use keywork::proto::{
    self, DeadReason, GoAwayReason, JobState, LostReason, SettlementOutcome, SubmitOutcome,
    lease_request::Message as Up, lease_response::Message as Down, settlement::Outcome,
};
use keywork_testkit::{KeyworkServer, eventually, eventually_some};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::support::{
    Client, SHORT_LEASE, SOON, Session, ack, admin, beat, client, cluster_with_two_servers,
    complete, create, dead, fail, hello, job, make_queue, offer, one_server, pull, retry_after,
    server_on, settlement, short_lease, submit, unwire, wire,
};

/// What a loaded machine may add to a time that is promised.
const LOADED: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
async fn law_1_a_key_has_one_outstanding_job_and_is_free_when_it_ends() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let first = create(&mut client, "reconcile", "foo-123").await;

    let (outcome, holder) = offer(&mut client, submit("reconcile", "foo-123", "again")).await;
    assert_eq!(
        (outcome, &holder.id),
        (SubmitOutcome::AlreadyOutstanding, &first.id)
    );

    let leased = pull(&mut client, "reconcile", SOON).await.expect("the job");
    let seen = job(&mut client, "reconcile", "foo-123")
        .await
        .expect("an outstanding job");
    assert_eq!(seen.state(), JobState::Leased);
    let settled = ack(&mut client, &leased.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    create(&mut client, "reconcile", "foo-123").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_1_of_many_submits_of_one_key_through_two_servers_one_is_accepted() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    let clients = [client(&a).await, client(&b).await];
    let offers = (0..100).map(|n| {
        let mut client = clients[n % 2].clone();
        async move { offer(&mut client, submit("reconcile", "foo", "payload")).await }
    });
    let answers = join_all(offers).await;

    let created: Vec<_> = answers
        .iter()
        .filter(|(outcome, _)| *outcome == SubmitOutcome::Created)
        .collect();
    assert_eq!(created.len(), 1, "{created:?}");
    for (outcome, job) in &answers {
        assert!(matches!(
            outcome,
            SubmitOutcome::Created | SubmitOutcome::AlreadyOutstanding
        ));
        assert_eq!(job.id, created[0].1.id);
    }
}

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

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_rejected_by_name_and_the_lease_stays() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    create(&mut client, "q", "foo").await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    let with_result = Outcome::Complete(proto::Complete {
        result: Bytes::from_static(b"42"),
    });
    let request = proto::AckRequest {
        settlements: vec![settlement(&leased.lease_token, with_result)],
    };

    let response = client.ack(request).await.expect("an answer");
    let result = &response.into_inner().results[0];
    assert_eq!(result.outcome(), SettlementOutcome::Rejected);
    let error = result.error.as_ref().expect("why");
    assert_eq!(error.code, i32::from(tonic::Code::Unimplemented));
    assert_eq!(error.reason, "NOT_SERVED_YET");
    assert!(error.message.contains("result"), "{error:?}");

    let extended = beat(&mut client, &leased.lease_token).await;
    assert!(extended.time_left.is_some(), "{extended:?}");
    let settled = ack(&mut client, &extended.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    create(&mut client, "q", "foo").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_7_settled_means_free_through_another_server() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    settled_means_free(&a, &b, 10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_7_settled_means_free_through_another_server_with_three_replicas() {
    let (_cluster, a, b) = cluster_with_two_servers().await;
    settled_means_free(&a, &b, 10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_7_whatever_ends_a_job_frees_its_key_at_once() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    let (mut a, mut b) = (client(&a).await, client(&b).await);
    for round in 0..50 {
        create(&mut b, "q", "foo").await;
        let mut leased = pull(&mut a, "q", SOON).await.expect("the job");
        if round % 2 == 0 {
            // A job that was given back before ends another way than one that was not.
            let settled = ack(&mut a, &leased.lease_token, retry_after(Duration::ZERO)).await;
            assert_eq!(settled, SettlementOutcome::Settled);
            leased = pull(&mut a, "q", SOON).await.expect("the job");
        }
        let end = if round % 3 == 0 { fail() } else { complete() };
        let settled = ack(&mut a, &leased.lease_token, end).await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_purge_tells_the_holders_and_leaves_no_key() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    make_queue(&a, "q", proto::QueueConfig::default()).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    let mut here = Session::open(&mut at_a, hello("here", "q", 2)).await;
    let mut tokens = Vec::new();
    for key in ["a", "b"] {
        create(&mut at_a, "q", key).await;
        tokens.push(here.delivery().await.lease_token);
    }
    // One that waits, one that is scheduled, and one that waits to be tried again.
    let settled = here
        .settle(&tokens[1], retry_after(Duration::from_secs(60)))
        .await;
    assert_eq!(settled, SettlementOutcome::Settled);
    create(&mut at_a, "q", "c").await;
    tokens[1] = here.delivery().await.lease_token;
    create(&mut at_a, "q", "waits").await;
    let delayed = proto::SubmitRequest {
        start: Some(proto::submit_request::Start::Delay(wire(
            Duration::from_secs(60),
        ))),
        ..submit("q", "later", "payload")
    };
    offer(&mut at_a, delayed).await;

    // Through the other server.
    let request = proto::PurgeQueueRequest { name: "q".into() };
    let purged = admin(&b)
        .await
        .purge_queue(request)
        .await
        .expect("a purge")
        .into_inner();
    assert_eq!(purged.purged, 5);
    let mut lost = here.lost().await;
    while lost.len() < 2 {
        lost.extend(here.lost().await);
    }
    assert!(lost.iter().all(|l| l.reason() == LostReason::Cancelled));
    let told: HashSet<_> = lost.iter().map(|l| l.lease_token.clone()).collect();
    assert_eq!(told, tokens.iter().cloned().collect());

    for key in ["a", "b", "c", "waits", "later"] {
        assert_eq!(job(&mut at_b, "q", key).await, None);
        create(&mut at_b, "q", key).await;
    }
    let settled = here.settle(&tokens[0], complete()).await;
    assert_eq!(settled, SettlementOutcome::LeaseLost);
    assert!(job(&mut at_b, "q", "a").await.is_some());
    // The places of the lost leases are free for the new jobs.
    assert!(!here.deliveries().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_purge_ends_also_the_jobs_that_are_being_retried_at_that_moment() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    make_queue(&a, "q", proto::QueueConfig::default()).await;
    let (at_a, mut admin) = (client(&a).await, admin(&b).await);
    for round in 0..10 {
        let mut submitting = at_a.clone();
        for key in 0..8 {
            let many_attempts = proto::SubmitRequest {
                max_attempts: 1_000,
                ..submit("q", &format!("key-{key}"), "payload")
            };
            let (outcome, job) = offer(&mut submitting, many_attempts).await;
            assert_eq!(outcome, SubmitOutcome::Created, "in round {round}: {job:?}");
        }
        let stop = AtomicBool::new(false);
        let retrying = join_all((0..4).map(|_| async {
            let mut client = at_a.clone();
            while !stop.load(Ordering::Relaxed) {
                if let Some(leased) = pull(&mut client, "q", Duration::from_millis(50)).await {
                    ack(
                        &mut client,
                        &leased.lease_token,
                        retry_after(Duration::ZERO),
                    )
                    .await;
                }
            }
        }));
        let purging = async {
            // In the midst of it.
            sleep(Duration::from_millis(50 + 7 * round)).await;
            let request = proto::PurgeQueueRequest { name: "q".into() };
            admin.purge_queue(request).await.expect("a purge");
            let request = proto::GetQueueRequest { name: "q".into() };
            let queue = admin.get_queue(request).await.expect("a queue");
            let stats = queue.into_inner().queue.and_then(|q| q.stats);
            stop.store(true, Ordering::Relaxed);
            assert_eq!(stats.expect("counts").outstanding, 0, "in round {round}");
        };
        tokio::join!(retrying, purging);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_delete_tells_the_holders_and_leaves_no_key() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    make_queue(&a, "q", proto::QueueConfig::default()).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    let mut here = Session::open(&mut at_a, hello("here", "q", 1)).await;
    create(&mut at_a, "q", "foo").await;
    let leased = here.delivery().await;
    create(&mut at_a, "q", "waits").await;
    let mut there = Session::open(&mut at_b, hello("there", "q", 1)).await;
    let other = there.delivery().await;

    let delete = |force| proto::DeleteQueueRequest {
        name: "q".into(),
        force,
    };
    let refused = admin(&b).await.delete_queue(delete(false)).await;
    assert_eq!(
        refused.expect_err("it holds jobs").code(),
        tonic::Code::FailedPrecondition
    );
    let deleted = admin(&b).await.delete_queue(delete(true)).await;
    deleted.expect("a deletion");

    for (session, token) in [
        (&mut here, &leased.lease_token),
        (&mut there, &other.lease_token),
    ] {
        let lost = session.lost().await;
        assert_eq!(lost.len(), 1);
        assert_eq!(
            (&lost[0].lease_token, lost[0].reason()),
            (token, LostReason::Cancelled)
        );
        let reason = session
            .wait_for(|message| match message {
                Down::GoAway(away) => Some(away.reason()),
                _ => None,
            })
            .await;
        assert_eq!(reason, GoAwayReason::QueueDeleted);
    }
    for key in ["foo", "waits"] {
        create(&mut at_b, "q", key).await;
    }
    let settled = ack(&mut at_a, &leased.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::LeaseLost);
    assert!(job(&mut at_b, "q", "foo").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_pause_stops_deliveries_and_nothing_else() {
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 10)).await;
    create(&mut client, "q", "leased").await;
    let leased = session.delivery().await;

    let pause = proto::PauseQueueRequest { name: "q".into() };
    let paused = admin(&server).await.pause_queue(pause).await;
    assert!(
        paused
            .expect("a pause")
            .into_inner()
            .queue
            .expect("a queue")
            .paused
    );
    create(&mut client, "q", "waits").await;
    let until = Instant::now() + SHORT_LEASE * 2;
    while Instant::now() < until {
        // The lease goes on beyond its first deadline.
        assert_eq!(session.beat(&[&leased.lease_token]).await, []);
        assert!(session.nothing_for(Duration::from_millis(300)).await);
    }
    let settled = session.settle(&leased.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    create(&mut client, "q", "leased").await;

    let resume = proto::ResumeQueueRequest { name: "q".into() };
    let resumed = admin(&server).await.resume_queue(resume).await;
    assert!(
        !resumed
            .expect("to go on")
            .into_inner()
            .queue
            .expect("a queue")
            .paused
    );
    let mut keys = HashSet::new();
    while keys.len() < 2 {
        session.beat(&[]).await;
        let arrived = timeout(Duration::from_millis(300), session.deliveries()).await;
        for delivery in arrived.unwrap_or_default() {
            keys.insert(delivery.job.expect("a job").key);
            let settled = session.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
        }
    }
}

/// Completes at one server and submits the key through another the moment that SETTLED is there.
async fn settled_means_free(a: &KeyworkServer, b: &KeyworkServer, rounds: usize) {
    const AT_ONCE: u32 = 64;
    let (mut at_a, at_b) = (client(a).await, client(b).await);
    let mut session = Session::open(&mut at_a, hello("worker", "q", AT_ONCE)).await;
    let resubmit = |key: String| {
        let mut at_b = at_b.clone();
        async move {
            let answer = at_b.submit(submit("q", &key, "payload")).await;
            let answer = answer.unwrap_or_else(|status| panic!("{status:?}:\n{}", b.output()));
            let answer = answer.into_inner();
            ((answer.outcome(), answer.job.unwrap_or_default()), key)
        }
    };
    let mut submits: FuturesUnordered<_> =
        (0..AT_ONCE).map(|n| resubmit(format!("key-{n}"))).collect();
    let mut keys: HashMap<Bytes, String> = HashMap::new();
    let (mut settled, mut beats, mut beat_at) = (0, 0, Instant::now());
    while settled < rounds {
        if beat_at.elapsed() > Duration::from_secs(2) {
            beat_at = Instant::now();
            beats += 1;
            session
                .send(Up::Heartbeat(proto::LeaseHeartbeat {
                    sequence: beats,
                    lease_tokens: keys.keys().cloned().collect(),
                }))
                .await;
        }
        let message = tokio::select! {
            Some(((outcome, holder), key)) = submits.next() => {
                assert_eq!(outcome, SubmitOutcome::Created, "{key} after {settled} rounds: {holder:?}");
                continue;
            }
            message = session.next() => message.expect("a stream without an error"),
            // A heartbeat may be due.
            () = sleep(Duration::from_millis(500)) => continue,
        };
        match message.expect("a stream that goes on") {
            Down::Deliveries(list) => {
                let complete_it = |delivery: proto::Delivery| {
                    let settlement = settlement(&delivery.lease_token, complete());
                    keys.insert(delivery.lease_token, delivery.job.expect("a job").key);
                    settlement
                };
                let settlements = list.deliveries.into_iter().map(complete_it).collect();
                session
                    .send(Up::Settlements(proto::Settlements { settlements }))
                    .await;
            }
            Down::SettlementResults(list) => {
                for result in list.results {
                    assert_eq!(result.outcome(), SettlementOutcome::Settled);
                    let key = keys.remove(&result.lease_token).expect("a key");
                    settled += 1;
                    submits.push(resubmit(key));
                }
            }
            Down::HeartbeatAck(ack) => {
                // One that was settled meanwhile may be listed still; it is not lost to anybody else.
                let held = |l: &&proto::LostLease| keys.contains_key(&l.lease_token);
                assert_eq!(ack.lost.iter().filter(held).count(), 0, "{ack:?}");
            }
            other => panic!("neither a delivery nor an answer: {other:?}"),
        }
    }
}

// ---- what a server that is killed again and again is watched by ----

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

/// All dead letters of a queue, page by page.
async fn all_dead(client: &mut Client, queue: &str) -> Vec<proto::DeadJob> {
    let (mut letters, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = proto::ListDeadJobsRequest {
            queue: queue.into(),
            page_token,
            ..Default::default()
        };
        let page = client.list_dead_jobs(request).await.expect("a page");
        let page = page.into_inner();
        letters.extend(page.jobs);
        if page.next_page_token.is_empty() {
            return letters;
        }
        page_token = page.next_page_token;
    }
}

/// Waits for the one dead letter of a queue.
async fn the_dead_letter(client: &mut Client, queue: &str) -> proto::DeadJob {
    let mut letters = eventually_some(SOON, "a dead letter", async || {
        Some(dead(client, queue).await).filter(|letters| !letters.is_empty())
    })
    .await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    letters.remove(0)
}
