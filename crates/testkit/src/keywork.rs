//! One real Keywork server: the built `keywork serve`.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};

use crate::{free_port, process::Process};

const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(60);

/// How to start a [`KeyworkServer`].
#[derive(Debug)]
pub struct KeyworkBuilder {
    binary: PathBuf,
    args: Vec<OsString>,
    envs: Vec<(OsString, OsString)>,
}

impl KeyworkBuilder {
    /// The NATS that it works on; without this it embeds one.
    #[must_use]
    pub fn nats(self, url: impl AsRef<OsStr>) -> Self {
        self.arg("--nats-url").arg(url)
    }

    /// One more argument after `keywork serve --listen …`.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().into());
        self
    }

    /// One more environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.envs
            .push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Starts it, and waits until its port accepts.
    ///
    /// # Panics
    ///
    /// When it does not come up; the message has what it wrote.
    pub async fn start(self) -> KeyworkServer {
        let dir = tempfile::Builder::new()
            .prefix("keywork-server-")
            .tempdir()
            .unwrap_or_else(|error| panic!("failed to make a temporary directory: {error}"));
        let server = KeyworkServer {
            process: Process::default(),
            how: self,
            port: free_port(),
            dir,
        };
        server.restart().await;
        server
    }
}

/// A `keywork serve` on a port of its own; dropping it kills it.
#[derive(Debug)]
pub struct KeyworkServer {
    process: Process,
    how: KeyworkBuilder,
    port: u16,
    dir: TempDir,
}

impl KeyworkServer {
    /// How to start the `binary`, which a test names with `env!("CARGO_BIN_EXE_keywork")`.
    pub fn at(binary: impl AsRef<Path>) -> KeyworkBuilder {
        KeyworkBuilder {
            binary: binary.as_ref().into(),
            args: Vec::new(),
            envs: Vec::new(),
        }
    }

    /// `http://127.0.0.1:PORT`, for a gRPC client; the same after a restart.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// `127.0.0.1:PORT`, to put a [`crate::FaultProxy`] in front of it.
    pub fn address(&self) -> String {
        format!("{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// A directory of its own that lives as long as this value, across restarts.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// All that it wrote to stdout and stderr, over all its restarts.
    pub fn output(&self) -> String {
        fs::read_to_string(self.output_file()).unwrap_or_default()
    }

    /// SIGKILL.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// SIGTERM, and waits until it has ended; `None` when it did not run.
    ///
    /// # Panics
    ///
    /// When it does not end within a minute.
    pub async fn terminate(&self) -> Option<ExitStatus> {
        self.process.terminate(STOP, "keywork serve").await
    }

    /// SIGTERM without waiting for the end.
    pub fn begin_to_terminate(&self) {
        self.process.signal(Signal::SIGTERM);
    }

    /// How it ended by itself, or after [`KeyworkServer::begin_to_terminate`], if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// SIGSTOP: it keeps its connections and does nothing.
    pub fn pause(&self) {
        self.process.freeze();
    }

    /// SIGCONT: it goes on where [`KeyworkServer::pause`] froze it.
    pub fn resume(&self) {
        self.process.signal(Signal::SIGCONT);
    }

    /// Starts it again with the same arguments on the same port, after killing it if it still runs.
    ///
    /// # Panics
    ///
    /// When it does not come up; the message has what it wrote.
    pub async fn restart(&self) {
        self.process.kill();
        let (out, err) = self.open_output();
        self.process
            .spawn(
                Command::new(&self.how.binary)
                    .args(["serve", "--listen", &self.address()])
                    .args(&self.how.args)
                    .envs(self.how.envs.iter().map(|(name, value)| (name, value)))
                    .stdin(Stdio::null())
                    .stdout(out)
                    .stderr(err),
            )
            .unwrap_or_else(|error| panic!("failed to run {}: {error}", self.how.binary.display()));
        self.wait_until_it_accepts().await;
    }

    async fn wait_until_it_accepts(&self) {
        let end = Instant::now() + START;
        while TcpStream::connect(self.address()).await.is_err() {
            let ended = self.process.ended();
            assert!(
                ended.is_none() && Instant::now() < end,
                "keywork serve did not come up ({ended:?}); it wrote:\n{}",
                self.output()
            );
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn open_output(&self) -> (File, File) {
        File::options()
            .create(true)
            .append(true)
            .open(self.output_file())
            .and_then(|file| Ok((file.try_clone()?, file)))
            .unwrap_or_else(|error| panic!("failed to open a file for the output: {error}"))
    }

    fn output_file(&self) -> PathBuf {
        self.dir.path().join("output")
    }
}
