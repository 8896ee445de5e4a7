//! A server that the harness starts, and stops by its process id.

use std::{
    fs::File,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::process::Child;

use crate::error::Error;

/// How long a server may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// A running server.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pid: u32,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; what it says goes to `log`.
    pub(crate) fn start(program: &Path, args: &[String], log: PathBuf) -> Result<Self, Error> {
        let failed = |source| Error::Start {
            program: program.into(),
            source,
        };
        let out = File::create(&log).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let child = tokio::process::Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let pid = child.id().unwrap_or_default();
        Ok(Self { child, pid, log })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Says that it did not answer in time.
    pub(crate) fn not_ready(&self, what: &'static str, within: Duration) -> Error {
        let log = self.log.clone();
        Error::NotReady { what, within, log }
    }

    /// Asks it to stop and waits for its end. One that does not end is killed when it is dropped.
    pub(crate) async fn stop(mut self) {
        let pid = i32::try_from(self.pid).unwrap_or_default();
        if pid > 0 && kill(Pid::from_raw(pid), Signal::SIGTERM).is_ok() {
            drop(tokio::time::timeout(STOP_WITHIN, self.child.wait()).await);
        }
    }
}

/// A loopback port that nobody listens on.
pub(crate) fn free_port() -> Result<u16, Error> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io("find a free port"))?;
    let address = listener
        .local_addr()
        .map_err(Error::io("find a free port"))?;
    Ok(address.port())
}

/// What a program says of its version.
pub(crate) fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    String::from_utf8_lossy(&text).trim().to_owned()
}
