//! The nats-server that both sides work on: alone, with a file store in a directory of its own.

use std::{fs, path::Path, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    error::Error,
    options::Options,
    process::{self, Process},
};

const READY_WITHIN: Duration = Duration::from_secs(10);

/// A running nats-server.
#[derive(Debug)]
pub(crate) struct NatsServer {
    process: Process,
    port: u16,
}

impl NatsServer {
    /// Starts it with its store and log under `dir`, and waits until it accepts connections.
    pub(crate) async fn start(options: &Options, dir: &Path) -> Result<Self, Error> {
        let port = process::free_port()?;
        let config = dir.join("nats.conf");
        fs::write(&config, text(options, dir, port))
            .map_err(Error::io("write nats-server's configuration"))?;
        let args = ["--config".into(), config.display().to_string()];
        let process = Process::start(&options.nats_server(), &args, dir.join("nats.log"))?;
        let server = Self { process, port };
        server.wait().await?;
        Ok(server)
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Stops it.
    pub(crate) async fn stop(self) {
        self.process.stop().await;
    }

    async fn wait(&self) -> Result<(), Error> {
        let until = Instant::now() + READY_WITHIN;
        while async_nats::connect(self.url()).await.is_err() {
            if Instant::now() >= until {
                return Err(self.process.not_ready("nats-server", READY_WITHIN));
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

fn text(options: &Options, dir: &Path, port: u16) -> String {
    let (sync, store) = (&options.sync_interval, dir.join("store"));
    format!(
        "listen: \"127.0.0.1:{port}\"\n\
         jetstream {{\n  store_dir: \"{}\"\n  sync_interval: {sync}\n}}\n",
        store.display()
    )
}
