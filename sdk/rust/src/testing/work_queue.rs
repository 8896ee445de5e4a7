//! The fake server's `WorkQueue`: each RPC converts, calls the state, converts.

use std::time::{Duration, Instant};

use futures::stream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{
    Fake,
    answers::{left, refusal},
    sessions::LeaseStream,
    state::State,
    submits::SubmitStream,
};
use crate::{errors::reasons, raw, raw::work_queue_server::WorkQueue, wire};

type Answer<T> = Result<Response<T>, Status>;

fn not_served<T>() -> Answer<T> {
    Err(refusal(
        Code::Unimplemented,
        reasons::NOT_SERVED_YET,
        "not served yet",
    ))
}

#[tonic::async_trait]
impl WorkQueue for Fake {
    type SubmitStreamStream = SubmitStream;
    type LeaseStream = LeaseStream;
    type WatchJobsStream = stream::Empty<Result<raw::WatchJobsResponse, Status>>;

    async fn submit(&self, request: Request<raw::SubmitRequest>) -> Answer<raw::SubmitResponse> {
        let answer = self.change(|state| state.submit(request.into_inner()));
        answer.unary().map(Response::new)
    }

    async fn submit_batch(
        &self,
        request: Request<raw::SubmitBatchRequest>,
    ) -> Answer<raw::SubmitBatchResponse> {
        let items = request.into_inner().items;
        let results = self.change(|state| {
            items
                .into_iter()
                .map(|item| state.submit(item).of_many())
                .collect()
        });
        Ok(Response::new(raw::SubmitBatchResponse { results }))
    }

    async fn submit_stream(
        &self,
        request: Request<Streaming<raw::SubmitStreamRequest>>,
    ) -> Answer<Self::SubmitStreamStream> {
        Ok(Response::new(self.open_submits(request.into_inner())))
    }

    async fn lease(
        &self,
        request: Request<Streaming<raw::LeaseRequest>>,
    ) -> Answer<Self::LeaseStream> {
        self.open(request.into_inner()).map(Response::new)
    }

    async fn pull(&self, request: Request<raw::PullRequest>) -> Answer<raw::PullResponse> {
        let request = request.into_inner();
        let wait = request
            .wait
            .map_or(Duration::from_secs(20), wire::to_duration);
        let mut changes = self.0.changed.subscribe();
        let pulled = async {
            loop {
                changes.mark_unchanged();
                let deliveries = self.0.state.lock().pull(&request);
                if !deliveries.is_empty() || changes.changed().await.is_err() {
                    return deliveries;
                }
            }
        };
        let deliveries = tokio::time::timeout(wait, pulled).await.unwrap_or_default();
        Ok(Response::new(raw::PullResponse { deliveries }))
    }

    async fn heartbeat(
        &self,
        request: Request<raw::HeartbeatRequest>,
    ) -> Answer<raw::HeartbeatResponse> {
        let tokens = request.into_inner().lease_tokens;
        let results = self.change(|state| {
            tokens
                .into_iter()
                .map(|token| state.extend_one(token))
                .collect()
        });
        Ok(Response::new(raw::HeartbeatResponse { results }))
    }

    async fn ack(&self, request: Request<raw::AckRequest>) -> Answer<raw::AckResponse> {
        let settlements = request.into_inner().settlements;
        let results = self.change(|state| {
            settlements
                .into_iter()
                .map(|one| state.settle(one))
                .collect()
        });
        Ok(Response::new(raw::AckResponse { results }))
    }

    async fn get_job(&self, request: Request<raw::GetJobRequest>) -> Answer<raw::GetJobResponse> {
        let raw::GetJobRequest { queue, key } = request.into_inner();
        match self.0.state.lock().outstanding(&queue, &key) {
            Some(job) => Ok(Response::new(raw::GetJobResponse { job: Some(job) })),
            None => Err(refusal(
                Code::NotFound,
                reasons::JOB_NOT_FOUND,
                "the key has no outstanding job",
            )),
        }
    }

    async fn list_jobs(&self, _: Request<raw::ListJobsRequest>) -> Answer<raw::ListJobsResponse> {
        not_served()
    }

