//! One unary call: a try, with the client's time limit, and a turn to the next server where it failed.
//!
//! Nothing is repeated here: whether that is safe depends on the call.

use std::time::Duration;

use tokio::time::timeout;
use tonic::{Response, Status};

use super::{Client, Transport};
use crate::{
    Error,
    raw::{
        queue_admin_client::QueueAdminClient, schedules_client::SchedulesClient,
        work_queue_client::WorkQueueClient,
    },
};

impl Client {
    /// Calls `WorkQueue` once.
    pub(crate) async fn call<T>(
        &self,
        call: impl AsyncFnOnce(WorkQueueClient<Transport>) -> Result<Response<T>, Status>,
    ) -> Result<T, Error> {
        self.once(self.options().call_timeout, call(self.raw()))
            .await
    }

    /// Calls `QueueAdmin` once.
    pub(crate) async fn admin<T>(
        &self,
        call: impl AsyncFnOnce(QueueAdminClient<Transport>) -> Result<Response<T>, Status>,
    ) -> Result<T, Error> {
        self.once(self.options().call_timeout, call(self.raw_admin()))
            .await
    }

    /// Calls `Schedules` once.
    pub(crate) async fn schedules<T>(
        &self,
        call: impl AsyncFnOnce(SchedulesClient<Transport>) -> Result<Response<T>, Status>,
    ) -> Result<T, Error> {
        self.once(self.options().call_timeout, call(self.raw_schedules()))
            .await
    }

    /// One call, within a time limit of its own.
    pub(super) async fn once<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Error> {
        let place = self.channels.place();
        let error = match timeout(limit, call).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) => self.channels.error(place, status),
            Err(_) => self.channels.unanswered(place),
        };
        if error.is_outage() {
            self.channels.turn_away(place);
        }
        Err(error)
    }
}
