//! What must hold over a whole trace, whatever the scenario was. Pure.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use crate::trace::{Entry, RUNNER};

/// How soon a handler must hear that its lease is lost.
const CANCELLED_WITHIN: Duration = Duration::from_secs(1);
/// Two pipes are read by two tasks: what comes out of one after the other may be seen this much before it.
const SKEW: Duration = Duration::from_millis(50);

/// Names a lease.
type Lease = (String, u64);

/// One run of a handler.
#[derive(Clone, Debug)]
struct Run {
    worker: String,
    queue: String,
    key: String,
    fencing: u64,
    burns: bool,
    start: Instant,
    end: Option<Instant>,
}

/// Every law that was broken, as a sentence.
pub(crate) fn broken(entries: &[Entry]) -> Vec<String> {
    let runs = runs(entries);
    let frozen = frozen(entries);
    let mut found = Vec::new();
    found.extend(overlaps(&runs, &frozen));
    found.extend(fencing(&runs));
    found.extend(settled_twice(entries));
    found.extend(over_concurrency(entries, &runs));
    found.extend(cancelled_late(entries, &runs, &frozen));
    found.extend(garbage(entries));
    found.extend(unexpected_exits(entries));
    found
}

fn lease_of(entry: &Entry) -> Lease {
    (
        entry.text("key").to_owned(),
        entry.event["fencing"].as_u64().unwrap_or_default(),
    )
}

fn runs(entries: &[Entry]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.who != RUNNER) {
        match entry.text("event") {
            "started" => runs.push(Run::of(entry)),
            // A handler that throws or is dropped says nothing of its end, but its settlement does.
            "ended" | "cancelled" | "settled" => {
                let lease = lease_of(entry);
                end(&mut runs, entry, |run| {
                    (run.key.clone(), run.fencing) == lease
                });
            }
            "exit" => end(&mut runs, entry, |_| true),
            _ => {}
        }
    }
    runs
}

fn end(runs: &mut [Run], entry: &Entry, is_meant: impl Fn(&Run) -> bool) {
    let open = runs
        .iter_mut()
        .filter(|run| run.end.is_none() && run.worker == entry.who);
    open.filter(|run| is_meant(run))
        .for_each(|run| run.end = Some(entry.at));
}

impl Run {
    fn of(entry: &Entry) -> Self {
        let (key, fencing) = lease_of(entry);
        Self {
            worker: entry.who.clone(),
            queue: entry.text("queue").to_owned(),
            key,
            fencing,
            burns: entry.event["attributes"]["handler"] == "burn",
            start: entry.at,
            end: None,
        }
    }
}

/// When each worker's process stood still: nothing can be asked of it then, nor in the second after.
fn frozen(entries: &[Entry]) -> HashMap<String, Vec<(Instant, Instant)>> {
    let mut frozen: HashMap<String, Vec<(Instant, Instant)>> = HashMap::new();
    let mut since: HashMap<String, Instant> = HashMap::new();
    let last = entries.last().map(|entry| entry.at);
    for entry in entries.iter().filter(|entry| entry.is("signal")) {
        let details = &entry.event["details"];
        let worker = details["worker"].as_str().unwrap_or_default().to_owned();
        match details["signal"].as_str() {
            Some("SIGSTOP") => drop(since.insert(worker, entry.at)),
            Some("SIGCONT") => {
                if let Some(from) = since.remove(&worker) {
                    let to = entry.at + CANCELLED_WITHIN;
                    frozen.entry(worker).or_default().push((from, to));
                }
            }
            _ => {}
        }
    }
    for (worker, from) in since {
        frozen
            .entry(worker)
            .or_default()
            .extend(last.map(|to| (from, to)));
    }
    frozen
}

/// Two handlers of one key at once, except where one of them stood still with its process.
fn overlaps(runs: &[Run], frozen: &HashMap<String, Vec<(Instant, Instant)>>) -> Vec<String> {
    let mut found = Vec::new();
    for (at, later) in runs.iter().enumerate() {
        let same = runs[..at]
            .iter()
            .filter(|run| run.queue == later.queue && run.key == later.key);
        for earlier in same {
            let over = earlier.end.is_some_and(|end| end <= later.start + SKEW);
            let still = frozen.get(&earlier.worker).is_some_and(|spans| {
                let held = |(from, to): &(Instant, Instant)| {
                    *from <= later.start && earlier.end.is_some_and(|end| end <= *to + SKEW)
                };
                spans.iter().any(held)
            });
            if !over && !still {
                found.push(format!(
                    "two handlers of the key {} at once: {} started it while {} still ran it",
                    later.key, later.worker, earlier.worker
                ));
            }
        }
    }
    found
}

