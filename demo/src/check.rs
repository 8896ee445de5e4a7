//! Whether the laws held, by what the workers recorded. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use keywork_sdk::client::Queue;

use crate::{
    Accepted,
    record::{Digest, Record, What},
};

/// The worker that was killed.
#[derive(Clone, Debug)]
pub(crate) struct Killed {
    pub(crate) worker: String,
    /// When it was gone: its runs ended then.
    pub(crate) at: u64,
    /// The jobs whose runs it cut off.
    pub(crate) held: BTreeSet<String>,
}

/// One run of a job, from the handler's start to its end or its process's.
#[derive(Clone, Debug)]
struct Run {
    job: String,
    worker: String,
    attempt: u32,
    fencing_number: u64,
    start: u64,
    /// `None`: nothing says that it ended.
    end: Option<u64>,
    digest: Option<Digest>,
}

/// What the check found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) runs: usize,
    pub(crate) keys: usize,
    pub(crate) done: usize,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Jobs with a run whose attempt is greater than 1.
    pub(crate) retried: usize,
    /// Jobs that the killed worker held.
    pub(crate) held: usize,
    /// Of these, done by another worker.
    pub(crate) held_and_done: usize,
    /// Two runs under one key at once.
    pub(crate) overlaps: Vec<String>,
    /// A later lease without a greater fencing number.
    pub(crate) fencing: Vec<String>,
    /// Submitted and not done.
    pub(crate) missing: Vec<String>,
    /// Done twice with different results.
    pub(crate) different: Vec<String>,
    /// Left in the queue.
    pub(crate) left: Vec<String>,
}

impl Verdict {
    pub(crate) fn holds(&self) -> bool {
        let Self {
            overlaps,
            fencing,
            missing,
            different,
            left,
            ..
        } = self;
        let bad = [overlaps, fencing, missing, different, left];
        bad.iter().all(|bad| bad.is_empty()) && self.held == self.held_and_done
    }
}

/// The jobs whose work was done.
pub(crate) fn done(records: &[Record]) -> HashSet<String> {
    let ends = records.iter().filter(|r| matches!(r.what, What::End(_)));
    ends.map(|record| record.job.clone()).collect()
}

/// The jobs whose runs have started and not ended.
pub(crate) fn open_runs(records: &[Record]) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    for record in records {
        if record.what == What::Start {
            open.insert(record.job.clone());
        } else {
            open.remove(&record.job);
        }
    }
    open
}

/// Checks everything.
pub(crate) fn check(
    submitted: &[Accepted],
    records: &[Record],
    killed: &Killed,
    queue: Queue,
) -> Verdict {
    let by_key = runs(records, killed);
    let done = done(records);
    let mut verdict = Verdict {
        keys: by_key.len(),
        held: killed.held.len(),
        left: left(&queue),
        ..Verdict::default()
    };
    for (key, runs) in &by_key {
        verdict.runs += runs.len();
        verdict.overlaps.extend(overlaps(key, runs));
        verdict.fencing.extend(fencing(key, runs));
    }
    let all: Vec<&Run> = by_key.values().flatten().collect();
    let by_another = |id: &&String| {
        let mut runs = all.iter().filter(|run| run.job == **id);
        runs.any(|run| run.worker != killed.worker && run.digest.is_some())
    };
    verdict.held_and_done = killed.held.iter().filter(by_another).count();
    let again = all.iter().filter(|run| run.attempt > 1);
    verdict.retried = again.map(|run| &run.job).collect::<HashSet<_>>().len();
    for job in submitted {
        let named = format!("{} {}", job.package.name, job.package.version);
        if !done.contains(&job.id) {
            verdict.missing.push(named);
            continue;
        }
        verdict.done += 1;
        let digests = all.iter().filter(|run| run.job == job.id);
        let digests: Vec<&Digest> = digests.filter_map(|run| run.digest.as_ref()).collect();
        if digests.iter().any(|digest| *digest != digests[0]) {
            verdict.different.push(named);
        }
        verdict.files += digests[0].files;
        verdict.bytes += digests[0].bytes;
    }
    verdict
}

fn left(queue: &Queue) -> Vec<String> {
    let (outstanding, dead) = (queue.stats.outstanding, queue.stats.dead);
    let mut left = Vec::new();
    if outstanding > 0 {
        left.push(format!("{outstanding} outstanding jobs"));
    }
    if dead > 0 {
        left.push(format!("{dead} dead letters"));
    }
    left
}

/// The runs of each key, by their start.
fn runs(records: &[Record], killed: &Killed) -> BTreeMap<String, Vec<Run>> {
    let mut runs: Vec<(String, Run)> = Vec::new();
    let mut open: HashMap<(&str, u64), usize> = HashMap::new();
    for record in records {
        // A fencing number names one lease, and a lease is run once.
        let lease = (record.key.as_str(), record.fencing_number);
        let digest = match &record.what {
            What::Start => {
                open.insert(lease, runs.len());
                runs.push((record.key.clone(), Run::of(record)));
                continue;
            }
            What::End(digest) => Some(digest.clone()),
            What::GaveUp => None,
        };
        if let Some(at) = open.remove(&lease) {
            runs[at].1.end = Some(record.at);
            runs[at].1.digest = digest;
        }
    }
    let mut by_key: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for (key, mut run) in runs {
        if run.end.is_none() && run.worker == killed.worker {
            run.end = Some(killed.at);
        }
        by_key.entry(key).or_default().push(run);
    }
    for runs in by_key.values_mut() {
        runs.sort_by_key(|run| run.start);
    }
    by_key
}

