//! A stream of offers, with a bounded number in flight.

use futures::{StreamExt, stream::ReadyChunks};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::{
    error::Error,
    keywork::{Keywork, submit},
    proto::{SubmitOffer, SubmitOutcome, SubmitStreamRequest, SubmitStreamResponse, submit_result},
    scenario::Load,
};

/// Most offers of one message.
const BATCH: u64 = 256;
/// Messages that wait for the connection: enough for a whole window.
const MESSAGES: usize = 64;
const CHUNK: usize = 64;

/// An open stream of offers.
pub(super) struct Submits {
    offers: mpsc::Sender<SubmitStreamRequest>,
    results: ReadyChunks<Streaming<SubmitStreamResponse>>,
}

/// How the offers ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    pub(super) created: u64,
    pub(super) busy: u64,
}

impl Ended {
    pub(super) fn count(self) -> u64 {
        self.created + self.busy
    }

    /// An error unless every job was accepted.
    pub(super) fn all_created(self, jobs: u64) -> Result<(), Error> {
        if self.created == jobs {
            return Ok(());
        }
        Err(Error::wrong(format!("{self:?} of {jobs} distinct keys")))
    }

    fn add(&mut self, response: &SubmitStreamResponse) -> Result<(), Error> {
        for result in &response.results {
            let result = result.result.as_ref().and_then(|r| r.result.as_ref());
            let outcome = match result {
                Some(submit_result::Result::Response(response)) => response.outcome(),
                other => return Err(Error::wrong(format!("{other:?}"))),
            };
            match outcome {
                SubmitOutcome::Created => self.created += 1,
                SubmitOutcome::AlreadyOutstanding => self.busy += 1,
                SubmitOutcome::Unspecified
                | SubmitOutcome::Duplicate
                | SubmitOutcome::RerunScheduled
                | SubmitOutcome::Replaced => {
                    return Err(Error::wrong(format!("a submit ended as {outcome:?}")));
                }
            }
        }
        Ok(())
    }
}

impl Submits {
    /// Opens the stream.
    pub(super) async fn open(keywork: &mut Keywork) -> Result<Self, Error> {
        let (offers, to_send) = mpsc::channel(MESSAGES);
        let results = keywork.jobs.submit_stream(ReceiverStream::new(to_send));
        let results = results.await?.into_inner().ready_chunks(CHUNK);
        Ok(Self { offers, results })
    }

    /// Offers every job of `load`, under the keys that `key` gives.
    pub(super) async fn run(
        mut self,
        queue: &str,
        load: &Load,
        key: impl Fn(u64) -> String,
    ) -> Result<Ended, Error> {
        let (mut offered, mut ended) = (0, Ended::default());
        while ended.count() < load.jobs {
            let room = load.window - (offered - ended.count());
            let last = (offered + room).min(load.jobs);
            while offered < last {
                let until = (offered + BATCH).min(last);
                let offers = (offered..until).map(|n| offer(queue, n, key(n), load));
                self.send(offers.collect()).await?;
                offered = until;
            }
            for response in self.results.next().await.unwrap_or_default() {
                ended.add(&response?)?;
            }
        }
        Ok(ended)
    }

    async fn send(&self, offers: Vec<SubmitOffer>) -> Result<(), Error> {
        let sent = self.offers.send(SubmitStreamRequest { offers }).await;
        sent.map_err(|_| Error::wrong("the stream of offers ended"))
    }
}

fn offer(queue: &str, number: u64, key: String, load: &Load) -> SubmitOffer {
    SubmitOffer {
        correlation_id: number,
        submit: Some(submit(queue, key, load)),
    }
}
