//! What the demo says.

use std::{
    collections::HashSet,
    io::{self, Write},
    time::{Duration, Instant},
};

use crate::{check::Verdict, packages::Package, submitting::Submitted};

/// Tells what happens, with the time since it began.
#[derive(Debug)]
pub(crate) struct Story {
    began: Instant,
}

/// Whoever reads may have gone: that is no failure.
fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

impl Story {
    pub(crate) fn begin() -> Self {
        say(
            "\nKeywork: at most one outstanding job a key. Here a key is the name of a package that",
        );
        say("Cargo.lock pins, and a job is to read and hash the source of one version of it.\n");
        Self {
            began: Instant::now(),
        }
    }

    fn then(&self, text: &str) {
        say(&format!(
            "  {:5.2} s  {text}",
            self.began.elapsed().as_secs_f64()
        ));
    }

    pub(crate) fn packages(&self, packages: &[Package]) {
        let names: HashSet<&str> = packages.iter().map(|p| p.name.as_str()).collect();
        let (versions, names) = (packages.len(), names.len());
        self.then(&format!(
            "{versions} versions of {names} packages are pinned"
        ));
    }

    pub(crate) fn serves(&self, endpoint: &str) {
        self.then(&format!(
            "a server with a NATS of its own answers at {endpoint}"
        ));
    }

    pub(crate) fn working(&self) {
        self.then("two worker processes start, and everything is submitted");
    }

    pub(crate) fn killed(&self, worker: &str, held: usize, done: usize) {
        let jobs = if held == 1 {
            "1 job"
        } else {
            &format!("{held} jobs")
        };
        self.then(&format!(
            "SIGKILL for worker {worker}, in the middle of {jobs}; {done} are done"
        ));
        self.then("its jobs come back when their leases have run out; the others go on");
    }

    pub(crate) fn done(&self) {
        self.then("everything is done");
    }

    /// The table, and what was checked.
    pub(crate) fn tell(&mut self, submitted: &Submitted, verdict: &Verdict, took: Duration) {
        say("");
        let row = |name: &str, value: String| say(&format!("  {name:<38}{value:>9}"));
        row("submitted", submitted.jobs.len().to_string());
        row(
            "busy at first, submitted again",
            submitted.waited.to_string(),
        );
        row("answers that said busy", submitted.busy_answers.to_string());
        row("done", verdict.done.to_string());
        row("retried (attempt > 1)", verdict.retried.to_string());
        row(
            "cut off by the kill, and run again",
            verdict.held_and_done.to_string(),
        );
        row("files hashed", verdict.files.to_string());
        row("megabytes hashed", format!("{}", verdict.bytes / 1_000_000));
        row("wall time", format!("{:.1} s", took.as_secs_f64()));
        say("");
        let lost = verdict.held - verdict.held_and_done;
        let lost = (lost > 0).then(|| format!("{lost} jobs of the killed worker"));
        let lost: Vec<String> = lost.into_iter().chain(verdict.missing.clone()).collect();
        law(
            &format!(
                "no two of {} runs under {} keys overlapped",
                verdict.runs, verdict.keys
            ),
            &verdict.overlaps,
        );
        law(
            "a later lease had a greater fencing number",
            &verdict.fencing,
        );
        law("every version that was submitted was done", &lost);
        law(
            "whatever ran twice came to the same hash",
            &verdict.different,
        );
        law("nothing is left in the queue", &verdict.left);
        say("");
    }
}

/// One thing that was checked, and the first few faults.
fn law(text: &str, faults: &[String]) {
    let mark = if faults.is_empty() {
        "holds "
    } else {
        "BROKEN"
    };
    say(&format!("  {mark}  {text}"));
    for fault in faults.iter().take(5) {
        say(&format!("            {fault}"));
    }
    if faults.len() > 5 {
        say(&format!("            and {} more", faults.len() - 5));
    }
}
