//! The field that both sides play on: one nats-server, one Keywork in front of it, and a meter.

use std::{
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde::Serialize;
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    cpu::Cpu, error::Error, keywork::Keywork, keywork_server::KeyworkServer,
    nats_server::NatsServer, options::Options, straight::Wire,
};

/// How long one run may take.
const MOST: Duration = Duration::from_secs(300);
/// The pause before a run, in which both servers finish what the last one left them to do.
const SETTLE_DOWN: Duration = Duration::from_millis(500);

/// One timed run of one side.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Run {
    /// Jobs that were done.
    pub(crate) jobs: u64,
    /// Wall-clock seconds.
    pub(crate) seconds: f64,
    /// CPU seconds.
    pub(crate) cpu: Cpu,
}

impl Run {
    /// Jobs a second.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts are far below what loses precision"
    )]
    pub(crate) fn rate(&self) -> f64 {
        self.jobs as f64 / self.seconds
    }
}

/// The servers.
#[derive(Debug)]
pub(crate) struct Field {
    nats: NatsServer,
    keywork: KeyworkServer,
    names: AtomicU64,
    /// Holds the store and the logs; removed at the end.
    _dir: TempDir,
}

impl Field {
    /// Starts both servers.
    pub(crate) async fn start(options: &Options) -> Result<Self, Error> {
        let dir = tempfile::Builder::new().prefix("keywork-bench-").tempdir();
        let dir = dir.map_err(Error::io("make a directory for the servers"))?;
        let nats = NatsServer::start(options, dir.path()).await?;
        let keywork = KeyworkServer::start(options, &nats.url(), dir.path()).await;
        let keywork = match keywork {
            Ok(keywork) => keywork,
            Err(error) => {
                // Their logs say why.
                drop(dir.keep());
                return Err(error);
            }
        };
        let names = AtomicU64::new(0);
        Ok(Self {
            nats,
            keywork,
            names,
            _dir: dir,
        })
    }

    /// Stops both servers.
    pub(crate) async fn stop(self) {
        self.keywork.stop().await;
        self.nats.stop().await;
    }

    /// A connection to nats-server with a stream of its own.
    pub(crate) async fn straight(&self) -> Result<Wire, Error> {
        Wire::open(&self.nats.url(), &self.name()).await
    }

    /// A connection to Keywork, and a queue that is new.
    pub(crate) async fn keywork(&self) -> Result<(Keywork, String), Error> {
        let mut keywork = self.keywork.connect().await?;
        let queue = self.name();
        keywork.create_queue(&queue).await?;
        Ok((keywork, queue))
    }

    fn name(&self) -> String {
        format!("bench-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// Measures `work`, which does `jobs` jobs.
    pub(crate) async fn time<T>(
        &self,
        jobs: u64,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<(Run, T), Error> {
        sleep(SETTLE_DOWN).await;
        let before = self.cpu();
        let began = Instant::now();
        let done = timeout(MOST, work)
            .await
            .map_err(|_| Error::Stuck(MOST))??;
        let seconds = began.elapsed().as_secs_f64();
        let cpu = self.cpu().since(before);
        Ok((Run { jobs, seconds, cpu }, done))
    }

    fn cpu(&self) -> Cpu {
        Cpu::now(self.keywork.pid(), self.nats.pid())
    }
}
