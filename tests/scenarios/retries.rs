//! Attempts, waits between them, and dead letters (laws 2 and 4).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of the messages of a session, a test picks the one that it waits for"
)]

use std::{collections::HashSet, time::Duration};

use futures::future::join_all;
use keywork::proto::{
    self, DeadReason, JobState, LostReason, SettlementOutcome, SubmitOutcome,
    lease_request::Message as Up, lease_response::Message as Down, submit_request::Start,
    submit_result::Result as Wire,
};
use keywork_testkit::{eventually, eventually_some};
use tokio::time::Instant;

use crate::support::{
    Client, SHORT_LEASE, SOON, Session, ack, beat, client, complete, create, dead, fail, hello,
    job, make_queue, offer, one_server, pull, release, retry, retry_after, settlement, short_lease,
    submit, unwire, wire,
};

/// What a loaded machine may add to a time that is promised.
const LOADED: Duration = Duration::from_secs(5);
/// JetStream waits for so much longer than the lease.
const MARGIN: Duration = Duration::from_secs(1);
/// Waits and deadlines are kept in whole milliseconds.
const ROUNDED: Duration = Duration::from_millis(2);

// ---- waits ----

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_and_an_explicit_failure_cost_one_attempt_and_wait_alike() {
    let (_nats, server) = one_server().await;
    let wait = Duration::from_secs(4);
    let config = proto::QueueConfig {
        backoff: Some(backoff(wait, wait)),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    for key in ["crashes", "fails"] {
        create(&mut client, "q", key).await;
    }
    let crashed = pull(&mut client, "q", SOON).await.expect("the first job");
    let deadline = Instant::now() + unwire(crashed.time_left.as_ref());
    let failing = pull(&mut client, "q", SOON).await.expect("the second job");
    let settled = ack(&mut client, &failing.lease_token, retry()).await;
    let failed = Instant::now();
    assert_eq!(settled, SettlementOutcome::Settled);

    for (key, since, error) in [
        ("fails", failed, "it did not work"),
        ("crashes", deadline, "the lease ran out"),
    ] {
        let again = pull(&mut client, "q", SOON).await.expect("the job again");
        let waited = Instant::now().saturating_duration_since(since);
        let job = again.job.expect("a job");
        assert_eq!((&*job.key, again.attempt), (key, 2));
        assert_eq!(job.last_error, error);
        // Jitter takes up to half of a wait; the deadline was counted on the way here.
        assert!(
            waited + ROUNDED + Duration::from_millis(100) >= wait / 2,
            "{key} waited only {waited:?}"
        );
        assert!(waited < wait + LOADED, "{key} waited {waited:?}");
        ack(&mut client, &again.lease_token, complete()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_double_up_to_the_longest() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 1)).await;
    let (initial, max) = (Duration::from_millis(400), Duration::from_millis(1_600));
    let own = proto::SubmitRequest {
        backoff: Some(backoff(initial, max)),
        ..submit("q", "foo", "payload")
    };
    offer(&mut client, own).await;
    let mut leased = session.delivery().await;
    for factor in [1, 2, 4, 4] {
        let settled_at = Instant::now();
        session.settle(&leased.lease_token, retry()).await;
        leased = session.delivery().await;
        let waited = settled_at.elapsed();
        assert!(
            waited + ROUNDED >= initial * factor / 2,
            "{waited:?} at {factor}"
        );
        assert!(waited < initial * factor + LOADED, "{waited:?} at {factor}");
    }
    assert_eq!(leased.attempt, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_with_a_delay_waits_as_long_as_that_and_holds_its_key() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 1)).await;
    create(&mut client, "q", "foo").await;
    let leased = session.delivery().await;
    let (delay, began) = (Duration::from_secs(2), Instant::now());
    session
        .settle(&leased.lease_token, retry_after(delay))
        .await;

    let waiting = job(&mut client, "q", "foo").await.expect("the job");
    assert_eq!((waiting.state(), waiting.attempt), (JobState::Retrying, 2));
    assert_eq!(waiting.last_error, "not yet");
    let (outcome, _) = offer(&mut client, submit("q", "foo", "other")).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
    // Its place is free for another job meanwhile.
    create(&mut client, "q", "bar").await;
    let other = session.delivery().await;
    assert_eq!(other.job.expect("a job").key, "bar");
    session.settle(&other.lease_token, complete()).await;

    let again = session.delivery().await;
    let waited = began.elapsed();
    assert!(
        waited + ROUNDED >= delay && waited < delay + LOADED,
        "{waited:?}"
    );
    assert_eq!(again.attempt, 2);

    // None at all.
    session
        .settle(&again.lease_token, retry_after(Duration::ZERO))
        .await;
    assert_eq!(session.delivery().await.attempt, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_delay_is_rejected_and_the_lease_stays() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    create(&mut client, "q", "foo").await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    for bad in [
        prost_types::Duration {
            seconds: -1,
            nanos: 0,
        },
        prost_types::Duration {
            seconds: 367 * 86_400,
            nanos: 0,
        },
    ] {
        let outcome = proto::settlement::Outcome::Retry(proto::Retry {
            delay: Some(bad),
            error: String::new(),
        });
        let request = proto::AckRequest {
            settlements: vec![settlement(&leased.lease_token, outcome)],
        };
        let result = client
            .ack(request)
            .await
            .expect("an answer")
            .into_inner()
            .results
            .remove(0);
        assert_eq!(result.outcome(), SettlementOutcome::Rejected);
        assert_eq!(result.error.expect("why").field, "retry.delay");
    }
    let settled = ack(&mut client, &leased.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_costs_no_attempt_and_no_wait() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let one_attempt = proto::SubmitRequest {
        max_attempts: 1,
        backoff: Some(backoff(
            Duration::from_secs(3_600),
            Duration::from_secs(3_600),
        )),
        ..submit("q", "foo", "payload")
    };
    offer(&mut client, one_attempt).await;
    let mut fencing = 0;
    for _ in 0..5 {
        let leased = pull(&mut client, "q", SOON).await.expect("the job");
        assert_eq!(leased.attempt, 1);
        assert!(leased.fencing_number > fencing);
        fencing = leased.fencing_number;
        let settled = ack(&mut client, &leased.lease_token, release()).await;
        assert_eq!(settled, SettlementOutcome::Settled);
        let (outcome, _) = offer(&mut client, submit("q", "foo", "other")).await;
        assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
    }
    assert_eq!(dead(&mut client, "q").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_s_delay_survives_a_restart_of_the_server_and_of_nats() {
    let (nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut at = client(&server).await;
    let mut first = Session::open(&mut at, hello("first", "q", 10)).await;
    let (delay, mut began) = (Duration::from_secs(9), Instant::now());
    for key in ["a", "b", "c"] {
        create(&mut at, "q", key).await;
        let leased = first.delivery().await;
        began = Instant::now();
        first.settle(&leased.lease_token, retry_after(delay)).await;
    }
    let scheduled = proto::SubmitRequest {
        start: Some(Start::Delay(wire(delay))),
        ..submit("q", "d", "payload")
    };
    offer(&mut at, scheduled).await;
    // Long enough that the delays are with JetStream too.
    assert!(first.nothing_for(Duration::from_millis(300)).await);

    server.kill();
    server.restart().await;
    let mut at = client(&server).await;
    assert_eq!(
        job(&mut at, "q", "a").await.expect("the job").state(),
        JobState::Retrying
    );
    nats.kill();
    nats.restart().await;
    let mut worker = eventually_some(SOON, "the server is back on NATS", async || {
        Session::try_open(&mut at, hello("second", "q", 10))
            .await
            .ok()
    })
    .await;
    let mut served = HashSet::new();
    while served.len() < 4 {
        for delivery in worker.beating().await {
            let waited = began.elapsed();
            assert!(waited + ROUNDED >= delay, "{waited:?} is too early");
            // After a kill of NATS what may have been leased before is left alone for a while.
            assert!(
                waited < delay + SHORT_LEASE * 3 + MARGIN + LOADED * 2,
                "{waited:?} is too late"
            );
            let job = delivery.job.expect("a job");
            assert_eq!(delivery.attempt, if job.key == "d" { 1 } else { 2 });
            served.insert(job.key);
            let settled = worker.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, SettlementOutcome::Settled);
        }
    }
}

// ---- the longest run ----

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_do_not_extend_a_lease_beyond_the_longest_run() {
    let (_nats, server) = one_server().await;
    let most = Duration::from_secs(4);
    let config = proto::QueueConfig {
        max_run_time: Some(wire(most)),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 1)).await;
    create(&mut client, "q", "foo").await;
    let first = session.delivery().await;
    let began = Instant::now();

    let lost = loop {
        // A heartbeat lists the lease for as long as nothing else was said of it.
        let lost = session.beat(&[&first.lease_token]).await;
        if !lost.is_empty() {
            break lost;
        }
        assert!(began.elapsed() < most + LOADED, "the lease is not lost");
        let pushed = session
            .within(Duration::from_millis(300), |message| match message {
                Down::LeasesLost(list) => Some(list.leases.clone()),
                _ => None,
            })
            .await;
        if let Some(lost) = pushed {
            break lost;
        }
    };
    let ran = began.elapsed();
    assert_eq!(lost.len(), 1);
    assert_eq!(
        (&lost[0].lease_token, lost[0].reason()),
        (&first.lease_token, LostReason::Expired)
    );
    // The time began when the delivery left JetStream, up to a mark's age before it was read here.
    assert!(
        ran + Duration::from_secs(1) >= most && ran < most + LOADED,
        "{ran:?}"
    );
    let deliveries = session.beating().await;
    assert_eq!((deliveries.len(), deliveries[0].attempt), (1, 2));
    let settled = session.settle(&first.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::LeaseLost);
    let settled = session.settle(&deliveries[0].lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn unary_heartbeats_do_not_extend_a_lease_beyond_the_longest_run() {
    let (_nats, server) = one_server().await;
    let most = Duration::from_secs(3);
    let config = proto::QueueConfig {
        max_run_time: Some(wire(most)),
        max_attempts: Some(1),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    create(&mut client, "q", "foo").await;
    let mut leased = pull(&mut client, "q", SOON).await.expect("the job");
    let began = Instant::now();
    let reason = eventually_some(most + LOADED, "the lease is lost", async || {
        let extended = beat(&mut client, &leased.lease_token).await;
        if extended.time_left.is_some() {
            let left = began.elapsed() + unwire(extended.time_left.as_ref());
            assert!(
                left <= most + Duration::from_millis(500),
                "extended until {left:?}"
            );
            leased.lease_token = extended.lease_token;
            return None;
        }
        (!extended.try_again).then(|| proto::LostReason::try_from(extended.lost))
    })
    .await;
    assert_eq!(reason, Ok(LostReason::Expired));

    let letters = eventually_some(SOON, "a dead letter", async || {
        Some(dead(&mut client, "q").await).filter(|letters| !letters.is_empty())
    })
    .await;
    assert_eq!(letters[0].reason(), DeadReason::LeaseExpired);
    create(&mut client, "q", "foo").await;
}

// ---- dead letters ----

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_says_why_with_the_last_error_and_all_of_the_job() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let offered = |key: &str| proto::SubmitRequest {
        max_attempts: 2,
        attributes: [("trace".to_owned(), "ü\n".to_owned())].into(),
        content_type: "text/plain".into(),
        ..submit("q", key, "payload")
    };
    offer(&mut client, offered("fails")).await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    let long = proto::settlement::Outcome::Fail(proto::Fail {
        error: "ü\u{1}\r\n%".repeat(1_000),
    });
    let settled = ack(&mut client, &leased.lease_token, long).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    offer(&mut client, offered("exhausts")).await;
    for _ in 0..2 {
        let leased = pull(&mut client, "q", SOON).await.expect("the job");
        let settled = ack(
            &mut client,
            &leased.lease_token,
            retry_after(Duration::ZERO),
        )
        .await;
        assert_eq!(settled, SettlementOutcome::Settled);
    }

    let letters = dead(&mut client, "q").await;
    let reasons: Vec<_> = letters.iter().map(proto::DeadJob::reason).collect();
    assert_eq!(reasons, [DeadReason::Failed, DeadReason::AttemptsExhausted]);
    let jobs: Vec<_> = letters.iter().filter_map(|l| l.job.clone()).collect();
    let kept = &jobs[0].last_error;
    assert!(kept.len() <= 2_048 && kept.len() > 2_040, "{}", kept.len());
    assert!("ü\u{1}\r\n%".repeat(1_000).starts_with(&**kept));
    assert_eq!((jobs[0].attempt, jobs[1].attempt), (1, 2));
    assert_eq!(
        (&*jobs[1].last_error, &*jobs[1].key),
        ("not yet", "exhausts")
    );
    for job in &jobs {
        assert_eq!((job.state(), job.max_attempts), (JobState::Dead, 2));
        assert_eq!(job.payload, "payload");
        assert_eq!(job.attributes, offered("fails").attributes);
        assert_eq!(job.content_type, "text/plain");
    }
    assert!(letters.iter().all(|l| l.died_at.is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_job_starts_at_attempt_1_and_its_dead_letter_is_gone() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let first = with_a_dead_letter(&mut client, "foo").await;

    let results = redrive(&mut client, &[]).await;
    assert_eq!(results.len(), 1);
    assert_eq!(outcome_of(&results[0]), Ok(SubmitOutcome::Created));
    assert_eq!(dead(&mut client, "q").await, []);
    let again = pull(&mut client, "q", SOON).await.expect("the job");
    let job = again.job.expect("a job");
    assert_eq!((again.attempt, &job.id), (1, &first.id));
    assert_eq!(job.payload, "payload");

    // As often as it takes: it dies once more, and is redriven once more.
    ack(&mut client, &again.lease_token, fail()).await;
    let letter = dead(&mut client, "q").await.remove(0);
    let results = redrive(&mut client, &[letter.dead_id]).await;
    assert_eq!(outcome_of(&results[0]), Ok(SubmitOutcome::Created));
    let again = pull(&mut client, "q", SOON).await.expect("the job");
    assert_eq!(again.attempt, 1);
    ack(&mut client, &again.lease_token, complete()).await;
    // One that is not there is told apart, and spoils nothing.
    let results = redrive(&mut client, &[letter.dead_id, 999_999]).await;
    for result in &results {
        assert_eq!(outcome_of(result), Err("DEAD_JOB_NOT_FOUND".into()));
    }
    assert_eq!(results.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_1_a_redrive_of_a_busy_key_leaves_the_dead_letter_and_the_owner_alone() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    with_a_dead_letter(&mut client, "foo").await;
    with_a_dead_letter(&mut client, "bar").await;
    let second = create(&mut client, "q", "foo").await;
    let owner = pull(&mut client, "q", SOON).await.expect("the second job");

    let results = redrive(&mut client, &[]).await;
    assert_eq!(
        outcome_of(&results[0]),
        Ok(SubmitOutcome::AlreadyOutstanding)
    );
    let named = match &results[0].result.as_ref().expect("a result").result {
        Some(Wire::Response(response)) => response.job.clone().expect("a job"),
        other => panic!("no response: {other:?}"),
    };
    assert_eq!((&named.id, named.state()), (&second.id, JobState::Leased));
    assert_eq!(outcome_of(&results[1]), Ok(SubmitOutcome::Created));
    let left = dead(&mut client, "q").await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].job.as_ref().expect("a job").key, "foo");

    let settled = ack(&mut client, &owner.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    let results = redrive(&mut client, &[left[0].dead_id]).await;
    assert_eq!(outcome_of(&results[0]), Ok(SubmitOutcome::Created));
    let request = proto::DeleteDeadJobsRequest {
        queue: "q".into(),
        dead_ids: Vec::new(),
        all: true,
    };
    let deleted = client.delete_dead_jobs(request).await.expect("an answer");
    assert_eq!(deleted.into_inner().deleted, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_1_of_many_redrives_at_once_one_counts() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    with_a_dead_letter(&mut client, "foo").await;
    let letter = dead(&mut client, "q").await.remove(0);
    let redrives = (0..8).map(|_| {
        let mut client = client.clone();
        async move { redrive(&mut client, &[letter.dead_id]).await }
    });
    let results: Vec<_> = join_all(redrives).await.into_iter().flatten().collect();
    assert!(
        results
            .iter()
            .any(|r| outcome_of(r) == Ok(SubmitOutcome::Created))
    );

    let again = pull(&mut client, "q", SOON).await.expect("the job");
    ack(&mut client, &again.lease_token, complete()).await;
    assert_eq!(
        pull(&mut client, "q", Duration::from_millis(500)).await,
        None
    );
    assert_eq!(dead(&mut client, "q").await, []);
    create(&mut client, "q", "foo").await;
}

// ---- many at the same moment ----

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_that_are_due_at_once_are_served_promptly_with_little_capacity() {
    due_at_once(Duration::from_secs(15)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_many_leases_that_ran_out_at_once_are_served_again_promptly() {
    const JOBS: usize = 200;
    let (_nats, server) = one_server().await;
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    submit_many(&mut client, JOBS, None).await;
    let request = proto::PullRequest {
        queue: "q".into(),
        max_jobs: u32::try_from(JOBS).expect("a few"),
        wait: Some(wire(SOON)),
        ..Default::default()
    };
    // Taken by a worker that is never heard of again.
    let mut taken = 0;
    while taken < JOBS {
        let pulled = client.pull(request.clone()).await.expect("an answer");
        taken += pulled.into_inner().deliveries.len();
    }
    let ran_out = Instant::now() + SHORT_LEASE + MARGIN;
    let mut session = Session::open(&mut client, hello("worker", "q", 10)).await;
    let served = serve_all(&mut session, JOBS, 2).await;
    let late = Instant::now().saturating_duration_since(ran_out);
    assert_eq!(served.len(), JOBS);
    assert!(late < LOADED * 2, "the last one came {late:?} late");
}

/// 200 jobs with one delay, and a session that holds ten at a time. `lease` is long: a job that JetStream
/// puts off by one wait would be seen.
async fn due_at_once(lease: Duration) {
    const JOBS: usize = 200;
    let (_nats, server) = one_server().await;
    let config = proto::QueueConfig {
        lease_duration: Some(wire(lease)),
        ..short_lease()
    };
    make_queue(&server, "q", config).await;
    let mut client = client(&server).await;
    let mut session = Session::open(&mut client, hello("worker", "q", 10)).await;
    let delay = Duration::from_secs(3);
    let at = Instant::now() + delay;
    submit_many(&mut client, JOBS, Some(delay)).await;
    let submitted = Instant::now() + delay;
    let served = serve_all(&mut session, JOBS, 1).await;
    let now = Instant::now();
    assert_eq!(served.len(), JOBS);
    assert!(now + ROUNDED >= at, "too early");
    let late = now.saturating_duration_since(submitted);
    assert!(late < LOADED, "the last one came {late:?} late");
}

/// Submits jobs in one batch.
async fn submit_many(client: &mut Client, jobs: usize, delay: Option<Duration>) {
    let items = (0..jobs)
        .map(|n| proto::SubmitRequest {
            start: delay.map(|delay| Start::Delay(wire(delay))),
            ..submit("q", &format!("key-{n}"), "payload")
        })
        .collect();
    let request = proto::SubmitBatchRequest { items };
    let results = client
        .submit_batch(request)
        .await
        .expect("verdicts")
        .into_inner()
        .results;
    for result in results {
        match result.result {
            Some(Wire::Response(response)) => {
                assert_eq!(response.outcome(), SubmitOutcome::Created)
            }
            other => panic!("not accepted: {other:?}"),
        }
    }
}

/// Completes whatever comes, at this attempt, until so many jobs have come: each once.
async fn serve_all(session: &mut Session, jobs: usize, attempt: u32) -> HashSet<String> {
    let mut served = HashSet::new();
    while served.len() < jobs {
        for delivery in session.beating().await {
            let job = delivery.job.expect("a job");
            assert_eq!(delivery.attempt, attempt, "{}", job.key);
            assert!(served.insert(job.key), "a job was served twice");
            let settlements = vec![settlement(&delivery.lease_token, complete())];
            session
                .send(Up::Settlements(proto::Settlements { settlements }))
                .await;
        }
    }
    served
}

// ---- how requests and answers are written and read here ----

fn backoff(initial: Duration, max: Duration) -> proto::Backoff {
    proto::Backoff {
        initial: Some(wire(initial)),
        max: Some(wire(max)),
    }
}

/// A job that was failed, as it was submitted.
async fn with_a_dead_letter(client: &mut Client, key: &str) -> proto::Job {
    let first = create(client, "q", key).await;
    let leased = pull(client, "q", SOON).await.expect("the job");
    // Its attempts count for the dead letter, and not for what comes after.
    ack(client, &leased.lease_token, retry_after(Duration::ZERO)).await;
    let leased = pull(client, "q", SOON).await.expect("the job");
    assert_eq!(leased.attempt, 2);
    let settled = ack(client, &leased.lease_token, fail()).await;
    assert_eq!(settled, SettlementOutcome::Settled);
    eventually(SOON, "the dead letter is there", async || {
        let letters = dead(client, "q").await;
        letters
            .iter()
            .any(|l| l.job.as_ref().is_some_and(|j| j.id == first.id))
    })
    .await;
    first
}

async fn redrive(client: &mut Client, dead_ids: &[u64]) -> Vec<proto::RedriveResult> {
    let request = proto::RedriveDeadJobsRequest {
        queue: "q".into(),
        dead_ids: dead_ids.to_vec(),
        max_jobs: 0,
    };
    let response = client.redrive_dead_jobs(request).await.expect("an answer");
    response.into_inner().results
}

/// The outcome of one redrive, or the reason of its error.
fn outcome_of(result: &proto::RedriveResult) -> Result<SubmitOutcome, String> {
    match result.result.as_ref().and_then(|r| r.result.as_ref()) {
        Some(Wire::Response(response)) => Ok(response.outcome()),
        Some(Wire::Error(error)) => Err(error.reason.clone()),
        None => Err(String::new()),
    }
}
