//! One child process that can be killed, stopped, frozen and thawed, and that never outlives its value.

use std::{
    fs, io,
    process::{Child, Command, ExitStatus},
    sync::Mutex,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::eventually_some;

/// How long a process may take to stand still.
const FREEZE: Duration = Duration::from_secs(10);

/// A slot for one process at a time: it runs, or it has ended and been reaped.
#[derive(Debug, Default)]
pub(crate) struct Process(Mutex<Option<Child>>);

impl Process {
    /// Spawns `command` in the place of the process that ended before.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<()> {
        let child = command.spawn()?;
        let before = self.slot().replace(child);
        assert!(before.is_none(), "a process runs here already");
        Ok(())
    }

    /// The process id while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.slot().as_ref().map(Child::id)
    }

    /// How the process ended by itself, if it did.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        let mut slot = self.slot();
        let status = slot.as_mut()?.try_wait().ok().flatten()?;
        *slot = None;
        Some(status)
    }

    /// Ends it with SIGKILL, frozen or not; a process that has ended stays as it is.
    pub(crate) fn kill(&self) {
        if let Some(mut child) = self.slot().take() {
            // Both fail only for a process that has been reaped, and this one was ours to reap.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks it to end with SIGTERM, and waits until it has; `None` when none ran.
    pub(crate) async fn terminate(&self, deadline: Duration, what: &str) -> Option<ExitStatus> {
        self.pid()?;
        self.signal(Signal::SIGTERM);
        let what = format!("{what} ends after SIGTERM");
        Some(eventually_some(deadline, &what, async || self.ended()).await)
    }

    /// Sends `signal`; no process, no signal.
    pub(crate) fn signal(&self, signal: Signal) {
        // Under the lock: the child is not reaped meanwhile, so the id is still its own.
        if let Some(child) = self.slot().as_ref() {
            let pid = Pid::from_raw(child.id().cast_signed());
            kill(pid, signal).unwrap_or_else(|error| panic!("failed to signal {pid}: {error}"));
        }
    }

    /// Freezes it with SIGSTOP, and waits until every thread of it stands still: on a busy machine they
    /// go on for a while after the signal was sent.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
        let Some(pid) = self.pid() else { return };
        let until = Instant::now() + FREEZE;
        while !stands_still(pid) {
            assert!(Instant::now() < until, "{pid} still runs after SIGSTOP");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Whether no thread of a process runs, by what Linux says of each: its state comes after its name, which
/// is in brackets and may hold anything.
fn stands_still(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    let mut stats = threads
        .flatten()
        .flat_map(|thread| fs::read_to_string(thread.path().join("stat")));
    stats.all(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
