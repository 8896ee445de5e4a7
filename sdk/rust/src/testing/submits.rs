//! Submits to the fake server: alone, in batches, on a stream.

use std::{pin::Pin, time::Duration};

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::{
    Fake, SubmitFault,
    answers::{bad_field, item, outage, refusal},
    state::State,
};
use crate::{errors::reasons, raw, tasks, wire};

/// What the server says on a `SubmitStream`.
pub(super) type SubmitStream =
    Pin<Box<dyn Stream<Item = Result<raw::SubmitStreamResponse, Status>> + Send>>;

/// How a submit is to be answered.
pub(super) enum Answer {
    Response(Box<raw::SubmitResponse>),
    Error(Status),
    /// The stream or the call breaks.
    Broken,
}

impl Answer {
    fn of(result: Result<raw::SubmitResponse, Status>) -> Self {
        result.map_or_else(Self::Error, |response| Self::Response(Box::new(response)))
    }

    /// For a call that is not part of a stream.
    pub(super) fn unary(self) -> Result<raw::SubmitResponse, Status> {
        match self {
            Self::Response(response) => Ok(*response),
            Self::Error(status) => Err(status),
            Self::Broken => Err(outage("unknown")),
        }
    }

    /// For one item of many.
    pub(super) fn of_many(self) -> raw::SubmitResult {
        let result = match self.unary() {
            Ok(response) => raw::submit_result::Result::Response(response),
            Err(status) => raw::submit_result::Result::Error(item(&status)),
        };
        raw::SubmitResult {
            result: Some(result),
        }
    }
}

impl State {
    /// Offers one job, with the fault that the script has for it.
    pub(super) fn submit(&mut self, request: raw::SubmitRequest) -> Answer {
        self.seen.submits.push(request.request_id.clone());
        match self.script.submit_faults.pop_front() {
            None => Answer::of(self.submit_truly(request)),
            Some(SubmitFault::Unavailable) => Answer::Error(outage("none")),
            Some(SubmitFault::Refused(status)) => Answer::Error(status),
            Some(SubmitFault::AnswerLost) => {
                drop(self.submit_truly(request));
                Answer::Error(outage("unknown"))
            }
            Some(SubmitFault::Broken) => {
                drop(self.submit_truly(request));
                Answer::Broken
            }
        }
    }

    fn submit_truly(&mut self, request: raw::SubmitRequest) -> Result<raw::SubmitResponse, Status> {
        check(&request)?;
        let queue = self.queues.entry(request.queue.clone()).or_default();
        if let Some(job) = queue.accepted.get(&request.request_id) {
            return Ok(response(raw::SubmitOutcome::Duplicate, job));
        }
        if let Some(entry) = queue.jobs.get(&request.key) {
            if request.on_conflict() == raw::OnConflict::Fail {
                return Err(refusal(
                    Code::AlreadyExists,
                    reasons::KEY_BUSY,
                    "the key is busy",
                ));
            }
            return Ok(response(raw::SubmitOutcome::AlreadyOutstanding, &entry.job));
        }
        let delay = match request.start {
            Some(raw::submit_request::Start::Delay(delay)) => Some(wire::to_duration(delay)),
            Some(raw::submit_request::Start::StartAt(at)) => Some(until(at)),
            None => None,
        };
        let job = self.accept(request, delay);
        Ok(response(raw::SubmitOutcome::Created, &job))
    }
}

fn check(request: &raw::SubmitRequest) -> Result<(), Status> {
    if !is_queue_name(&request.queue) {
        return Err(bad_field("queue", "must match [a-z0-9][a-z0-9_-]{0,63}"));
    }
    if request.key.is_empty() || request.key.len() > 512 {
        return Err(bad_field("key", "must have 1 to 512 bytes"));
    }
    Ok(())
}

pub(super) fn is_queue_name(name: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.len() <= 64
        && bytes.first().is_some_and(|byte| first(*byte))
        && bytes
            .iter()
            .all(|byte| first(*byte) || matches!(byte, b'_' | b'-'))
}

fn until(at: prost_types::Timestamp) -> Duration {
    let (at, now) = (wire::to_time(at), wire::to_time(super::answers::wall()));
    let left = at
        .zip(now)
        .and_then(|(at, now)| at.duration_since(now).ok());
    left.unwrap_or_default()
}

/// The outcome, naming the job without its payload.
fn response(outcome: raw::SubmitOutcome, job: &raw::Job) -> raw::SubmitResponse {
    let job = raw::Job {
        payload: Default::default(),
        ..job.clone()
    };
    raw::SubmitResponse {
        outcome: outcome.into(),
        job: Some(job),
    }
}

impl Fake {
    pub(super) fn open_submits(
        &self,
        inbound: Streaming<raw::SubmitStreamRequest>,
    ) -> SubmitStream {
        let (sender, receiver) = mpsc::channel(64);
        let fake = self.clone();
        // Its fate: it ends with either half of the stream.
        drop(tasks::start(
            async move { fake.submits(inbound, sender).await },
        ));
        ReceiverStream::new(receiver).boxed()
    }

    async fn submits(
        &self,
        mut inbound: Streaming<raw::SubmitStreamRequest>,
        outbound: mpsc::Sender<Result<raw::SubmitStreamResponse, Status>>,
    ) {
        while let Ok(Some(message)) = inbound.message().await {
            let (results, broken) = self.change(|state| offers(state, message.offers));
            let answer = Ok(raw::SubmitStreamResponse { results });
            if outbound.send(answer).await.is_err() || broken {
                return;
            }
        }
    }
}

/// The results up to the first offer that breaks the stream.
fn offers(state: &mut State, offers: Vec<raw::SubmitOffer>) -> (Vec<raw::SubmitOfferResult>, bool) {
    let mut results = Vec::with_capacity(offers.len());
    for offer in offers {
        let answer = state.submit(offer.submit.unwrap_or_default());
        if matches!(answer, Answer::Broken) {
            return (results, true);
        }
        let correlation_id = offer.correlation_id;
        results.push(raw::SubmitOfferResult {
            correlation_id,
            result: Some(answer.of_many()),
        });
    }
    (results, false)
}
