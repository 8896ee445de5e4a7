//! Where handlers wait until the runner ends them.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use keywork_sdk::worker::{Fail, HandlerResult, Release, Rerun, Retry};
use tokio::sync::oneshot;

use crate::command::{Finish, FinishWith};

type Waiting = HashMap<String, VecDeque<oneshot::Sender<Finish>>>;

/// The handlers that wait, by key, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Desk(Mutex<Waiting>);

impl Desk {
    /// Takes a place; what comes out is how to end.
    pub(crate) fn wait(&self, key: &str) -> oneshot::Receiver<Finish> {
        let (sender, receiver) = oneshot::channel();
        self.waiting()
            .entry(key.to_owned())
            .or_default()
            .push_back(sender);
        receiver
    }

    /// Ends the oldest handler of the key that still waits. False: there is none.
    pub(crate) fn finish(&self, finish: Finish) -> bool {
        let mut waiting = self.waiting();
        let Some(places) = waiting.get_mut(&finish.key) else {
            return false;
        };
        // A handler that was cancelled has left its place.
        while let Some(place) = places.pop_front() {
            if place.send(finish.clone()).is_ok() {
                return true;
            }
        }
        false
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Finish {
    /// What the handler returns.
    pub(crate) fn result(self) -> HandlerResult {
        let delay = self.delay_ms.map(Duration::from_millis);
        let text = self.text.unwrap_or_default();
        Err(match self.how {
            FinishWith::Complete => return Ok(()),
            FinishWith::Error => text.into(),
            FinishWith::Retry => Retry::after(delay.unwrap_or_default()).because(text).into(),
            FinishWith::Fail => Fail::new(text).into(),
            FinishWith::Release => Release.into(),
            FinishWith::Rerun => Rerun::after(delay.unwrap_or_default()).into(),
        })
    }
}
