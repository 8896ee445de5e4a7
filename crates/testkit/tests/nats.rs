//! The nats-servers of the test kit do what their names say.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use async_nats::jetstream::{self, stream};
use keywork_testkit::{NatsCluster, NatsServer, eventually};

const SOON: Duration = Duration::from_secs(10);

async fn stored(server: &NatsServer) -> u64 {
    let context = jetstream::new(server.connect().await);
    context
        .get_stream("KEPT")
        .await
        .unwrap()
        .cached_info()
        .state
        .messages
}

async fn store_one(server: &NatsServer) {
    let context = jetstream::new(server.connect().await);
    let config = stream::Config {
        name: "KEPT".into(),
        subjects: vec!["kept".into()],
        ..Default::default()
    };
    context.get_or_create_stream(config).await.unwrap();
    context
        .publish("kept", "x".into())
        .await
        .unwrap()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_restart_keeps_the_store_and_the_port() {
    let server = NatsServer::start().await;
    let url = server.url();
    store_one(&server).await;

    server.kill();
    assert!(async_nats::connect(server.url()).await.is_err());
    server.restart().await;
    assert_eq!(stored(&server).await, 1);

    server.stop().await;
    assert_eq!(server.pid(), None);
    server.restart().await;
    assert_eq!(stored(&server).await, 1);
    assert_eq!(server.url(), url);
}

#[tokio::test]
async fn a_paused_server_answers_nothing_until_it_is_resumed() {
    let server = NatsServer::start().await;
    let client = server.connect().await;
    server.pause();
    let asked = jetstream::new(client);
    let unanswered = tokio::time::timeout(Duration::from_millis(200), asked.query_account()).await;
    assert!(unanswered.is_err(), "{unanswered:?}");
    server.resume();
    eventually(SOON, "the resumed server answers", async || {
        asked.query_account().await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let server = NatsServer::start().await;
    let (url, dir) = (server.url(), server.dir().to_owned());
    drop(server);
    assert!(async_nats::connect(url).await.is_err());
    assert!(!dir.exists());
}

#[tokio::test]
async fn a_cluster_outlives_one_of_its_nodes() {
    let cluster = NatsCluster::shared().await;
    let context = jetstream::ContextBuilder::new()
        .timeout(Duration::from_millis(500))
        .build(cluster.connect().await);
    let config = stream::Config {
        name: "KEPT".into(),
        subjects: vec!["kept".into()],
        num_replicas: 3,
        ..Default::default()
    };
    let stream = context.create_stream(config).await.unwrap();
    let leader = stream
        .cached_info()
        .cluster
        .as_ref()
        .unwrap()
        .leader
        .clone()
        .unwrap();

    cluster.node(&leader).kill();
    eventually(SOON, "the others store a message", async || {
        match context.publish("kept", "x".into()).await {
            Ok(ack) => ack.await.is_ok(),
            Err(_) => false,
        }
    })
    .await;
    cluster.node(&leader).restart().await;
    cluster.wait_until_whole().await;
}
