//! A server between a worker and the real one, which passes sessions on and changes what it is told to:
//! every time by so much, or how a stream ends.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, future::ready, stream};
use keywork::proto::{
    self as p,
    lease_response::Message as Down,
    work_queue_server::{WorkQueue, WorkQueueServer},
};
use keywork_testkit::KeyworkServer;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Server, server::TcpIncoming},
};

use crate::support::{Client, client};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
type Answer<T> = Result<Response<T>, Status>;

/// The relay. It ends with this value.
#[derive(Debug)]
pub(crate) struct Relay {
    endpoint: String,
    seconds: watch::Sender<i64>,
    ends: watch::Sender<u64>,
    _serving: JoinSet<()>,
}

impl Relay {
    /// Starts one in front of a server.
    pub(crate) async fn start(server: &KeyworkServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let (seconds, ends) = (watch::Sender::new(0), watch::Sender::new(0));
        let passing = Passing {
            to: client(server).await,
            seconds: seconds.subscribe(),
            ends: Arc::new(ends.clone()),
        };
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let service = WorkQueueServer::new(passing);
            let server = Server::builder().add_service(service);
            server
                .serve_with_incoming(incoming)
                .await
                .expect("a relay that serves");
        });
        Self {
            endpoint,
            seconds,
            ends,
            _serving: serving,
        }
    }

    /// Where to connect to.
    pub(crate) fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Tells all times as so much later.
    pub(crate) fn times_later(self, by: Duration) -> Self {
        self.seconds.send_replace(by.as_secs().cast_signed());
        self
    }

    /// Tells all times as so much earlier.
    pub(crate) fn times_earlier(self, by: Duration) -> Self {
        self.seconds.send_replace(-by.as_secs().cast_signed());
        self
    }

    /// Ends the streams that are open, with the status OK.
    pub(crate) fn end_streams(&self) {
        self.ends.send_modify(|ends| *ends += 1);
    }
}

#[derive(Clone)]
struct Passing {
    to: Client,
    seconds: watch::Receiver<i64>,
    ends: Arc<watch::Sender<u64>>,
}

fn shift(mut response: p::LeaseResponse, seconds: i64) -> p::LeaseResponse {
    if let Some(Down::Deliveries(list)) = &mut response.message {
        for job in list.deliveries.iter_mut().filter_map(|d| d.job.as_mut()) {
            let times = [
                &mut job.submitted_at,
                &mut job.start_at,
                &mut job.expires_at,
                &mut job.lease_deadline,
            ];
            for time in times.into_iter().flatten() {
                time.seconds += seconds;
            }
        }
    }
    response
}

fn not_passed<T>() -> Answer<T> {
    Err(Status::unimplemented("only sessions are passed on"))
}

#[tonic::async_trait]
impl WorkQueue for Passing {
    type SubmitStreamStream = Answers<p::SubmitStreamResponse>;
    type LeaseStream = Answers<p::LeaseResponse>;
    type WatchJobsStream = Answers<p::WatchJobsResponse>;

    async fn lease(
        &self,
        request: Request<Streaming<p::LeaseRequest>>,
    ) -> Answer<Self::LeaseStream> {
        let up = request
            .into_inner()
            .filter_map(|message| ready(message.ok()));
        let down = self.to.clone().lease(up).await?.into_inner();
        let seconds = self.seconds.clone();
        let down = down.map(move |item| item.map(|response| shift(response, *seconds.borrow())));
        let mut ends = self.ends.subscribe();
        let ended = async move {
            // An error says that the relay is gone, and the stream with it.
            let _ = ends.changed().await;
        };
        Ok(Response::new(Box::pin(down.take_until(ended))))
    }

    async fn submit(&self, _: Request<p::SubmitRequest>) -> Answer<p::SubmitResponse> {
        not_passed()
    }
    async fn submit_batch(
        &self,
        _: Request<p::SubmitBatchRequest>,
    ) -> Answer<p::SubmitBatchResponse> {
        not_passed()
    }
    async fn submit_stream(
        &self,
        _: Request<Streaming<p::SubmitStreamRequest>>,
    ) -> Answer<Self::SubmitStreamStream> {
        Ok(Response::new(Box::pin(stream::empty())))
    }
    async fn pull(&self, _: Request<p::PullRequest>) -> Answer<p::PullResponse> {
        not_passed()
    }
    async fn heartbeat(&self, _: Request<p::HeartbeatRequest>) -> Answer<p::HeartbeatResponse> {
        not_passed()
    }
    async fn ack(&self, _: Request<p::AckRequest>) -> Answer<p::AckResponse> {
        not_passed()
    }
    async fn get_job(&self, _: Request<p::GetJobRequest>) -> Answer<p::GetJobResponse> {
        not_passed()
    }
    async fn list_jobs(&self, _: Request<p::ListJobsRequest>) -> Answer<p::ListJobsResponse> {
        not_passed()
    }
    async fn cancel_job(&self, _: Request<p::CancelJobRequest>) -> Answer<p::CancelJobResponse> {
        not_passed()
    }
    async fn watch_jobs(&self, _: Request<p::WatchJobsRequest>) -> Answer<Self::WatchJobsStream> {
        not_passed()
    }
    async fn list_dead_jobs(
        &self,
        _: Request<p::ListDeadJobsRequest>,
    ) -> Answer<p::ListDeadJobsResponse> {
        not_passed()
    }
    async fn redrive_dead_jobs(
        &self,
        _: Request<p::RedriveDeadJobsRequest>,
    ) -> Answer<p::RedriveDeadJobsResponse> {
        not_passed()
    }
    async fn delete_dead_jobs(
        &self,
        _: Request<p::DeleteDeadJobsRequest>,
    ) -> Answer<p::DeleteDeadJobsResponse> {
        not_passed()
    }
}
