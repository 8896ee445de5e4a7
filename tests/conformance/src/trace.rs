//! All that happened while a scenario was played, in the order in which the runner saw it.

use std::{
    collections::HashMap,
    fmt::Write,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout_at};

use crate::pattern::matches;

/// Who is named for what the runner itself did.
pub(crate) const RUNNER: &str = "runner";

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Instant,
    /// A worker's name, or the runner.
    pub(crate) who: String,
    pub(crate) event: Value,
    /// A step has waited for it: no other takes it.
    taken: bool,
}

impl Entry {
    /// What happened then; no step has waited for it.
    pub(crate) fn new(at: Instant, who: &str, event: Value) -> Self {
        Self {
            at,
            who: who.to_owned(),
            event,
            taken: false,
        }
    }

    pub(crate) fn is(&self, event: &str) -> bool {
        self.event["event"] == event
    }

    pub(crate) fn text(&self, member: &str) -> &str {
        self.event[member].as_str().unwrap_or_default()
    }

    pub(crate) fn was_taken(&self) -> bool {
        self.taken
    }
}

/// Which entries a step means.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) worker: Option<String>,
    pub(crate) see: Value,
    /// Only entries from here on.
    pub(crate) from: usize,
}

impl Filter {
    fn takes(&self, entry: &Entry) -> bool {
        let by_whom = self
            .worker
            .as_ref()
            .is_none_or(|worker| *worker == entry.who);
        by_whom && entry.who != RUNNER && matches(&self.see, &entry.event)
    }
}

/// An event with its name in front.
fn readable(event: &Value) -> String {
    let name = event["event"].as_str().unwrap_or_default();
    let mut rest = event.clone();
    if let Some(members) = rest.as_object_mut() {
        members.remove("event");
    }
    format!("{name:<10} {rest}")
}

#[derive(Debug)]
pub(crate) struct Trace {
    begun: Instant,
    entries: Mutex<Vec<Entry>>,
    /// Places in the trace that steps have named.
    labels: Mutex<HashMap<String, (usize, Instant)>>,
    length: watch::Sender<usize>,
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            entries: Mutex::default(),
            labels: Mutex::default(),
            length: watch::Sender::new(0),
        }
    }

    /// Notes what a worker said, or what became of it.
    pub(crate) fn add(&self, who: &str, event: Value) {
        let length = {
            let mut entries = self.lock();
            entries.push(Entry::new(Instant::now(), who, event));
            entries.len()
        };
        self.length.send_replace(length);
    }

    /// Notes what the runner did.
    pub(crate) fn note(&self, what: &str, details: &Value) {
        self.add(RUNNER, json!({"event": what, "details": details}));
    }

    pub(crate) fn length(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    /// Names the place of an entry, or the end.
    pub(crate) fn label(&self, name: &str, index: Option<usize>) {
        let place = match index {
            Some(index) => (index, self.lock()[index].at),
            None => (self.length(), Instant::now()),
        };
        self.labels
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), place);
    }

    pub(crate) fn labelled(&self, name: &str) -> Option<(usize, Instant)> {
        self.labels
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .copied()
    }

    /// Waits for an entry that no step has taken, and takes it; `None` when none came in time.
    pub(crate) async fn take(&self, filter: &Filter, within: Duration) -> Option<(usize, Entry)> {
        let end = tokio::time::Instant::now() + within;
        let mut length = self.length.subscribe();
        loop {
            length.mark_unchanged();
            if let Some(found) = self.take_now(filter) {
                return Some(found);
            }
            if timeout_at(end, length.changed()).await.is_err() {
                return self.take_now(filter);
            }
        }
    }

    fn take_now(&self, filter: &Filter) -> Option<(usize, Entry)> {
        let mut entries = self.lock();
        let later = entries.iter_mut().enumerate().skip(filter.from);
        let mut meant = later.filter(|(_, entry)| !entry.taken && filter.takes(entry));
        let (index, entry) = meant.next()?;
        entry.taken = true;
        Some((index, entry.clone()))
    }

    /// The first entry of those, up to a place.
    pub(crate) fn find(&self, filter: &Filter, to: usize) -> Option<Entry> {
        let entries = self.lock();
        let mut part = entries.iter().take(to).skip(filter.from);
        part.find(|entry| filter.takes(entry)).cloned()
    }

    /// The trace, a line for each entry, with milliseconds since its begin.
    pub(crate) fn print(&self) -> String {
        let mut text = String::new();
        for entry in self.entries() {
            let at = entry.at.duration_since(self.begun).as_millis();
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{at:>8} ms  {:<7} {}",
                entry.who,
                readable(&entry.event)
            );
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
