//! The server that is measured.

use std::{path::Path, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    error::Error,
    keywork::Keywork,
    options::Options,
    process::{self, Process},
};

const READY_WITHIN: Duration = Duration::from_secs(15);

/// A running Keywork server.
#[derive(Debug)]
pub(crate) struct KeyworkServer {
    process: Process,
    port: u16,
}

impl KeyworkServer {
    /// Starts it in front of `nats`, with its log under `dir`, and waits until it answers.
    pub(crate) async fn start(options: &Options, nats: &str, dir: &Path) -> Result<Self, Error> {
        let port = process::free_port()?;
        let args = [
            "serve".into(),
            "--listen".into(),
            format!("127.0.0.1:{port}"),
            "--nats-url".into(),
            nats.into(),
        ];
        let process = Process::start(&options.keywork_bin, &args, dir.join("keywork.log"))?;
        let server = Self { process, port };
        server.wait().await?;
        Ok(server)
    }

    /// A connection to it.
    pub(crate) async fn connect(&self) -> Result<Keywork, Error> {
        Keywork::connect(format!("http://127.0.0.1:{}", self.port)).await
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
        loop {
            if let Ok(mut keywork) = self.connect().await
                && keywork.answers().await
            {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(self.process.not_ready("keywork", READY_WITHIN));
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}
