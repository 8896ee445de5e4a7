//! NATS is gone, or silent (law 8).

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn law_8_with_nats_gone_nothing_happened_and_it_works_again_by_itself() {
    let (nats, server) = one_server().await;
    // What may have been leased before NATS was killed is left alone for two waits of its.
    make_queue(&server, "q", short_lease()).await;
    let mut client = client(&server).await;
    create(&mut client, "q", "before").await;
    nats.kill();
    eventually(SOON, "the server has noticed", async || {
        let status = client.submit(submit("q", "during", "payload")).await;
        status.is_err_and(|status| side_effects(&status) == "none")
    })
    .await;
    // Calls on what is open and on what is not.
    for queue in ["q", "not-open"] {
        let began = Instant::now();
        let refused = client.submit(submit(queue, "during", "payload")).await;
        let status = refused.expect_err("NATS is away");
        assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
        assert_eq!(
            (status.code(), side_effects(&status)),
            (Code::Unavailable, "none")
        );
        assert_reason(&status, "NATS_UNAVAILABLE");
        assert!(status.get_details_retry_info().is_some());
    }
    let request = proto::SubmitBatchRequest {
        items: vec![submit("q", "during", "payload"), submit("q", "", "payload")],
    };
    let results = client
        .submit_batch(request)
        .await
        .expect("verdicts")
        .into_inner()
        .results;
    let verdicts: Vec<_> = results.iter().map(verdict).collect();
    assert_eq!(verdicts, ["Unavailable ", "InvalidArgument key"]);
    let first = match &results[0].result {
        Some(Wire::Error(error)) => error.clone(),
        other => panic!("no error: {other:?}"),
    };
    assert!(!first.side_effects_unknown && first.retry_after.is_some());

    flat_memory(&server, Duration::from_secs(8)).await;

    nats.restart().await;
    eventually(SOON, "it works again", async || {
        client.submit(submit("q", "after", "payload")).await.is_ok()
    })
    .await;
    // What was said not to have happened has not.
    assert_eq!(job(&mut client, "q", "during").await, None);
    assert!(job(&mut client, "q", "before").await.is_some());
    assert!(pull(&mut client, "q", SOON).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn law_8_with_nats_silent_it_is_unknown_what_happened_and_a_retry_finds_out() {
    let (nats, server) = one_server().await;
    let mut client = client(&server).await;
    create(&mut client, "q", "before").await;
    nats.pause();
    let began = Instant::now();
    let unknown = with_id(submit("q", "during", "payload"), 1);
    let refused = client.submit(unknown.clone()).await;
    let status = refused.expect_err("NATS is silent");
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    assert_eq!(
        (status.code(), side_effects(&status)),
        (Code::Unavailable, "unknown")
    );
    assert_reason(&status, "NATS_NO_ANSWER");

    flat_memory(&server, Duration::from_secs(12)).await;

    nats.resume();
    let (outcome, job) = eventually_some(SOON, "the retry has an answer", async || {
        let response = client.submit(unknown.clone()).await.ok()?.into_inner();
        Some((response.outcome(), response.job.unwrap_or_default()))
    })
    .await;
    assert!(matches!(
        outcome,
        SubmitOutcome::Created | SubmitOutcome::Duplicate
    ));
    assert_eq!(job.id, unknown.request_id);
    let mut keys = HashSet::new();
    while !keys.contains("during") {
        let leased = pull(&mut client, "q", SOON)
            .await
            .expect("the job is served");
        keys.insert(leased.job.expect("a job").key);
    }
}

/// Submits as fast as it is answered, and sees to it that the server's memory does not grow.
async fn flat_memory(server: &KeyworkServer, time: Duration) {
    let until = Instant::now() + time;
    let client = client(server).await;
    let submits = (0..16).map(|n| {
        let mut client = client.clone();
        async move {
            let payload = Bytes::from(vec![7; 64 * 1024]);
            let mut answers = 0u64;
            while Instant::now() < until {
                let items = (0..8)
                    .map(|i| proto::SubmitRequest {
                        payload: payload.clone(),
                        ..submit("q", &format!("flood-{n}-{i}"), "")
                    })
                    .collect();
                let request = proto::SubmitBatchRequest { items };
                let results = client
                    .submit_batch(request)
                    .await
                    .expect("verdicts")
                    .into_inner()
                    .results;
                assert!(
                    results.iter().all(|r| verdict(r) == "Unavailable "),
                    "{results:?}"
                );
                answers += 8;
            }
            answers
        }
    });
    let measure = async {
        // What a server of many calls needs at all is there after a while.
        sleep(time / 4).await;
        let early = resident_kib(server);
        sleep(time / 2).await;
        (early, resident_kib(server))
    };
    let (answers, (early, late)) = tokio::join!(join_all(submits), measure);
    let answers: u64 = answers.iter().sum();
    assert!(
        answers >= 128,
        "too few submits to prove anything: {answers}"
    );
    assert!(
        late < early + 48 * 1024,
        "grew from {early} to {late} KiB over {answers} submits"
    );
}

fn resident_kib(server: &KeyworkServer) -> u64 {
    let pid = server.pid().expect("a server that runs");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process's status");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("its memory");
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number")
}
