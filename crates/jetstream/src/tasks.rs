//! The one door for starting tasks: each has a name, a stop token, and a declared fate when it fails.

use std::{future::Future, panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What a task's panic means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The process cannot go on without it: [`Tasks::failed`] is raised.
    Vital,
    /// It served one caller, who sees the end of it; the rest goes on.
    OneCaller,
}

/// The tasks of a process.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    failed: CancellationToken,
}

impl Tasks {
    /// Starts a task. It should end soon after [`Tasks::stopping`] is raised.
    pub fn start(
        &self,
        name: &'static str,
        fate: Fate,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let tracked = self.tracker.track_future(self.watch(name, fate, task));
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the door that the lint points to"
        )]
        tokio::spawn(tracked);
    }

    /// Starts a vital task that the others need until the last of them has ended. It ends with the
    /// process: nobody waits for it.
    pub(crate) fn start_below(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let watched = self.watch(name, Fate::Vital, task);
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the door that the lint points to"
        )]
        tokio::spawn(watched);
    }

    /// Sees to it that a panic of a task has the fate that it was started with.
    fn watch(
        &self,
        name: &'static str,
        fate: Fate,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let failed = self.failed.clone();
        async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                tracing::error!(task = name, "a task panicked");
                if fate == Fate::Vital {
                    failed.cancel();
                }
            }
        }
    }

    /// Raised when the tasks should end.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    /// Raised when a vital task panicked.
    pub fn failed(&self) -> &CancellationToken {
        &self.failed
    }

    /// Asks all tasks to end and waits for them. Answers how many were left after `grace`.
    pub async fn stop(&self, grace: Duration) -> usize {
        self.stop.cancel();
        self.tracker.close();
        let ended = tokio::time::timeout(grace, self.tracker.wait()).await;
        if ended.is_ok() { 0 } else { self.tracker.len() }
    }
}
