//! What ends the running commands when `keywork work` is killed: a small process of its own.
//!
//! `keywork command-guard MILLIS` is told on its stdin which process groups run. When that ends, however
//! the worker ended, the groups that are left get SIGTERM, and SIGKILL after MILLIS. Nobody calls it by
//! hand. A parent-death signal would not do: it reaches a command, but not what a script has started.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io::{self, BufRead, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{SigSet, Signal, killpg},
    unistd::Pid,
};

use crate::embedded::own_executable;

const SUBCOMMAND: &str = "command-guard";
const POLL: Duration = Duration::from_millis(10);

/// The worker's end of it.
#[derive(Debug)]
pub(super) struct Guard {
    /// Closed when the worker ends, in whatever way.
    told: Mutex<ChildStdin>,
    _process: Child,
}

impl Guard {
    /// Starts the process.
    pub(super) fn start(kill_after: Duration) -> io::Result<Self> {
        let mut process = Command::new(own_executable())
            .arg0("keywork")
            .arg(SUBCOMMAND)
            .arg(kill_after.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the worker.
            .process_group(0)
            .spawn()?;
        let told = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            told: told.into(),
            _process: process,
        })
    }

    /// From now on the group is ended with the worker.
    pub(super) fn watch(&self, group: Pid) -> io::Result<()> {
        self.tell('+', group)
    }

    /// The group has ended.
    pub(super) fn forget(&self, group: Pid) {
        // Where nobody listens there is nobody to forget it.
        let _ = self.tell('-', group);
    }

    fn tell(&self, what: char, group: Pid) -> io::Result<()> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.write_all(format!("{what}{group}\n").as_bytes())
    }
}

/// Is the guard, if the arguments of the process (with its name) say so.
///
/// `main` calls it before anything else; `None` means that this is an ordinary start.
pub fn guard_if_asked(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    if args.next()? != SUBCOMMAND {
        return None;
    }
    let Some(millis) = args.next().and_then(|text| text.to_str()?.parse().ok()) else {
        eprintln!("keywork {SUBCOMMAND}: it is for keywork itself");
        return Some(ExitCode::FAILURE);
    };
    // Who stops the worker by stopping everything must not stop this first.
    let _ = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]).thread_block();
    end(
        &left(io::stdin().lock().lines()),
        Duration::from_millis(millis),
    );
    Some(ExitCode::SUCCESS)
}

/// The groups that have not ended when the worker has.
fn left(told: impl Iterator<Item = io::Result<String>>) -> BTreeSet<Pid> {
    let mut running = BTreeSet::new();
    for line in told.map_while(Result::ok) {
        let group = |id: &str| id.parse().map(Pid::from_raw);
        if let Some(Ok(group)) = line.strip_prefix('+').map(group) {
            running.insert(group);
        } else if let Some(Ok(group)) = line.strip_prefix('-').map(group) {
            running.remove(&group);
        }
    }
    running
}

fn end(groups: &BTreeSet<Pid>, kill_after: Duration) {
    let until = Instant::now() + kill_after;
    // Each fails only where the group has ended.
    let all = |signal| {
        groups
            .iter()
            .filter(move |group| killpg(**group, signal).is_ok())
    };
    let mut running = all(Some(Signal::SIGTERM)).count();
    while running > 0 && Instant::now() < until {
        thread::sleep(POLL);
        running = all(None).count();
    }
    all(Some(Signal::SIGKILL)).for_each(drop);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_watched_and_not_forgotten_is_left() {
        let told = "+10\n+11\n-10\nnoise\n+12\n+";
        let groups = [11, 12].map(Pid::from_raw);
        assert_eq!(left(told.as_bytes().lines()), groups.into());
    }
}
