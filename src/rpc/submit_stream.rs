//! `SubmitStream`: offers without waiting for each answer.

use futures::StreamExt;
use keywork_engine::Submits;
use keywork_jetstream::tasks::Fate;
use keywork_model::limits;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::{
    convert,
    errors::Problem,
    proto,
    rpc::{Answers, Service, submit_batch},
};

type Sender = mpsc::Sender<Result<proto::SubmitStreamResponse, Status>>;

impl Service {
    pub(super) fn submit_streaming(
        &self,
        offers: Streaming<proto::SubmitStreamRequest>,
    ) -> Answers<proto::SubmitStreamResponse> {
        let (tx, rx) = mpsc::channel(8);
        let submits = Submits::new(&self.engine);
        self.tasks.start(
            "submit-stream",
            Fate::OneCaller,
            run(self.clone(), offers, submits, tx),
        );
        ReceiverStream::new(rx).boxed()
    }
}

/// Reads offers while not too many are in flight, and answers what is ready. What was read is answered
/// also after the caller has said all.
async fn run(
    service: Service,
    mut offers: Streaming<proto::SubmitStreamRequest>,
    mut submits: Submits,
    answers: Sender,
) {
    let mut reading = true;
    while reading || submits.in_flight() > 0 {
        let room = submits.in_flight() < limits::STREAM_IN_FLIGHT;
        let results = tokio::select! {
            message = offers.message(), if reading && room => match message {
                Ok(Some(message)) => match take(&service, &mut submits, message) {
                    Ok(results) => results,
                    Err(problem) => {
                        // Whoever hung up does not hear it.
                        drop(answers.send(Err(problem.into())).await);
                        return;
                    }
                },
                Ok(None) | Err(_) => {
                    reading = false;
                    Vec::new()
                }
            },
            ready = submits.answers(), if submits.in_flight() > 0 => ready
                .into_iter()
                .map(|(id, answer)| result(id, convert::submit_result(answer)))
                .collect(),
        };
        if !results.is_empty() {
            let response = proto::SubmitStreamResponse { results };
            if answers.send(Ok(response)).await.is_err() {
                return;
            }
        }
    }
}

/// Takes in a message's offers. Answers those that are answered at once.
fn take(
    service: &Service,
    submits: &mut Submits,
    message: proto::SubmitStreamRequest,
) -> Result<Vec<proto::SubmitOfferResult>, Problem> {
    convert::check_list("offers", message.offers.len())?;
    let mut results = Vec::new();
    for offer in message.offers {
        let id = offer.correlation_id;
        let offered = match (service.open(), offer.submit) {
            (Err(problem), _) => Err(Err(problem)),
            (Ok(()), None) => Err(Err(
                keywork_model::Violation::new("submit", "must be set").into()
            )),
            (Ok(()), Some(submit)) => submit_batch::offer(submits, id, submit),
        };
        if let Err(answer) = offered {
            results.push(result(id, convert::submit_result(answer)));
        }
    }
    Ok(results)
}

fn result(correlation_id: u64, result: proto::SubmitResult) -> proto::SubmitOfferResult {
    proto::SubmitOfferResult {
        correlation_id,
        result: Some(result),
    }
}
