//! The demo's processes: a server and two workers. Whatever happens to the demo, dropping them ends them,
//! each by its own process id.

use std::{
    env, fs,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use serde::Deserialize;
use tokio::time::sleep;

use crate::record;

/// How long the server may take to start, and a process to end.
const PATIENCE: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(5);

/// What went wrong with a process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    #[error("failed to run {what}: {source}")]
    Run { what: String, source: io::Error },
    #[error("the server did not start:\n{log}")]
    NotServing { log: String },
    #[error("{what} ended with {status}")]
    Ended { what: String, status: ExitStatus },
    #[error("{what} did not end")]
    DoesNotEnd { what: String },
}

/// One process.
#[derive(Debug)]
struct Process {
    what: String,
    child: Child,
    ended: bool,
}

impl Process {
    fn start(what: &str, command: &mut Command) -> Result<Self, ProcessError> {
        // The environment of whoever runs the demo must not set other flags than ours.
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("KEYWORK_") {
                command.env_remove(name);
            }
        }
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.map_err(|source| ProcessError::Run {
            what: what.into(),
            source,
        })?;
        Ok(Self {
            what: what.into(),
            child,
            ended: false,
        })
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    fn failed(&self, error: impl Into<io::Error>) -> ProcessError {
        ProcessError::Run {
            what: self.what.clone(),
            source: error.into(),
        }
    }

    fn send(&self, signal: Signal) -> Result<(), ProcessError> {
        kill(self.pid(), signal).map_err(|error| self.failed(error))
    }

    /// Asks it to end, and waits until it has.
    async fn stop(&mut self) -> Result<(), ProcessError> {
        self.send(Signal::SIGTERM)?;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().map_err(|e| self.failed(e))? {
                self.ended = true;
                let what = self.what.clone();
                return if status.success() {
                    Ok(())
                } else {
                    Err(ProcessError::Ended { what, status })
                };
            }
            sleep(POLL).await;
        }
        Err(ProcessError::DoesNotEnd {
            what: self.what.clone(),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // On the way out of a failure: asked first, so that the server ends its NATS, and not for long.
        let _ = kill(self.pid(), Signal::SIGCONT);
        let _ = kill(self.pid(), Signal::SIGTERM);
        let until = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server with a NATS of its own, on a free port.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    endpoint: String,
}

#[derive(Deserialize)]
struct Line {
    fields: Fields,
}

#[derive(Deserialize)]
struct Fields {
    message: String,
    address: Option<String>,
}

impl Server {
    /// Starts it, with everything that it keeps in `folder`, and waits until it serves.
    pub(crate) async fn start(folder: &Path) -> Result<Self, ProcessError> {
        let what = "keywork serve";
        let run = |source| ProcessError::Run {
            what: what.into(),
            source,
        };
        let keywork = env::current_exe().map_err(run)?.with_file_name("keywork");
        let log = folder.join("server.log");
        let mut command = Command::new(keywork);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"])
            .arg("--data-dir")
            .arg(folder.join("data"))
            .stdout(Stdio::null())
            .stderr(File::create(&log).map_err(run)?);
        let mut process = Process::start(what, &mut command)?;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(address) = address_in(&log) {
                let endpoint = format!("http://{address}");
                return Ok(Self { process, endpoint });
            }
            if !matches!(process.child.try_wait(), Ok(None)) {
                break;
            }
            sleep(POLL).await;
        }
        let log = fs::read_to_string(&log).unwrap_or_default();
        Err(ProcessError::NotServing { log })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) async fn stop(&mut self) -> Result<(), ProcessError> {
        self.process.stop().await
    }
}

/// The address that the server's log tells, once it serves.
fn address_in(log: &Path) -> Option<String> {
    let text = fs::read_to_string(log).ok()?;
    let lines = text.lines().filter_map(|l| serde_json::from_str(l).ok());
    let mut serving = lines.filter(|line: &Line| line.fields.message == "keywork serves");
    serving.next()?.fields.address
}

/// A worker process, and the file that it records its runs in.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    process: Process,
    name: String,
    records: PathBuf,
}

impl WorkerProcess {
    pub(crate) fn start(name: &str, endpoint: &str, folder: &Path) -> Result<Self, ProcessError> {
        let what = format!("worker {name}");
        let own = env::current_exe().map_err(|source| ProcessError::Run {
            what: what.clone(),
            source,
        })?;
        let records = folder.join(format!("worker-{name}.jsonl"));
        let mut command = Command::new(own);
        command.args(["work", name, endpoint]).arg(&records);
        Ok(Self {
            process: Process::start(&what, &mut command)?,
            name: name.into(),
            records,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn records(&self) -> &Path {
        &self.records
    }

    /// Holds it in mid-step, and returns once it does nothing more.
    pub(crate) fn pause(&self) -> Result<(), ProcessError> {
        self.process.send(Signal::SIGSTOP)?;
        waitpid(self.process.pid(), Some(WaitPidFlag::WUNTRACED))
            .map(drop)
            .map_err(|error| self.process.failed(error))
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) -> Result<(), ProcessError> {
        self.process.send(Signal::SIGCONT)
    }

    /// Kills it with SIGKILL. Answers when it was gone, by the monotonic clock.
    pub(crate) fn kill(&mut self) -> Result<u64, ProcessError> {
        let ended = self.process.child.kill();
        ended.map_err(|error| self.process.failed(error))?;
        let waited = self.process.child.wait();
        waited.map_err(|error| self.process.failed(error))?;
        self.process.ended = true;
        record::now().map_err(|error| self.process.failed(error))
    }

    pub(crate) async fn stop(&mut self) -> Result<(), ProcessError> {
        self.process.stop().await
    }
}
