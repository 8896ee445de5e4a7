//! `GetJob`: the outstanding job of a key.

use keywork_model::{JobKey, QueueName};

use crate::{convert, errors::Problem, proto, rpc::Service};

impl Service {
    pub(super) async fn look(
        &self,
        request: proto::GetJobRequest,
    ) -> Result<proto::GetJobResponse, Problem> {
        let queue = QueueName::parse(&request.queue)?;
        let key = JobKey::parse(&request.key)?;
        let view = self.engine.job(&queue, &key).await?;
        Ok(proto::GetJobResponse {
            job: Some(convert::job(view)),
        })
    }
}
