//! Servers, connections to them, and their queues.

use super::*;

/// One NATS and one server on it.
pub(crate) async fn one_server() -> (NatsServer, KeyworkServer) {
    let nats = NatsServer::start().await;
    let server = server_on(&nats.url()).await;
    (nats, server)
}

/// One more server on a NATS.
pub(crate) async fn server_on(url: &str) -> KeyworkServer {
    KeyworkServer::at(KEYWORK).nats(url).start().await
}

/// Three NATS nodes and two servers whose queues have three replicas.
pub(crate) async fn cluster_with_two_servers() -> (NatsCluster, KeyworkServer, KeyworkServer) {
    let cluster = NatsCluster::start().await;
    let a = replicated_server_on(&cluster).await;
    let b = replicated_server_on(&cluster).await;
    (cluster, a, b)
}

/// A server whose queues have three replicas.
pub(crate) async fn replicated_server_on(cluster: &NatsCluster) -> KeyworkServer {
    let builder = KeyworkServer::at(KEYWORK).nats(cluster.url());
    builder.arg("--replicas").arg("3").start().await
}

/// A client of a server.
pub(crate) async fn client(server: &KeyworkServer) -> Client {
    WorkQueueClient::new(channel(&server.endpoint()).await)
}

/// A client for queues.
pub(crate) async fn admin(server: &KeyworkServer) -> Admin {
    QueueAdminClient::new(channel(&server.endpoint()).await)
}

/// The node that leads a queue's consumer, as any other one says.
pub(crate) async fn leader_of_consumer(cluster: &NatsCluster, queue: &str) -> String {
    let context = jetstream::new(cluster.connect().await);
    eventually_some(SOON, "the consumer has a leader", async || {
        let stream = context.get_stream(format!("WORK_{queue}")).await.ok()?;
        let mut consumer: jetstream::consumer::PullConsumer =
            stream.get_consumer("workers").await.ok()?;
        let info = consumer.info().await.ok()?;
        info.cluster.as_ref()?.leader.clone()
    })
    .await
}

/// How many sessions serve a queue, pulls included.
pub(crate) async fn sessions_of(server: &KeyworkServer, queue: &str) -> u32 {
    let request = proto::GetQueueRequest { name: queue.into() };
    let answer = admin(server).await.get_queue(request).await;
    let queue = answer.expect("a queue").into_inner().queue;
    queue.and_then(|q| q.stats).expect("counts").sessions
}

/// A connection to an endpoint such as `http://127.0.0.1:50051`.
pub(crate) async fn channel(endpoint: &str) -> Channel {
    let endpoint = Channel::from_shared(endpoint.to_owned()).expect("an endpoint");
    endpoint
        .tcp_nodelay(true)
        .connect()
        .await
        .expect("a server that listens")
}

/// Makes a queue. A cluster that was just formed may say for a while that nobody answers.
pub(crate) async fn make_queue(server: &KeyworkServer, name: &str, config: proto::QueueConfig) {
    let mut admin = admin(server).await;
    eventually(2 * SOON, "a queue is made", async || {
        let request = proto::CreateQueueRequest {
            name: name.into(),
            config: Some(config),
        };
        match admin.create_queue(request).await {
            Ok(_) => true,
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
                false
            }
        }
    })
    .await;
}

/// A configuration with the shortest lease and short waits.
pub(crate) fn short_lease() -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(SHORT_LEASE)),
        backoff: Some(proto::Backoff {
            initial: Some(wire(Duration::from_millis(100))),
            max: Some(wire(Duration::from_secs(1))),
        }),
        ..proto::QueueConfig::default()
    }
}
