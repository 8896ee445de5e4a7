//! Settled means free (law 7).

use super::*;

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
