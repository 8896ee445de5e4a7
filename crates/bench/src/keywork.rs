//! Keywork's side: a bare tonic client that batches both ways.

mod busy;
mod connect;
mod latency;
mod submits;
mod unary;
mod worker;

pub(crate) use busy::busy;
pub(crate) use connect::Keywork;
pub(crate) use latency::latency;
pub(crate) use unary::unary;

use crate::{error::Error, proto::SubmitRequest, scenario::Load};

use submits::Submits;
use worker::Worker;

/// The whole cycle through streams: offers up, results down; deliveries down, settlements up.
pub(crate) async fn cycle(keywork: &mut Keywork, queue: &str, load: &Load) -> Result<(), Error> {
    let worker = Worker::open(keywork, queue, load).await?;
    let submits = Submits::open(keywork).await?;
    let key = |number| load.key(number);
    let submitting = async move {
        let ended = submits.run(queue, load, key).await?;
        ended.all_created(load.jobs)
    };
    tokio::try_join!(submitting, worker.run(load)).map(drop)
}

/// One offer.
fn submit(queue: &str, key: String, load: &Load) -> SubmitRequest {
    SubmitRequest {
        queue: queue.into(),
        key,
        payload: load.payload.clone(),
        ..SubmitRequest::default()
    }
}