fn fencing(runs: &[Run]) -> Vec<String> {
    let mut newest: HashMap<(&str, &str), u64> = HashMap::new();
    let mut found = Vec::new();
    for run in runs {
        let before = newest.insert((&run.queue, &run.key), run.fencing);
        if before.is_some_and(|before| before >= run.fencing) {
            found.push(format!(
                "the fencing number of the key {} did not grow: {} after {}",
                run.key,
                run.fencing,
                before.unwrap_or_default()
            ));
        }
    }
    found
}

fn settled_twice(entries: &[Entry]) -> Vec<String> {
    let mut settled: HashSet<Lease> = HashSet::new();
    let all = entries.iter().filter(|entry| entry.is("settled"));
    let counted = all.filter(|entry| entry.text("outcome") != "LEASE_LOST");
    counted
        .map(lease_of)
        .filter(|lease| !settled.insert(lease.clone()))
        .map(|(key, fencing)| format!("the lease {fencing} of the key {key} was settled twice"))
        .collect()
}

fn over_concurrency(entries: &[Entry], runs: &[Run]) -> Vec<String> {
    let mut found = Vec::new();
    for (worker, limit) in limits(entries) {
        let own: Vec<&Run> = runs.iter().filter(|run| run.worker == worker).collect();
        let at_once = |at: Instant| {
            let open = own.iter().filter(|run| run.start <= at);
            open.filter(|run| run.end.is_none_or(|end| end > at))
                .count()
        };
        let most = own.iter().map(|run| at_once(run.start)).max();
        if most.is_some_and(|most| most > limit) {
            found.push(format!(
                "{worker} ran {} handlers at once, with a concurrency of {limit}",
                most.unwrap_or_default()
            ));
        }
    }
    found
}

/// The concurrency that each worker was started with.
fn limits(entries: &[Entry]) -> BTreeMap<String, usize> {
    let commands = entries.iter().filter(|entry| entry.is("command"));
    let started = commands.filter(|entry| entry.event["details"]["command"]["do"] == "start");
    started
        .filter_map(|entry| {
            let details = &entry.event["details"];
            let limit = details["command"]["concurrency"].as_u64()?;
            Some((
                details["worker"].as_str()?.to_owned(),
                usize::try_from(limit).ok()?,
            ))
        })
        .collect()
}

/// A handler that still ran a second after its worker said that its lease is lost.
fn cancelled_late(
    entries: &[Entry],
    runs: &[Run],
    frozen: &HashMap<String, Vec<(Instant, Instant)>>,
) -> Vec<String> {
    let lost = entries.iter().filter(|entry| entry.is("lease_lost"));
    let in_time = |lost: &&Entry| {
        was_cancelled(entries, lost) || stood_still(frozen, lost) || !still_ran(runs, lost)
    };
    lost.filter(|lost| !in_time(lost))
        .map(|lost| {
            let key = lost.text("key");
            format!(
                "the handler of the key {key} was not cancelled within a second of the loss of its lease"
            )
        })
        .collect()
}

/// A handler of the key heard of it about then. A worker may write the two in either order, and after the handler of
/// the key's next lease has started.
fn was_cancelled(entries: &[Entry], lost: &Entry) -> bool {
    entries.iter().any(|entry| {
        let after = entry.at.saturating_duration_since(lost.at);
        let before = lost.at.saturating_duration_since(entry.at);
        entry.is("cancelled")
            && entry.who == lost.who
            && entry.text("key") == lost.text("key")
            && after.max(before) <= CANCELLED_WITHIN
    })
}

fn stood_still(frozen: &HashMap<String, Vec<(Instant, Instant)>>, lost: &Entry) -> bool {
    frozen.get(&lost.who).is_some_and(|spans| {
        let mut spans = spans.iter();
        spans.any(|(from, to)| *from <= lost.at && lost.at <= *to)
    })
}

fn still_ran(runs: &[Run], lost: &Entry) -> bool {
    runs.iter().any(|run| {
        run.worker == lost.who
            && run.key == lost.text("key")
            && !run.burns
            && run.start <= lost.at
            && run.end.is_none_or(|end| end > lost.at + CANCELLED_WITHIN)
    })
}

fn garbage(entries: &[Entry]) -> Vec<String> {
    let lines = entries.iter().filter(|entry| entry.is("garbage"));
    lines
        .map(|entry| format!("{} wrote no JSON object: {}", entry.who, entry.text("line")))
        .collect()
}

