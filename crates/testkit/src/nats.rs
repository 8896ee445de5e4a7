//! One real nats-server with JetStream.

use std::{
    env, fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use async_nats::jetstream;
use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};

use crate::{free_port, process::Process};

const START: Duration = Duration::from_secs(20);
const STOP: Duration = Duration::from_secs(20);

/// What may differ from the usual nats-server of a test.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// How often the store is synced to disk: `1s` by default, as Keywork runs it.
    pub sync_interval: String,
    /// The most that JetStream may store in files, as `16MB`; empty: as much as the disk takes.
    pub max_file: String,
    /// Lines for the top level of the configuration file.
    pub config: String,
}

impl Default for NatsOptions {
    fn default() -> Self {
        Self {
            sync_interval: "1s".into(),
            max_file: String::new(),
            config: String::new(),
        }
    }
}

/// A nats-server with a port and a store of its own; dropping it kills it and removes the store.
#[derive(Debug)]
pub struct NatsServer {
    process: Process,
    name: String,
    port: u16,
    options: NatsOptions,
    dir: TempDir,
}

impl NatsServer {
    /// Starts one, and waits until JetStream answers.
    ///
    /// # Panics
    ///
    /// When there is no nats-server, or it does not come up.
    pub async fn start() -> Self {
        Self::start_with(NatsOptions::default()).await
    }

    /// As [`NatsServer::start`], with `options`.
    ///
    /// # Panics
    ///
    /// As [`NatsServer::start`].
    pub async fn start_with(options: NatsOptions) -> Self {
        let server = Self::prepare("nats", options);
        server.restart().await;
        server
    }

    /// One that does not run yet.
    pub(crate) fn prepare(name: &str, options: NatsOptions) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("keywork-nats-")
            .tempdir()
            .unwrap_or_else(|error| panic!("failed to make a temporary directory: {error}"));
        let server = Self {
            process: Process::default(),
            name: name.into(),
            port: free_port(),
            options,
            dir,
        };
        server.write_config();
        server
    }

    /// `nats://127.0.0.1:PORT`; the same after a restart.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// `127.0.0.1:PORT`, to put a [`crate::FaultProxy`] in front of it.
    pub fn address(&self) -> String {
        format!("{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Where its store and its log are.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// SIGKILL: it loses what it had not handed to the system.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// SIGTERM, and waits for the clean end.
    ///
    /// # Panics
    ///
    /// When it does not end in time.
    pub async fn stop(&self) {
        self.process.terminate(STOP, &self.name).await;
    }

    /// Starts it again on the same store and port, after killing it if it still runs; waits until
    /// JetStream answers.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub async fn restart(&self) {
        self.spawn();
        self.wait_until_ready().await;
    }

    /// SIGSTOP: it keeps its connections and answers nothing.
    pub fn pause(&self) {
        self.process.freeze();
    }

    /// SIGCONT: it goes on where [`NatsServer::pause`] froze it.
    pub fn resume(&self) {
        self.process.signal(Signal::SIGCONT);
    }

    /// A new connection to it.
    ///
    /// # Panics
    ///
    /// When it takes none.
    pub async fn connect(&self) -> async_nats::Client {
        async_nats::connect(self.url())
            .await
            .unwrap_or_else(|error| panic!("failed to connect to {}: {error}", self.url()))
    }

    pub(crate) fn spawn(&self) {
        self.process.kill();
        let binary = nats_server_binary();
        self.process
            .spawn(
                Command::new(&binary)
                    .arg("--config")
                    .arg(self.config_file())
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null()),
            )
            .unwrap_or_else(|error| panic!("failed to run {}: {error}", binary.display()));
    }

    pub(crate) async fn wait_until_ready(&self) {
        let end = Instant::now() + START;
        while !self.is_ready().await {
            let ended = self.process.ended();
            assert!(
                ended.is_none() && Instant::now() < end,
                "{} did not come up ({ended:?}); its log:\n{}",
                self.name,
                fs::read_to_string(self.log_file()).unwrap_or_default()
            );
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn is_ready(&self) -> bool {
        // A bare dial first: it is the cheaper way to hear "not yet".
        if TcpStream::connect(self.address()).await.is_err() {
            return false;
        }
        let Ok(client) = async_nats::connect(self.url()).await else {
            return false;
        };
        impatient(client).query_account().await.is_ok()
    }

    fn write_config(&self) {
        let max_file = match self.options.max_file.as_str() {
            "" => String::new(),
            most => format!(", max_file: {most}"),
        };
        let config = format!(
            "server_name: \"{name}\"\n\
             listen: \"{address}\"\n\
             log_file: \"{log}\"\n\
             jetstream {{ store_dir: \"{store}\", sync_interval: \"{sync}\"{max_file} }}\n\
             {more}\n",
            name = self.name,
            address = self.address(),
            log = self.log_file().display(),
            store = self.dir.path().join("store").display(),
            sync = self.options.sync_interval,
            more = self.options.config,
        );
        fs::write(self.config_file(), config)
            .unwrap_or_else(|error| panic!("failed to write the configuration: {error}"));
    }

    fn config_file(&self) -> PathBuf {
        self.dir.path().join("nats.conf")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("nats-server.log")
    }
}

/// JetStream for asking again and again: a cluster that has no leader does not answer at all.
pub(crate) fn impatient(client: async_nats::Client) -> jetstream::Context {
    jetstream::ContextBuilder::new()
        .timeout(Duration::from_millis(500))
        .build(client)
}

/// The nats-server to use: `KEYWORK_NATS_SERVER`, or the one in the workspace's `.tools/bin`, or the
/// first on PATH.
///
/// # Panics
///
/// When there is none.
pub fn nats_server_binary() -> PathBuf {
    if let Some(named) = env::var_os("KEYWORK_NATS_SERVER") {
        return named.into();
    }
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/bin");
    let path = env::var_os("PATH").unwrap_or_default();
    std::iter::once(ours)
        .chain(env::split_paths(&path))
        .map(|dir| dir.join("nats-server"))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("there is no nats-server: run tools/install-nats-server"))
}
