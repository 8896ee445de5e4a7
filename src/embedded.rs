//! The nats-server that comes with a Keywork server which was told of no other.
//!
//! It owns one data directory, and a real nats-server process on a random port of the loopback with a
//! random credential. The process ends with this one, however this one ends; when it ends by itself
//! it is started again on the same port. To the rest of the server it is a NATS like any other.
//!
//! The process is started through ourselves (`keywork embedded-nats …`, see [`run_if_asked`]): that
//! takes no unsafe code, which preparing a child between fork and exec would.

mod binary;
mod child;
mod config;
mod data_dir;
mod supervisor;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::AsyncReadExt,
    net::TcpStream,
    time::{sleep, timeout},
};

use child::Launch;
use data_dir::DataDir;
use supervisor::Supervisor;

pub use binary::Version;
pub(crate) use child::own_executable;
pub use child::run_if_asked;
pub use config::{Credential, Sync};

/// A store of many millions of jobs takes a while to load.
const START: Duration = Duration::from_secs(120);
/// How often another port is tried when somebody else takes the one that was free a moment ago.
const PORTS: usize = 3;

/// How to run the embedded nats-server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where everything is kept that has to outlive the process. Made when it is missing.
    pub data_dir: PathBuf,
    /// The nats-server to run. Default: the one next to the `keywork` executable, else one in
    /// `.tools/bin` here or above, else the first on PATH.
    pub nats_server: Option<PathBuf>,
    /// When what was stored is synced to disk.
    pub sync: Sync,
    /// The `keywork` executable. Default: the running one.
    pub keywork: Option<PathBuf>,
}

impl Settings {
    /// The usual settings, with everything kept in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            nats_server: None,
            sync: Sync::EverySecond,
            keywork: None,
        }
    }
}

/// Why the embedded nats-server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The data directory cannot be made, written to or locked.
    #[error("failed to use the data directory {path}: {source}")]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process works on the data directory.
    #[error(
        "failed to lock the data directory {path}: another keywork uses it, or its nats-server has not ended yet"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// There is no nats-server.
    #[error(
        "failed to find nats-server next to keywork, in .tools/bin and on PATH: install it (2.15.1 or later), name it with --nats-server, or name a NATS that runs with --nats-url"
    )]
    NoBinary,
    /// What was found does not say which version of nats-server it is.
    #[error("failed to ask {path} for its version: {reason}")]
    NoVersion {
        /// The file that was run.
        path: PathBuf,
        /// What came instead of a version.
        reason: String,
    },
    /// The nats-server is older than what Keywork needs.
    #[error(
        "{path} is nats-server {found}, and keywork needs {} or later: older ones cannot replace a job atomically in a full subject",
        binary::LEAST
    )]
    TooOld {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
    /// It was started, and does not work.
    #[error("failed to start nats-server: {reason}; see {log}")]
    Start {
        /// How it ended, or that it did not answer in time.
        reason: String,
        /// Its log.
        log: PathBuf,
    },
}

/// A nats-server that runs for as long as this value does.
#[derive(Debug)]
pub struct Embedded {
    address: SocketAddr,
    credential: Credential,
    supervisor: Supervisor,
}

impl Embedded {
    /// Starts it, and waits until it answers.
    ///
    /// # Errors
    ///
    /// When the data directory or the nats-server cannot be used, as [`EmbeddedError`] says.
    pub async fn start(settings: Settings) -> Result<Self, EmbeddedError> {
        let server = binary::find(settings.nats_server.as_deref()).await?;
        let dir = DataDir::open(&settings.data_dir).await?;
        let keywork = settings.keywork.unwrap_or_else(child::own_executable);
        let mut attempt = 1;
        loop {
            let address = (Ipv4Addr::LOCALHOST, config::free_port()).into();
            let started = Self::start_at(address, &keywork, &server, &dir, settings.sync).await;
            if started.is_ok() || attempt == PORTS || config::is_free(address) {
                return started;
            }
            attempt += 1;
        }
    }

    /// `nats://127.0.0.1:PORT`, without the credential; the same for as long as this value lives.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// What a client must show to connect.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// The process id of nats-server, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.supervisor.pid()
    }

    /// Ends it: asks it to, and kills it when it has not ended after `grace`.
    pub async fn stop(self, grace: Duration) {
        self.supervisor.stop(grace).await;
    }

    async fn start_at(
        address: SocketAddr,
        keywork: &Path,
        server: &Path,
        dir: &DataDir,
        sync: Sync,
    ) -> Result<Self, EmbeddedError> {
        let credential = Credential::random();
        let config = dir.write_config(&config::text(dir, address, &credential, sync))?;
        let supervisor = Supervisor::start(Launch {
            keywork: keywork.into(),
            server: server.into(),
            config,
            lock: dir.lock(),
        });
        match answers(address, &supervisor).await {
            Ok(()) => Ok(Self {
                address,
                credential,
                supervisor,
            }),
            Err(reason) => {
                supervisor.stop(Duration::ZERO).await;
                Err(EmbeddedError::Start {
                    reason,
                    log: dir.log_file(),
                })
            }
        }
    }
}

/// Waits until something at `address` greets as NATS does, or the reason why that will not come.
async fn answers(address: SocketAddr, supervisor: &Supervisor) -> Result<(), String> {
    tokio::select! {
        () = greeted(address) => Ok(()),
        reason = supervisor.ended() => Err(reason),
        () = sleep(START) => Err(format!("it did not answer within {START:?}")),
    }
}

async fn greeted(address: SocketAddr) {
    const POLL: Duration = Duration::from_millis(10);
    const GREETING: &[u8] = b"INFO ";
    loop {
        let mut greeting = [0; GREETING.len()];
        let dialled = timeout(Duration::from_secs(1), async {
            TcpStream::connect(address)
                .await?
                .read_exact(&mut greeting)
                .await
        });
        if matches!(dialled.await, Ok(Ok(_))) && greeting == GREETING {
            return;
        }
        sleep(POLL).await;
    }
}
