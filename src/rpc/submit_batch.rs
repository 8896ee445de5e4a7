//! `SubmitBatch`: up to 1,000 jobs, one result for each.

use keywork_engine::Submits;

use crate::{convert, errors::Problem, proto, rpc::Service};

impl Service {
    pub(super) async fn submit_many(
        &self,
        request: proto::SubmitBatchRequest,
    ) -> Result<proto::SubmitBatchResponse, Problem> {
        self.open()?;
        convert::check_list("items", request.items.len())?;
        let mut results: Vec<_> = request.items.iter().map(|_| None).collect();
        let mut submits = Submits::new(&self.engine);
        for (at, (id, item)) in (0..).zip(request.items).enumerate() {
            results[at] = offer(&mut submits, id, item)
                .err()
                .map(convert::submit_result);
        }
        while submits.in_flight() > 0 {
            for (id, answer) in submits.answers().await {
                let at = usize::try_from(id).unwrap_or(usize::MAX);
                results[at] = Some(convert::submit_result(answer));
            }
        }
        Ok(proto::SubmitBatchResponse {
            results: results.into_iter().flatten().collect(),
        })
    }
}

/// Offers one item. What is wrong with it spoils no other.
pub(super) fn offer(
    submits: &mut Submits,
    id: u64,
    item: proto::SubmitRequest,
) -> Result<(), Result<keywork_engine::SubmitAnswer, Problem>> {
    let (queue, submission, on_conflict) = convert::to_submission(item).map_err(Err)?;
    let offered = submits.offer(id, &queue, submission, on_conflict);
    offered.map_err(|error| Err(Problem::from(error)))
}
