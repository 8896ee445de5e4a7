//! `Submit`: one job.

use crate::{convert, errors::Problem, proto, rpc::Service};

impl Service {
    pub(super) async fn submit_one(
        &self,
        request: proto::SubmitRequest,
    ) -> Result<proto::SubmitResponse, Problem> {
        self.open()?;
        let (queue, submission, on_conflict) = convert::to_submission(request)?;
        let answer = self.engine.submit(&queue, submission, on_conflict).await?;
        Ok(convert::submit_response(answer))
    }
}
