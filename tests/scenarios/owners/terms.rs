//! What goes with a lease: its duration, its fencing number.

use super::*;

/// Changes a queue's lease duration.
async fn change_lease(server: &KeyworkServer, duration: Duration) {
    let request = proto::UpdateQueueRequest {
        name: QUEUE.into(),
        config: Some(lease_of(duration)),
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["lease_duration".into()],
        }),
    };
    let updated = admin(server).await.update_queue(request).await;
    updated.expect("the queue is changed");
}

/// How long JetStream waits for a settlement.
async fn ack_wait(nats: &NatsServer) -> Duration {
    let context = async_nats::jetstream::new(nats.connect().await);
    let name = format!("WORK_{QUEUE}");
    let stream = context.get_stream(&name).await.expect("the stream");
    let mut names = std::pin::pin!(stream.consumer_names());
    let consumer = futures::StreamExt::next(&mut names).await;
    let consumer = consumer.expect("a consumer").expect("its name");
    let info = stream.consumer_info(consumer).await.expect("its state");
    info.config.ack_wait
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_no_lease_is_lost_when_the_lease_duration_changes() {
    let (nats, a, b) = two_servers().await;
    make_queue(&a, QUEUE, lease_of(2 * SHORT_LEASE)).await;
    let ledger = Arc::new(Ledger::default());
    let workers: Vec<_> = [(&a, "w-a"), (&b, "w-b"), (&a, "w-c")]
        .into_iter()
        .map(|(server, name)| {
            let worker = Careful {
                name: name.into(),
                queue: QUEUE.into(),
                endpoints: vec![server.endpoint()],
                capacity: 40,
                longest: 3 * SHORT_LEASE,
                ledger: Arc::clone(&ledger),
            };
            worker.start()
        })
        .collect();
    let mut submitting = JoinSet::new();
    let mut at = client(&b).await;
    submitting.spawn(async move {
        loop {
            for key in keys("key", 150) {
                offer(&mut at, submit(QUEUE, &key, "again")).await;
            }
            sleep(Duration::from_millis(50)).await;
        }
    });
    let settled = |least: u32| {
        let ledger = Arc::clone(&ledger);
        async move {
            eventually(SOON * 2, "jobs are done", async || {
                ledger.settlements().values().sum::<u32>() >= least
            })
            .await;
            ledger.settlements().values().sum::<u32>()
        }
    };
    let before = settled(40).await;
    change_lease(&a, SHORT_LEASE).await;
    let shortened = SHORT_LEASE + Duration::from_secs(1);
    eventually(3 * SOON, "JetStream's wait is shortened", async || {
        ack_wait(&nats).await == shortened
    })
    .await;
    let between = settled(before + 150).await;
    change_lease(&b, 2 * SHORT_LEASE).await;
    settled(between + 150).await;
    drop((workers, submitting));
    ledger.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn fencing_numbers_grow_with_each_lease_of_a_key() {
    let (_nats, server) = one_server().await;
    let mut at = client(&server).await;
    let mut newest = 0;
    for _ in 0..3 {
        make_queue(&server, QUEUE, short_lease()).await;
        create(&mut at, QUEUE, "key").await;
        let now = || retry_after(Duration::ZERO);
        for outcome in [release(), now(), release(), complete()] {
            let leased = pull(&mut at, QUEUE, SOON).await.expect("the job");
            assert!(leased.fencing_number > newest, "{leased:?}");
            newest = leased.fencing_number;
            assert_eq!(
                ack(&mut at, &leased.lease_token, outcome).await,
                Settled::Settled
            );
        }
        create(&mut at, QUEUE, "key").await;
        let leased = pull(&mut at, QUEUE, SOON).await.expect("the next job");
        assert!(leased.fencing_number > newest, "{leased:?}");
        newest = leased.fencing_number;
        let request = proto::DeleteQueueRequest {
            name: QUEUE.into(),
            force: true,
        };
        let deleted = admin(&server).await.delete_queue(request).await;
        deleted.expect("the queue is deleted");
    }
}
