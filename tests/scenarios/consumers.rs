//! Consumers that somebody deleted.

use std::time::Duration;

use keywork_testkit::eventually_some;

use crate::support::{client, cluster_with_two_servers, create, make_queue, pull, short_lease};

/// There is no stream of end records where all queues have three replicas, and none is missed.
#[tokio::test(flavor = "multi_thread")]
async fn law_5_a_replicated_queue_whose_consumer_was_deleted_is_served_again() {
    const WITHIN: Duration = Duration::from_secs(60);
    let (cluster, server, _other) = cluster_with_two_servers().await;
    make_queue(&server, "reconcile", short_lease()).await;
    let mut client = client(&server).await;
    let job = create(&mut client, "reconcile", "foo-123").await;

    let jetstream = async_nats::jetstream::new(cluster.connect().await);
    let stream = jetstream.get_stream("WORK_reconcile").await;
    let deleted = stream
        .expect("the queue's stream")
        .delete_consumer("workers")
        .await;
    assert!(deleted.expect("an answer").success);

    let leased = eventually_some(WITHIN, "the job is delivered", async || {
        pull(&mut client, "reconcile", Duration::from_secs(1)).await
    });
    assert_eq!(leased.await.job.expect("a job").id, job.id);
}
