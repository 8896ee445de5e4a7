//! What scenarios are played in: a nats-server, a Keywork server on it, and a client of the runner's own.

use std::{env, io, path::PathBuf};

use keywork_sdk::Client;
use keywork_testkit::{KeyworkServer, NatsServer};

/// One nats-server and one Keywork server.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) nats: NatsServer,
    pub(crate) server: KeyworkServer,
}

impl World {
    /// Starts both. Panics, with their logs, when they do not come up.
    pub(crate) async fn start() -> Self {
        let nats = NatsServer::start().await;
        let server = KeyworkServer::at(server_binary())
            .nats(nats.url())
            .start()
            .await;
        Self { nats, server }
    }
}

/// The server under test: `KEYWORK_BIN`, or the one that was built beside this program.
pub(crate) fn server_binary() -> PathBuf {
    env::var_os("KEYWORK_BIN").map_or_else(|| beside("keywork"), PathBuf::from)
}

fn beside(name: &str) -> PathBuf {
    let own: io::Result<PathBuf> = env::current_exe();
    own.map(|own| own.with_file_name(name)).unwrap_or_default()
}

/// Where what was built stands.
pub(crate) fn target_dir() -> PathBuf {
    beside("")
}

/// A client of the runner's own, straight to a server.
pub(crate) fn client(endpoint: &str) -> Result<Client, keywork_sdk::Error> {
    Client::builder()
        .endpoint(endpoint)
        .submit_deadline(std::time::Duration::from_secs(20))
        .build()
}
