//! The services of the contract, one file an RPC. A handler converts, calls one engine function, and
//! converts: no rules live here.

mod ack;
mod dead;
mod get_job;
mod heartbeat;
mod lease;
mod pull;
mod queue_admin;
mod schedules;
mod submit;
mod submit_batch;
mod submit_stream;

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::Stream;
use keywork_engine::Engine;
use keywork_jetstream::tasks::Tasks;
use tonic::{Request, Response, Status, Streaming};

use crate::{
    errors::{Problem, Reason},
    proto::{self, work_queue_server::WorkQueue},
};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What all services share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Service {
    engine: Engine,
    tasks: Tasks,
    draining: Arc<AtomicBool>,
}

impl Service {
    /// The services on an engine.
    pub fn new(engine: Engine, tasks: Tasks) -> Self {
        Self {
            engine,
            tasks,
            draining: Arc::default(),
        }
    }

    /// From now on nothing new is taken on. Settlements and heartbeats go on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether the server is stopping.
    pub fn draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Refuses new work while the server is stopping.
    fn open(&self) -> Result<(), Problem> {
        if self.draining() {
            return Err(Problem::new(
                Reason::ServerDraining,
                "the server is stopping",
            ));
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl WorkQueue for Service {
    type SubmitStreamStream = Answers<proto::SubmitStreamResponse>;
    type LeaseStream = Answers<proto::LeaseResponse>;
    type WatchJobsStream = Answers<proto::WatchJobsResponse>;

    async fn submit(
        &self,
        request: Request<proto::SubmitRequest>,
    ) -> Result<Response<proto::SubmitResponse>, Status> {
        Ok(Response::new(self.submit_one(request.into_inner()).await?))
    }

    async fn submit_batch(
        &self,
        request: Request<proto::SubmitBatchRequest>,
    ) -> Result<Response<proto::SubmitBatchResponse>, Status> {
        Ok(Response::new(self.submit_many(request.into_inner()).await?))
    }

    async fn submit_stream(
        &self,
        request: Request<Streaming<proto::SubmitStreamRequest>>,
    ) -> Result<Response<Self::SubmitStreamStream>, Status> {
        self.open()?;
        Ok(Response::new(self.submit_streaming(request.into_inner())))
    }

    async fn lease(
        &self,
        request: Request<Streaming<proto::LeaseRequest>>,
    ) -> Result<Response<Self::LeaseStream>, Status> {
        self.open()?;
        Ok(Response::new(self.lease_streaming(request.into_inner())))
    }

    async fn pull(
        &self,
        request: Request<proto::PullRequest>,
    ) -> Result<Response<proto::PullResponse>, Status> {
        Ok(Response::new(self.pull_jobs(request).await?))
    }

    async fn heartbeat(
        &self,
        request: Request<proto::HeartbeatRequest>,
    ) -> Result<Response<proto::HeartbeatResponse>, Status> {
        Ok(Response::new(self.extend(request.into_inner()).await?))
    }

    async fn ack(
        &self,
        request: Request<proto::AckRequest>,
    ) -> Result<Response<proto::AckResponse>, Status> {
        Ok(Response::new(self.settle(request.into_inner()).await?))
    }

    async fn get_job(
        &self,
        request: Request<proto::GetJobRequest>,
    ) -> Result<Response<proto::GetJobResponse>, Status> {
        Ok(Response::new(self.look(request.into_inner()).await?))
    }

    async fn list_jobs(
        &self,
        _: Request<proto::ListJobsRequest>,
    ) -> Result<Response<proto::ListJobsResponse>, Status> {
        Err(Problem::not_served("ListJobs").into())
    }

    async fn cancel_job(
        &self,
        _: Request<proto::CancelJobRequest>,
    ) -> Result<Response<proto::CancelJobResponse>, Status> {
        Err(Problem::not_served("CancelJob").into())
    }

    async fn watch_jobs(
        &self,
        _: Request<proto::WatchJobsRequest>,
    ) -> Result<Response<Self::WatchJobsStream>, Status> {
        Err(Problem::not_served("WatchJobs").into())
    }

    async fn list_dead_jobs(
        &self,
        request: Request<proto::ListDeadJobsRequest>,
    ) -> Result<Response<proto::ListDeadJobsResponse>, Status> {
        Ok(Response::new(self.list_dead(request.into_inner()).await?))
    }

    async fn redrive_dead_jobs(
        &self,
        request: Request<proto::RedriveDeadJobsRequest>,
    ) -> Result<Response<proto::RedriveDeadJobsResponse>, Status> {
        Ok(Response::new(self.redrive(request.into_inner()).await?))
    }

    async fn delete_dead_jobs(
        &self,
        request: Request<proto::DeleteDeadJobsRequest>,
    ) -> Result<Response<proto::DeleteDeadJobsResponse>, Status> {
        Ok(Response::new(self.delete_dead(request.into_inner()).await?))
    }
}
