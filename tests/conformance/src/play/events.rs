//! Steps that wait for events, or for none.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Played, Player, Stop, failed, workers::unsupported};
use crate::{
    scenario::{Expect, Never},
    trace::{Entry, Filter},
};

impl Player<'_> {
    /// Waits for one event, and takes it.
    pub(super) async fn await_event(
        &mut self,
        worker: Option<&str>,
        see: Value,
        within: Duration,
    ) -> Played {
        let filter = Filter {
            worker: worker.map(str::to_owned),
            see,
            from: 0,
        };
        self.take(&filter, within).await.map(drop)
    }

    async fn take(&self, filter: &Filter, within: Duration) -> Result<(usize, Entry), Stop> {
        match self.trace.take(filter, within).await {
            Some(found) => Ok(found),
            None => Err(self.missing(filter, within)),
        }
    }

    fn missing(&self, filter: &Filter, within: Duration) -> Stop {
        // It may not have come because the worker cannot do what it was told.
        let refused = self.trace.entries();
        let mut refused = refused.iter().filter_map(|entry| unsupported(&entry.event));
        if let Some(what) = refused.next() {
            return Stop::Unsupported(what);
        }
        let whose = filter.worker.as_deref().unwrap_or("any worker");
        Stop::Failed(format!(
            "{} of {whose} did not come within {} ms",
            filter.see,
            within.as_millis()
        ))
    }

    pub(super) async fn expect(&mut self, expect: &Expect) -> Played {
        self.found(expect).await.map(drop)
    }

    /// Waits for what is expected; answers the place of the last one in the trace.
    async fn found(&mut self, expect: &Expect) -> Result<usize, Stop> {
        let from = self
            .place(expect.after.as_deref())?
            .map_or(0, |(index, _)| index);
        let filter = Filter {
            worker: expect.worker.as_ref().map(|name| self.names.text(name)),
            see: self.filled(&expect.see),
            from,
        };
        let end = Instant::now() + Duration::from_millis(expect.within_ms);
        let mut last = 0;
        for _ in 0..expect.count {
            let left = end.saturating_duration_since(Instant::now());
            let (index, entry) = self.take(&filter, left).await?;
            if let Some(label) = &expect.label {
                self.trace.label(label, Some(index));
            }
            self.check_time(expect, &entry)?;
            self.save(&expect.save, &entry.event);
            last = index;
        }
        Ok(last)
    }

    fn check_time(&self, expect: &Expect, entry: &Entry) -> Played {
        let Some((_, since)) = self.place(expect.since.as_deref())? else {
            return Ok(());
        };
        let after = entry.at.saturating_duration_since(since).as_millis();
        let name = expect.since.as_deref().unwrap_or_default();
        if expect
            .least_ms
            .is_some_and(|least| after < u128::from(least))
        {
            return failed(format!(
                "{} came {after} ms after {name}: too soon",
                entry.event
            ));
        }
        if expect.most_ms.is_some_and(|most| after > u128::from(most)) {
            return failed(format!(
                "{} came {after} ms after {name}: too late",
                entry.event
            ));
        }
        Ok(())
    }

    fn place(&self, label: Option<&str>) -> Result<Option<(usize, Instant)>, Stop> {
        match label {
            None => Ok(None),
            Some(label) => match self.trace.labelled(label) {
                Some(place) => Ok(Some(place)),
                None => failed(format!("nothing was named {label}")),
            },
        }
    }

    pub(super) async fn never(&mut self, never: &Never) -> Played {
        let from = match self.place(never.after.as_deref())? {
            Some((index, _)) => index,
            None => self.trace.length(),
        };
        let to = self.found(&never.until).await?;
        let filter = Filter {
            worker: never.worker.clone(),
            see: self.filled(&never.see),
            from,
        };
        match self.trace.find(&filter, to) {
            Some(entry) => failed(format!("{} of {} must not come", entry.event, entry.who)),
            None => Ok(()),
        }
    }

    /// Lets time pass, in which none of these comes.
    pub(super) async fn quiet(&mut self, for_ms: u64, never: &[Value]) -> Played {
        self.trace.note("quiet", &json!({"for_ms": for_ms}));
        let any: Vec<Value> = never.iter().map(|one| self.filled(one)).collect();
        let filter = Filter {
            worker: None,
            see: json!({ "any": any }),
            from: self.trace.length(),
        };
        match self
            .trace
            .take(&filter, Duration::from_millis(for_ms))
            .await
        {
            Some((_, entry)) => failed(format!("{} of {} must not come", entry.event, entry.who)),
            None => Ok(()),
        }
    }

    pub(super) fn save(&mut self, names: &BTreeMap<String, String>, event: &Value) {
        for (name, pointer) in names {
            let value = event.pointer(pointer).cloned().unwrap_or_default();
            self.names.set(name, value);
        }
    }
}
