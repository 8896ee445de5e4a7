//! One process of a worker-under-test: its commands go in, its events come out into the trace.

use std::{
    collections::VecDeque,
    io,
    path::Path,
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    task::JoinSet,
    time::timeout,
};

use crate::trace::Trace;

/// How much of what it writes to stderr is kept.
const LOG_LINES: usize = 40;
/// How long the last lines of a process that has ended may take to arrive.
const LAST_LINES: Duration = Duration::from_secs(1);

/// A process, killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    pid: Pid,
    stdin: Option<ChildStdin>,
    ended: Arc<AtomicBool>,
    log: Arc<Mutex<VecDeque<String>>>,
    trace: Arc<Trace>,
    // Dropping the set drops the child, which kills it.
    _tasks: JoinSet<()>,
}

impl Process {
    pub(crate) fn start(
        name: &str,
        argv: &[String],
        folder: &Path,
        trace: Arc<Trace>,
    ) -> io::Result<Self> {
        let (program, arguments) = argv
            .split_first()
            .ok_or_else(|| io::Error::other("`run` is empty"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pid = child
            .id()
            .ok_or_else(|| io::Error::other("it ended at once"))?;
        let ended = Arc::new(AtomicBool::new(false));
        let log = Arc::new(Mutex::default());
        let stdin = child.stdin.take();
        let mut tasks = JoinSet::new();
        if let Some(stderr) = child.stderr.take() {
            tasks.spawn(keep_log(stderr, Arc::clone(&log)));
        }
        tasks.spawn(watch(
            child,
            name.to_owned(),
            Arc::clone(&trace),
            Arc::clone(&ended),
        ));
        Ok(Self {
            name: name.to_owned(),
            pid: Pid::from_raw(pid.cast_signed()),
            stdin,
            ended,
            log,
            trace,
            _tasks: tasks,
        })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Sends a command. One that cannot be taken shows by the answer that does not come.
    pub(crate) async fn send(&mut self, command: &Value) {
        self.trace
            .note("command", &json!({"worker": self.name, "command": command}));
        if let Some(stdin) = &mut self.stdin {
            let line = format!("{command}\n");
            let _ = stdin.write_all(line.as_bytes()).await;
            let _ = stdin.flush().await;
        }
    }

    /// Ends its stdin, and with it the process.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.trace.note(
            "signal",
            &json!({"worker": self.name, "signal": signal.as_str()}),
        );
        if !self.has_ended() {
            // It fails for a process that ended just now.
            let _ = kill(self.pid, signal);
        }
    }

    /// The end of what it wrote to stderr.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().cloned().collect()
    }
}

async fn keep_log(stderr: impl AsyncRead + Unpin, log: Arc<Mutex<VecDeque<String>>>) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == LOG_LINES {
            log.pop_front();
        }
        log.push_back(line);
    }
}

/// Reads events until the process has ended, and notes that.
async fn watch(mut child: Child, name: String, trace: Arc<Trace>, ended: Arc<AtomicBool>) {
    let stdout = child.stdout.take();
    let read = async {
        if let Some(stdout) = stdout {
            read_events(stdout, &name, &trace).await;
        }
    };
    tokio::pin!(read);
    let status = tokio::select! {
        () = &mut read => child.wait().await,
        status = child.wait() => {
            // A process that it started may hold its stdout open.
            let _ = timeout(LAST_LINES, read).await;
            status
        }
    };
    ended.store(true, Ordering::Release);
    let code = status.ok().and_then(|status| status.code());
    trace.add(&name, json!({"event": "exit", "code": code}));
}

async fn read_events(stdout: impl AsyncRead + Unpin, name: &str, trace: &Trace) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let event = serde_json::from_str(&line)
            .ok()
            .filter(Value::is_object)
            .unwrap_or_else(|| json!({"event": "garbage", "line": line}));
        trace.add(name, event);
    }
}