impl Run {
    fn of(start: &Record) -> Self {
        Self {
            job: start.job.clone(),
            worker: start.worker.clone(),
            attempt: start.attempt,
            fencing_number: start.fencing_number,
            start: start.at,
            end: None,
            digest: None,
        }
    }
}

/// Every run that started before an earlier one of its key had ended.
fn overlaps(key: &str, runs: &[Run]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, later) in runs.iter().enumerate() {
        let earlier = runs[..at].iter();
        for earlier in earlier.filter(|run| run.end.is_none_or(|end| end > later.start)) {
            found.push(format!(
                "{key}: worker {} started while worker {} still ran",
                later.worker, earlier.worker
            ));
        }
    }
    found
}

fn fencing(key: &str, runs: &[Run]) -> Vec<String> {
    let pairs = runs.windows(2);
    let wrong = pairs.filter(|pair| pair[1].fencing_number <= pair[0].fencing_number);
    wrong
        .map(|pair| {
            let (before, after) = (pair[0].fencing_number, pair[1].fencing_number);
            format!("{key}: {after} came after {before}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::Package;

    /// What a worker recorded of one run of the key `k`.
    fn run(worker: &str, job: &str, lease: u64, start: u64, end: Option<u64>) -> Vec<Record> {
        let record = |at, what| Record {
            at,
            worker: worker.into(),
            key: "k".into(),
            job: job.into(),
            attempt: 1,
            fencing_number: lease,
            what,
        };
        let digest = Digest {
            files: 1,
            bytes: 2,
            sha256: "0".into(),
        };
        let end = end.map(|at| record(at, What::End(digest)));
        [record(start, What::Start)]
            .into_iter()
            .chain(end)
            .collect()
    }

    fn judge(submitted: &[&str], runs: &[Vec<Record>], held: &[&str]) -> Verdict {
        let submitted: Vec<Accepted> = submitted
            .iter()
            .map(|id| Accepted {
                id: (*id).into(),
                package: Package {
                    name: "k".into(),
                    version: (*id).into(),
                    folder: "/".into(),
                },
            })
            .collect();
        let killed = Killed {
            worker: "1".into(),
            at: 100,
            held: held.iter().map(|id| (*id).into()).collect(),
        };
        check(&submitted, &runs.concat(), &killed, Queue::default())
    }

    #[test]
    fn runs_one_after_the_other_hold() {
        let runs = [
            run("1", "a", 1, 10, Some(20)),
            run("2", "b", 2, 20, Some(30)),
        ];
        assert!(judge(&["a", "b"], &runs, &[]).holds());
    }

    #[test]
    fn two_runs_at_once_are_seen() {
        let runs = [
            run("1", "a", 1, 10, Some(21)),
            run("2", "b", 2, 20, Some(30)),
        ];
        let verdict = judge(&["a", "b"], &runs, &[]);
        assert_eq!(verdict.overlaps.len(), 1);
        assert!(!verdict.holds());
    }

    #[test]
    fn a_run_within_a_long_one_is_seen_though_another_lies_between() {
        let runs = [
            run("2", "a", 1, 10, Some(90)),
            run("2", "b", 2, 20, Some(30)),
            run("2", "c", 3, 40, Some(50)),
        ];
        assert_eq!(judge(&["a", "b", "c"], &runs, &[]).overlaps.len(), 2);
    }

    #[test]
    fn a_killed_workers_run_ends_with_the_kill() {
        let cut_off = run("1", "a", 1, 10, None);
        let after = [cut_off.clone(), run("2", "a", 2, 100, Some(110))];
        assert!(judge(&["a"], &after, &["a"]).holds());
        let before = [cut_off, run("2", "a", 2, 99, Some(110))];
        assert_eq!(judge(&["a"], &before, &["a"]).overlaps.len(), 1);
    }

    #[test]
    fn a_run_that_nothing_ended_overlaps_whatever_comes_after() {
        let runs = [run("2", "a", 1, 10, None), run("1", "a", 2, 50, Some(60))];
        assert_eq!(judge(&["a"], &runs, &[]).overlaps.len(), 1);
    }

    #[test]
    fn a_fencing_number_that_does_not_grow_is_seen() {
        let runs = [
            run("1", "a", 7, 10, Some(20)),
            run("2", "b", 6, 30, Some(40)),
        ];
        assert_eq!(judge(&["a", "b"], &runs, &[]).fencing.len(), 1);
    }

    #[test]
    fn a_job_that_nobody_did_is_missing() {
        let verdict = judge(&["a", "b"], &[run("2", "a", 1, 10, Some(20))], &[]);
        assert_eq!(verdict.missing, ["k b"]);
        assert!(!verdict.holds());
    }

    #[test]
    fn a_killed_workers_job_must_be_done_by_another() {
        let runs = [run("1", "a", 1, 10, Some(20))];
        assert!(!judge(&["a"], &runs, &["a"]).holds());
    }
}
