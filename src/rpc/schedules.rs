//! `Schedules`: in the contract, not served yet.

use tonic::{Request, Response, Status};

use crate::{
    errors::Problem,
    proto::{self, schedules_server::Schedules},
    rpc::Service,
};

#[tonic::async_trait]
impl Schedules for Service {
    async fn put_schedule(
        &self,
        _: Request<proto::PutScheduleRequest>,
    ) -> Result<Response<proto::PutScheduleResponse>, Status> {
        Err(Problem::not_served("PutSchedule").into())
    }

    async fn get_schedule(
        &self,
        _: Request<proto::GetScheduleRequest>,
    ) -> Result<Response<proto::GetScheduleResponse>, Status> {
        Err(Problem::not_served("GetSchedule").into())
    }

    async fn list_schedules(
        &self,
        _: Request<proto::ListSchedulesRequest>,
    ) -> Result<Response<proto::ListSchedulesResponse>, Status> {
        Err(Problem::not_served("ListSchedules").into())
    }

    async fn delete_schedule(
        &self,
        _: Request<proto::DeleteScheduleRequest>,
    ) -> Result<Response<proto::DeleteScheduleResponse>, Status> {
        Err(Problem::not_served("DeleteSchedule").into())
    }
}