/// Every end of a process must have been expected, or caused with SIGKILL.
fn unexpected_exits(entries: &[Entry]) -> Vec<String> {
    let killed = |who: &str| {
        entries.iter().any(|entry| {
            let details = &entry.event["details"];
            entry.is("signal") && details["worker"] == who && details["signal"] == "SIGKILL"
        })
    };
    let exits = entries.iter().filter(|entry| entry.is("exit"));
    exits
        .filter(|entry| !entry.was_taken() && !killed(&entry.who))
        .map(|entry| format!("{} ended unasked, with {}", entry.who, entry.event["code"]))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A trace: who said what, and how many milliseconds after its begin.
    fn trace(all: &[(u64, &str, Value)]) -> Vec<Entry> {
        let begun = Instant::now();
        let entry = |(ms, who, event): &(u64, &str, Value)| {
            Entry::new(begun + Duration::from_millis(*ms), who, event.clone())
        };
        all.iter().map(entry).collect()
    }

    fn said(event: &str, fencing: u64) -> Value {
        json!({"event": event, "queue": "q", "key": "k", "fencing": fencing, "outcome": "SETTLED"})
    }

    fn signal(signal: &str) -> Value {
        json!({"event": "signal", "details": {"worker": "a", "signal": signal}})
    }

    #[test]
    fn one_run_after_the_other_breaks_no_law() {
        let runs = [
            (0, "a", said("started", 1)),
            (10, "a", said("ended", 1)),
            (20, "a", said("settled", 1)),
            (30, "b", said("started", 2)),
            (40, "b", said("cancelled", 2)),
        ];
        assert_eq!(broken(&trace(&runs)), Vec::<String>::new());
    }

    #[test]
    fn two_handlers_of_a_key_at_once_are_seen() {
        let runs = [
            (0, "a", said("started", 1)),
            (10, "b", said("started", 2)),
            (200, "a", said("cancelled", 1)),
        ];
        assert_eq!(broken(&trace(&runs)).len(), 1);
    }

    #[test]
    fn a_process_that_stood_still_is_given_a_second_to_notice() {
        let thawed_at = |cancelled: u64| {
            trace(&[
                (0, "a", said("started", 1)),
                (10, RUNNER, signal("SIGSTOP")),
                (3_000, "b", said("started", 2)),
                (5_000, RUNNER, signal("SIGCONT")),
                (cancelled, "a", said("cancelled", 1)),
            ])
        };
        assert!(broken(&thawed_at(5_900)).is_empty());
        assert_eq!(broken(&thawed_at(6_900)).len(), 1);
    }

    #[test]
    fn fencing_numbers_that_do_not_grow_are_seen() {
        let runs = [
            (0, "a", said("started", 2)),
            (10, "a", said("ended", 2)),
            (100, "a", said("started", 2)),
        ];
        assert_eq!(broken(&trace(&runs)).len(), 1);
    }

    #[test]
    fn a_lease_that_is_settled_twice_is_seen() {
        let twice = [(0, "a", said("settled", 1)), (10, "b", said("settled", 1))];
        assert_eq!(broken(&trace(&twice)).len(), 1);
    }

    #[test]
    fn a_handler_must_hear_of_its_lost_lease_within_a_second() {
        let heard_after = |ms: u64| {
            trace(&[
                (0, "a", said("started", 1)),
                (1_000, "a", json!({"event": "lease_lost", "key": "k"})),
                (1_000 + ms, "a", said("cancelled", 1)),
            ])
        };
        assert!(broken(&heard_after(900)).is_empty());
        assert_eq!(broken(&heard_after(1_100)).len(), 1);
    }

    #[test]
    fn more_handlers_than_the_concurrency_are_seen() {
        let start = json!({"event": "command", "details": {"worker": "a", "command": {"do": "start", "concurrency": 1}}});
        let other = json!({"event": "started", "queue": "q", "key": "l", "fencing": 2});
        let runs = [
            (0, RUNNER, start),
            (1, "a", said("started", 1)),
            (2, "a", other),
        ];
        assert_eq!(broken(&trace(&runs)).len(), 1);
    }

    #[test]
    fn an_end_that_nobody_asked_for_is_seen() {
        let exit = json!({"event": "exit", "code": 1});
        assert_eq!(broken(&trace(&[(0, "a", exit.clone())])).len(), 1);
        let killed = [(0, RUNNER, signal("SIGKILL")), (1, "a", exit)];
        assert!(broken(&trace(&killed)).is_empty());
    }
}