    async fn cancel_job(
        &self,
        _: Request<raw::CancelJobRequest>,
    ) -> Answer<raw::CancelJobResponse> {
        not_served()
    }

    async fn watch_jobs(&self, _: Request<raw::WatchJobsRequest>) -> Answer<Self::WatchJobsStream> {
        not_served()
    }

    async fn list_dead_jobs(
        &self,
        request: Request<raw::ListDeadJobsRequest>,
    ) -> Answer<raw::ListDeadJobsResponse> {
        let raw::ListDeadJobsRequest { queue, key, .. } = request.into_inner();
        let mut jobs = self.0.state.lock().dead(&queue);
        jobs.retain(|dead| key.is_empty() || dead.job.as_ref().is_some_and(|job| job.key == key));
        Ok(Response::new(raw::ListDeadJobsResponse {
            jobs,
            next_page_token: String::new(),
        }))
    }

    async fn redrive_dead_jobs(
        &self,
        request: Request<raw::RedriveDeadJobsRequest>,
    ) -> Answer<raw::RedriveDeadJobsResponse> {
        let results = self.change(|state| state.redrive(request.into_inner()));
        Ok(Response::new(raw::RedriveDeadJobsResponse { results }))
    }

    async fn delete_dead_jobs(
        &self,
        request: Request<raw::DeleteDeadJobsRequest>,
    ) -> Answer<raw::DeleteDeadJobsResponse> {
        let deleted = self.change(|state| state.delete_dead(&request.into_inner()));
        Ok(Response::new(raw::DeleteDeadJobsResponse { deleted }))
    }
}

impl State {
    fn pull(&mut self, request: &raw::PullRequest) -> Vec<raw::Delivery> {
        let most = usize::try_from(request.max_jobs.max(1)).unwrap_or(1);
        self.lease(
            std::slice::from_ref(&request.queue),
            most,
            None,
            &request.worker_id,
        )
    }

    fn extend_one(&mut self, lease_token: bytes::Bytes) -> raw::HeartbeatResult {
        match self.extend(&lease_token) {
            Some(deadline) => raw::HeartbeatResult {
                time_left: left(deadline, Instant::now()),
                lease_token,
                ..Default::default()
            },
            None => raw::HeartbeatResult {
                lost: raw::LostReason::Expired.into(),
                lease_token,
                ..Default::default()
            },
        }
    }

    fn redrive(&mut self, request: raw::RedriveDeadJobsRequest) -> Vec<raw::RedriveResult> {
        let most = if request.max_jobs == 0 {
            100
        } else {
            request.max_jobs as usize
        };
        let ids: Vec<u64> = if request.dead_ids.is_empty() {
            self.dead(&request.queue)
                .iter()
                .map(|dead| dead.dead_id)
                .take(most)
                .collect()
        } else {
            request.dead_ids
        };
        ids.into_iter()
            .filter_map(|id| self.redrive_one(&request.queue, id))
            .collect()
    }

    fn redrive_one(&mut self, queue: &str, dead_id: u64) -> Option<raw::RedriveResult> {
        let job = self.queues.get(queue)?.dead.get(&dead_id)?.job.clone()?;
        let answer = self.submit(raw::SubmitRequest {
            queue: job.queue,
            key: job.key,
            payload: job.payload,
            content_type: job.content_type,
            attributes: job.attributes,
            max_attempts: job.max_attempts,
            ..Default::default()
        });
        let result = answer.of_many();
        let created = matches!(&result.result, Some(raw::submit_result::Result::Response(response))
            if response.outcome() == raw::SubmitOutcome::Created);
        if created {
            self.queues.get_mut(queue)?.dead.remove(&dead_id);
        }
        Some(raw::RedriveResult {
            dead_id,
            result: Some(result),
        })
    }

    fn delete_dead(&mut self, request: &raw::DeleteDeadJobsRequest) -> u64 {
        let Some(queue) = self.queues.get_mut(&request.queue) else {
            return 0;
        };
        let before = queue.dead.len();
        queue
            .dead
            .retain(|id, _| !request.all && !request.dead_ids.contains(id));
        u64::try_from(before - queue.dead.len()).unwrap_or(u64::MAX)
    }
}
