//! One command for one job: a process group of its own, the payload on its stdin, its end as a result.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use keywork_sdk::{Context, Job};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, Command},
    time::timeout,
};

use super::guard::Guard;

/// How much of the end of stderr is kept: what servers keep of an error.
const TAIL: usize = 2_000;

/// How a command ended.
#[derive(Debug)]
pub(super) struct End {
    /// None: a signal ended it.
    pub(super) code: Option<i32>,
    signal: Option<i32>,
    /// It had been told to stop.
    pub(super) cancelled: bool,
    stderr: String,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}")?,
            (None, Some(signal)) => write!(f, "ended by signal {signal}")?,
            (None, None) => f.write_str("ended in an unknown way")?,
        }
        if self.stderr.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.stderr)
        }
    }
}

/// Runs the command to its end, or until the handler's context is cancelled.
///
/// # Errors
/// The command could not be started, or would outlive this process if that were killed.
pub(super) async fn run(
    command: &[String],
    guard: &Guard,
    context: &Context,
    job: Job,
    kill_after: Duration,
) -> io::Result<End> {
    let mut child = start(command, &job)?;
    let group = Group::of(&child, guard)?;
    let stdin = child.stdin.take();
    let stderr = child.stderr.take();
    let ended = async {
        tokio::select! {
            status = child.wait() => (status, false),
            () = context.cancelled() => {
                group.signal(Signal::SIGTERM);
                let waited = timeout(kill_after, child.wait()).await;
                group.signal(Signal::SIGKILL);
                match waited {
                    Ok(status) => (status, true),
                    Err(_) => (child.wait().await, true),
                }
            }
        }
    };
    let fed = feed(stdin, &job);
    let (stderr, ((status, cancelled), ())) =
        tokio::join!(tail(stderr), async { tokio::join!(ended, fed) });
    drop(group);
    Ok(end(status?, cancelled, stderr))
}

fn end(status: ExitStatus, cancelled: bool, stderr: String) -> End {
    End {
        code: status.code(),
        signal: status.signal(),
        cancelled,
        stderr,
    }
}

fn start(command: &[String], job: &Job) -> io::Result<Child> {
    let attributes: BTreeMap<_, _> = job.attributes.iter().collect();
    Command::new(&command[0])
        .args(&command[1..])
        .env("KEYWORK_JOB_ID", &job.id)
        .env("KEYWORK_QUEUE", &job.queue)
        .env("KEYWORK_KEY", &job.key)
        .env("KEYWORK_ATTEMPT", job.attempt.to_string())
        .env("KEYWORK_MAX_ATTEMPTS", job.max_attempts.to_string())
        .env("KEYWORK_FENCING_NUMBER", job.fencing_number.to_string())
        .env("KEYWORK_CONTENT_TYPE", &job.content_type)
        .env("KEYWORK_ATTRIBUTES", serde_json::to_string(&attributes)?)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// Writes the payload. A command that does not read it is free not to.
async fn feed(stdin: Option<ChildStdin>, job: &Job) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(&job.payload).await;
    }
}

/// Passes stderr on, and keeps its end.
async fn tail(stderr: Option<ChildStderr>) -> String {
    let Some(mut stderr) = stderr else {
        return String::new();
    };
    let mut kept = VecDeque::with_capacity(TAIL);
    let mut ours = tokio::io::stderr();
    let mut buffer = [0; 4_096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let _ = ours.write_all(&buffer[..read]).await;
        kept.extend(&buffer[..read]);
        kept.drain(..kept.len().saturating_sub(TAIL));
    }
    let _ = ours.flush().await;
    String::from_utf8_lossy(kept.make_contiguous())
        .trim()
        .to_owned()
}

/// The command's process group. Whatever happens to the handler, nothing of it stays behind.
struct Group<'a> {
    id: Option<Pid>,
    guard: &'a Guard,
}

impl<'a> Group<'a> {
    fn of(child: &Child, guard: &'a Guard) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.map(Pid::from_raw);
        let group = Self { id, guard };
        id.map_or(Ok(()), |id| guard.watch(id))?;
        Ok(group)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.id {
            // A group that has ended needs no signal.
            let _ = killpg(group, signal);
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        if let Some(group) = self.id {
            self.guard.forget(group);
        }
    }
}
