//! One handler's run, as a task that reports its end whatever becomes of it.

use tokio::sync::mpsc;

use super::{
    Context,
    handler::{Chain, Outcome},
    leases::LeaseId,
};
use crate::Job;

/// A handler has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) id: LeaseId,
    pub(crate) outcome: Outcome,
}

/// Reports once: the outcome, or, when the task is dropped before it, that the job is to be released.
#[derive(Debug)]
pub(crate) struct Report {
    id: LeaseId,
    to: Option<mpsc::UnboundedSender<Finished>>,
}

impl Report {
    pub(crate) fn new(id: LeaseId, to: mpsc::UnboundedSender<Finished>) -> Self {
        Self { id, to: Some(to) }
    }

    fn finish(&mut self, outcome: Outcome) {
        if let Some(to) = self.to.take() {
            // Nobody listens any more when the worker has ended.
            let _ = to.send(Finished {
                id: self.id,
                outcome,
            });
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.finish(Outcome::Release);
    }
}

/// Runs the handler and reports. One that was told to stop before its turn came does not start.
pub(crate) async fn run_one(chain: Chain, context: Context, job: Job, mut report: Report) {
    if context.is_cancelled() {
        return report.finish(Outcome::Release);
    }
    let outcome = chain.run(context, job).await;
    report.finish(outcome);
}
