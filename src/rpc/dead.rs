//! `ListDeadJobs`, `RedriveDeadJobs`, `DeleteDeadJobs`.

use keywork_engine::Redriven;
use keywork_model::{JobKey, QueueName, Violation, limits};

use crate::{
    convert,
    errors::{Problem, Reason},
    proto,
    rpc::Service,
};

impl Service {
    pub(super) async fn list_dead(
        &self,
        request: proto::ListDeadJobsRequest,
    ) -> Result<proto::ListDeadJobsResponse, Problem> {
        let queue = QueueName::parse(&request.queue)?;
        let count = convert::to_page_size("page_size", request.page_size)?;
        let from = to_page_token(&request.page_token)?;
        let key = match request.key.as_str() {
            "" => None,
            key => Some(JobKey::parse(key)?),
        };
        let page = self.engine.dead(&queue, from, count, key.as_ref()).await?;
        let show = |letter| convert::dead_job(&queue, letter, page.max_attempts);
        Ok(proto::ListDeadJobsResponse {
            jobs: page.letters.into_iter().map(show).collect(),
            next_page_token: page.next.map(|n| n.to_string()).unwrap_or_default(),
        })
    }

    pub(super) async fn redrive(
        &self,
        request: proto::RedriveDeadJobsRequest,
    ) -> Result<proto::RedriveDeadJobsResponse, Problem> {
        self.open()?;
        let queue = QueueName::parse(&request.queue)?;
        let most = convert::to_page_size("max_jobs", request.max_jobs)?;
        check_ids(&request.dead_ids)?;
        let redriven = self.engine.redrive(&queue, request.dead_ids, most).await?;
        let results = redriven.into_iter().map(to_result).collect();
        Ok(proto::RedriveDeadJobsResponse { results })
    }

    pub(super) async fn delete_dead(
        &self,
        request: proto::DeleteDeadJobsRequest,
    ) -> Result<proto::DeleteDeadJobsResponse, Problem> {
        let queue = QueueName::parse(&request.queue)?;
        check_ids(&request.dead_ids)?;
        let which = match (request.all, request.dead_ids.is_empty()) {
            (true, true) => None,
            (false, false) => Some(request.dead_ids),
            (true, false) => {
                return Err(Violation::new("all", "must not be set together with dead_ids").into());
            }
            (false, true) => {
                return Err(
                    Violation::new("dead_ids", "must not be empty unless all is set").into(),
                );
            }
        };
        let deleted = self.engine.delete_dead(&queue, which).await?;
        Ok(proto::DeleteDeadJobsResponse { deleted })
    }
}

fn to_page_token(token: &str) -> Result<u64, Violation> {
    if token.is_empty() {
        return Ok(1);
    }
    token
        .parse()
        .map_err(|_| Violation::new("page_token", "was not made by this server"))
}

fn check_ids(ids: &[u64]) -> Result<(), Violation> {
    if ids.len() > limits::BATCH_ITEMS {
        let limit = limits::BATCH_ITEMS;
        return Err(Violation::new(
            "dead_ids",
            format!("must have at most {limit} entries"),
        ));
    }
    if let Some(at) = ids.iter().position(|id| *id == 0) {
        let field = format!("dead_ids[{at}]");
        return Err(Violation::new(&field, "must be at least 1"));
    }
    Ok(())
}

fn to_result(redriven: Redriven) -> proto::RedriveResult {
    let missing = || {
        Err(Problem::new(
            Reason::DeadJobNotFound,
            "there is no such dead letter",
        ))
    };
    let result = redriven
        .result
        .map_or_else(missing, |r| r.map_err(Problem::from));
    proto::RedriveResult {
        dead_id: redriven.sequence,
        result: Some(convert::submit_result(result)),
    }
}
