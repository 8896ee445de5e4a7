//! Three real nats-servers that form one JetStream cluster.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use async_nats::jetstream::stream;
use tokio::sync::Mutex;

use crate::{NatsOptions, NatsServer, eventually, free_port, nats::impatient};

const START: Duration = Duration::from_secs(45);
const NODES: usize = 3;

/// Three nodes with routes to one another; dropping it kills them and removes their stores.
#[derive(Debug)]
pub struct NatsCluster {
    nodes: Vec<NatsServer>,
}

impl NatsCluster {
    /// Starts three nodes, and waits until a stream of three replicas can be made.
    ///
    /// # Panics
    ///
    /// When there is no nats-server, or the nodes do not find one another.
    pub async fn start() -> Self {
        Self::start_with(NatsOptions::default()).await
    }

    /// As [`NatsCluster::start`], with `options` for each node.
    ///
    /// # Panics
    ///
    /// As [`NatsCluster::start`].
    pub async fn start_with(options: NatsOptions) -> Self {
        let routes: Vec<u16> = (0..NODES).map(|_| free_port()).collect();
        let nodes = routes
            .iter()
            .zip(1..)
            .map(|(own, number)| {
                let config = format!("{}\n{}", cluster_config(*own, &routes), options.config);
                NatsServer::prepare(
                    &format!("nats-{number}"),
                    NatsOptions {
                        config,
                        ..options.clone()
                    },
                )
            })
            .collect();
        let cluster = Self { nodes };
        cluster.restart().await;
        cluster
    }

    /// One cluster for all the tests of a process that want it at the same time, and that do it no
    /// harm: each keeps to streams of its own. It ends with the last of them.
    ///
    /// # Panics
    ///
    /// As [`NatsCluster::start`].
    pub async fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<NatsCluster>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(cluster) = shared.upgrade() {
            return cluster;
        }
        let cluster = Arc::new(Self::start().await);
        *shared = Arc::downgrade(&cluster);
        cluster
    }

    /// The nodes: each can be killed, stopped, paused and restarted alone.
    pub fn nodes(&self) -> &[NatsServer] {
        &self.nodes
    }

    /// The node that calls itself `name` (as leaders are named in the state of a stream).
    ///
    /// # Panics
    ///
    /// When there is no such node.
    pub fn node(&self, name: &str) -> &NatsServer {
        self.nodes
            .iter()
            .find(|node| node.name() == name)
            .unwrap_or_else(|| panic!("no node is called {name}"))
    }

    /// All URLs.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(NatsServer::url).collect()
    }

    /// All URLs with commas between, as `--nats-url` takes them.
    pub fn url(&self) -> String {
        self.urls().join(",")
    }

    /// SIGKILL to all three at once.
    pub fn kill(&self) {
        self.nodes.iter().for_each(NatsServer::kill);
    }

    /// Starts all three again on their stores and ports, and waits until the cluster works.
    ///
    /// # Panics
    ///
    /// When it does not.
    pub async fn restart(&self) {
        self.nodes.iter().for_each(NatsServer::spawn);
        for node in &self.nodes {
            node.wait_until_ready().await;
        }
        self.wait_until_whole().await;
    }

    /// Waits until a stream of three replicas can be made, which takes a leader of the cluster that
    /// has seen all three nodes.
    ///
    /// # Panics
    ///
    /// When it cannot in time.
    pub async fn wait_until_whole(&self) {
        const NAME: &str = "TESTKIT_READY";
        let context = impatient(self.connect().await);
        let probe = stream::Config {
            name: NAME.into(),
            num_replicas: NODES,
            storage: stream::StorageType::Memory,
            ..Default::default()
        };
        eventually(START, "three nats-servers form a cluster", async || {
            context.create_stream(&probe).await.is_ok()
        })
        .await;
        eventually(START, "the probing stream is deleted", async || {
            context.delete_stream(NAME).await.is_ok()
        })
        .await;
    }

    /// A new connection to any of the nodes.
    ///
    /// # Panics
    ///
    /// When none takes it.
    pub async fn connect(&self) -> async_nats::Client {
        async_nats::connect(self.urls())
            .await
            .unwrap_or_else(|error| panic!("failed to connect to the cluster: {error}"))
    }
}

fn cluster_config(own: u16, all: &[u16]) -> String {
    let routes: Vec<String> = all
        .iter()
        .map(|port| format!("\"nats://127.0.0.1:{port}\""))
        .collect();
    format!(
        "cluster {{ name: \"testkit\", listen: \"127.0.0.1:{own}\", routes: [{}] }}",
        routes.join(", ")
    )
}
