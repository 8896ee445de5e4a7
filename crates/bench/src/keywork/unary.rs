//! The whole cycle with one unary call a job, settled through the session.

use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    error::Error,
    keywork::{Keywork, Worker, submit},
    proto::SubmitOutcome,
    scenario::Load,
};

/// Submits every job of `load` with `calls` calls in flight, and settles it.
pub(crate) async fn unary(
    keywork: &mut Keywork,
    queue: &str,
    load: &Load,
    calls: usize,
) -> Result<(), Error> {
    let worker = Worker::open(keywork, queue, load).await?;
    let submitting = stream::iter(0..load.jobs)
        .map(|number| submit_one(keywork.clone(), queue, number, load))
        .buffer_unordered(calls)
        .try_for_each(async |()| Ok(()));
    tokio::try_join!(submitting, worker.run(load)).map(drop)
}

/// Submits one job.
pub(super) async fn submit_one(
    mut keywork: Keywork,
    queue: &str,
    number: u64,
    load: &Load,
) -> Result<(), Error> {
    let request = submit(queue, load.key(number), load);
    let response = keywork.jobs.submit(request).await?.into_inner();
    match response.outcome() {
        SubmitOutcome::Created => Ok(()),
        SubmitOutcome::Unspecified
        | SubmitOutcome::Duplicate
        | SubmitOutcome::AlreadyOutstanding
        | SubmitOutcome::RerunScheduled
        | SubmitOutcome::Replaced => Err(Error::wrong(format!("{response:?}"))),
    }
}
