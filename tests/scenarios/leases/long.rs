//! Jobs and delays that are longer than a lease.

use super::*;

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
