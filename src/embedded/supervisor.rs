//! The thread that starts nats-server, starts it again when it ends, and ends it.
//!
//! A thread, and not a task: the system ties the process to the thread that spawned it.

use std::{
    process::Child,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::sync::watch;

use super::child::Launch;

const POLL: Duration = Duration::from_millis(50);
/// How long nats-server gets when its supervisor is dropped without a word.
const GRACE: Duration = Duration::from_secs(10);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Having run for so long, it is no longer one that fails to start.
const STABLE: Duration = Duration::from_secs(30);

/// What the supervised process does.
#[derive(Clone, Debug)]
enum State {
    Starting,
    Running(u32),
    /// It ended by itself, for this reason, and will be started again.
    Ended(String),
    Stopped,
}

/// The handle of the thread; dropping it ends nats-server in the background.
#[derive(Debug)]
pub(super) struct Supervisor {
    stop: Sender<Duration>,
    state: watch::Receiver<State>,
}

impl Supervisor {
    pub(super) fn start(launch: Launch) -> Self {
        let (stop, stopped) = mpsc::channel();
        let (told, state) = watch::channel(State::Starting);
        thread::spawn(move || supervise(&launch, &stopped, &told));
        Self { stop, state }
    }

    /// The process id, while there is a process.
    pub(super) fn pid(&self) -> Option<u32> {
        match *self.state.borrow() {
            State::Running(pid) => Some(pid),
            State::Starting | State::Ended(_) | State::Stopped => None,
        }
    }

    /// Waits until the process has ended by itself, and says how.
    pub(super) async fn ended(&self) -> String {
        let mut state = self.state.clone();
        let ended = state
            .wait_for(|state| matches!(state, State::Ended(_)))
            .await;
        match ended.as_deref() {
            Ok(State::Ended(reason)) => reason.clone(),
            Ok(State::Starting | State::Running(_) | State::Stopped) | Err(_) => {
                "it was stopped".into()
            }
        }
    }

    /// Asks the process to end, kills it after `grace`, and waits until it has ended.
    pub(super) async fn stop(self, grace: Duration) {
        // Both fail only when the thread has ended, and then so has the process.
        let _ = self.stop.send(grace);
        let mut state = self.state.clone();
        let _ = state
            .wait_for(|state| matches!(state, State::Stopped))
            .await;
    }
}

fn supervise(launch: &Launch, stopped: &Receiver<Duration>, state: &watch::Sender<State>) {
    let mut pause = SHORTEST_PAUSE;
    loop {
        let start = Instant::now();
        let reason = match launch.spawn() {
            Ok(child) => {
                state.send_replace(State::Running(child.id()));
                match watch_over(child, stopped) {
                    Some(reason) => reason,
                    None => break,
                }
            }
            Err(error) => format!("failed to spawn it: {error}"),
        };
        tracing::warn!(reason, "the embedded nats-server ended by itself");
        state.send_replace(State::Ended(reason));
        pause = next_pause(pause, start.elapsed());
        if told_to_stop(stopped, pause).is_some() {
            break;
        }
    }
    state.send_replace(State::Stopped);
}

fn next_pause(last: Duration, ran_for: Duration) -> Duration {
    if ran_for >= STABLE {
        SHORTEST_PAUSE
    } else {
        (last * 2).min(LONGEST_PAUSE)
    }
}

/// Until the process ends: by itself, for the reason returned, or because we were told to stop.
fn watch_over(mut child: Child, stopped: &Receiver<Duration>) -> Option<String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(format!("it ended with {status}")),
            Err(error) => return Some(format!("it cannot be waited for: {error}")),
            Ok(None) => {}
        }
        if let Some(grace) = told_to_stop(stopped, POLL) {
            end(child, grace);
            return None;
        }
    }
}

/// The grace, if we are told to stop within `patience`.
fn told_to_stop(stopped: &Receiver<Duration>, patience: Duration) -> Option<Duration> {
    match stopped.recv_timeout(patience) {
        Ok(grace) => Some(grace),
        Err(RecvTimeoutError::Disconnected) => Some(GRACE),
        Err(RecvTimeoutError::Timeout) => None,
    }
}

/// SIGTERM, and SIGKILL after `grace`.
fn end(mut child: Child, grace: Duration) {
    let deadline = Instant::now() + grace;
    // It fails only for a process that has ended, which the wait below finds.
    let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        thread::sleep(POLL / 5);
    }
    if matches!(child.try_wait(), Ok(None)) {
        tracing::warn!(
            ?grace,
            "the embedded nats-server did not end in time and is killed"
        );
        let _ = child.kill();
    }
    let _ = child.wait();
}
