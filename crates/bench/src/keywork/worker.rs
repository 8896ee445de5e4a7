//! A worker session that completes whatever it is given, at once.

use bytes::Bytes;
use futures::{StreamExt, stream::ReadyChunks};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::{
    error::Error,
    keywork::Keywork,
    proto::{
        Complete, Delivery, Hello, LeaseRequest, LeaseResponse, QueueSubscription, Settlement,
        SettlementOutcome, SettlementResult, Settlements, lease_request, lease_response,
        settlement,
    },
    scenario::Load,
};

/// Most settlements of one message.
const BATCH: usize = 256;
/// Messages that wait for the connection: enough for a whole window.
const MESSAGES: usize = 64;
const CHUNK: usize = 64;

/// An open session.
pub(super) struct Worker {
    says: mpsc::Sender<LeaseRequest>,
    hears: ReadyChunks<Streaming<LeaseResponse>>,
    settled: u64,
    to_settle: Vec<Settlement>,
}

impl Worker {
    /// Opens a session that may hold as many leases as the load's window.
    pub(super) async fn open(
        keywork: &mut Keywork,
        queue: &str,
        load: &Load,
    ) -> Result<Self, Error> {
        let (says, to_send) = mpsc::channel(MESSAGES);
        let worker = Self::say(&says, lease_request::Message::Hello(hello(queue, load)));
        worker.await?;
        let hears = keywork.jobs.lease(ReceiverStream::new(to_send)).await?;
        Ok(Self {
            says,
            hears: hears.into_inner().ready_chunks(CHUNK),
            settled: 0,
            to_settle: Vec::new(),
        })
    }

    /// Completes jobs until as many as the load has are settled.
    pub(super) async fn run(mut self, load: &Load) -> Result<(), Error> {
        while self.settled < load.jobs {
            let heard = self.hears.next().await;
            for response in heard.ok_or_else(|| Error::wrong("the session ended"))? {
                self.hear(response?, load)?;
            }
            while !self.to_settle.is_empty() {
                let rest = self.to_settle.split_off(self.to_settle.len().min(BATCH));
                let settlements = std::mem::replace(&mut self.to_settle, rest);
                let message = lease_request::Message::Settlements(Settlements { settlements });
                Self::say(&self.says, message).await?;
            }
        }
        Ok(())
    }

    async fn say(
        says: &mpsc::Sender<LeaseRequest>,
        message: lease_request::Message,
    ) -> Result<(), Error> {
        let message = Some(message);
        let said = says.send(LeaseRequest { message }).await;
        said.map_err(|_| Error::wrong("the session ended"))
    }

    fn hear(&mut self, response: LeaseResponse, load: &Load) -> Result<(), Error> {
        match response.message {
            Some(lease_response::Message::Welcome(_)) => Ok(()),
            Some(lease_response::Message::Deliveries(deliveries)) => {
                self.deliver(deliveries.deliveries, load)
            }
            Some(lease_response::Message::SettlementResults(results)) => {
                self.count(&results.results)
            }
            other => Err(Error::wrong(format!("{other:?}"))),
        }
    }

    fn deliver(&mut self, deliveries: Vec<Delivery>, load: &Load) -> Result<(), Error> {
        for delivery in deliveries {
            let size = delivery.job.as_ref().map(|job| job.payload.len());
            if size != Some(load.payload.len()) {
                return Err(Error::wrong("a payload of another size"));
            }
            self.to_settle.push(complete(delivery.lease_token));
        }
        Ok(())
    }

    fn count(&mut self, results: &[SettlementResult]) -> Result<(), Error> {
        for result in results {
            if result.outcome() != SettlementOutcome::Settled {
                return Err(Error::wrong(format!("{result:?}")));
            }
            self.settled += 1;
        }
        Ok(())
    }
}

fn hello(queue: &str, load: &Load) -> Hello {
    let queues = vec![QueueSubscription {
        queue: queue.into(),
        weight: 1,
    }];
    Hello {
        queues,
        capacity: u32::try_from(load.window).unwrap_or(u32::MAX),
        ..Hello::default()
    }
}

fn complete(lease_token: Bytes) -> Settlement {
    let outcome = settlement::Outcome::Complete(Complete::default());
    Settlement {
        lease_token,
        outcome: Some(outcome),
    }
}
