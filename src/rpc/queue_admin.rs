//! `QueueAdmin`: makes, changes and looks at queues.

use keywork_model::{QueueConfig, QueueName, Violation};
use tonic::{Request, Response, Status};

use crate::{
    convert::{self, CONFIG_FIELDS},
    errors::Problem,
    proto::{self, queue_admin_server::QueueAdmin},
    rpc::Service,
};

#[tonic::async_trait]
impl QueueAdmin for Service {
    async fn create_queue(
        &self,
        request: Request<proto::CreateQueueRequest>,
    ) -> Result<Response<proto::CreateQueueResponse>, Status> {
        let queue = Some(self.create(request.into_inner()).await?);
        Ok(Response::new(proto::CreateQueueResponse { queue }))
    }

    async fn update_queue(
        &self,
        request: Request<proto::UpdateQueueRequest>,
    ) -> Result<Response<proto::UpdateQueueResponse>, Status> {
        let queue = Some(self.update(request.into_inner()).await?);
        Ok(Response::new(proto::UpdateQueueResponse { queue }))
    }

    async fn get_queue(
        &self,
        request: Request<proto::GetQueueRequest>,
    ) -> Result<Response<proto::GetQueueResponse>, Status> {
        let name = to_name(&request.get_ref().name)?;
        let view = self.engine.queue(&name).await.map_err(Problem::from)?;
        Ok(Response::new(proto::GetQueueResponse {
            queue: Some(convert::queue(view)),
        }))
    }

    async fn list_queues(
        &self,
        request: Request<proto::ListQueuesRequest>,
    ) -> Result<Response<proto::ListQueuesResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }

    async fn delete_queue(
        &self,
        request: Request<proto::DeleteQueueRequest>,
    ) -> Result<Response<proto::DeleteQueueResponse>, Status> {
        let request = request.into_inner();
        let name = to_name(&request.name)?;
        self.engine
            .delete_queue(&name, request.force)
            .await
            .map_err(Problem::from)?;
        Ok(Response::new(proto::DeleteQueueResponse {}))
    }

    async fn pause_queue(
        &self,
        request: Request<proto::PauseQueueRequest>,
    ) -> Result<Response<proto::PauseQueueResponse>, Status> {
        let queue = Some(self.pause(&request.get_ref().name, true).await?);
        Ok(Response::new(proto::PauseQueueResponse { queue }))
    }

    async fn resume_queue(
        &self,
        request: Request<proto::ResumeQueueRequest>,
    ) -> Result<Response<proto::ResumeQueueResponse>, Status> {
        let queue = Some(self.pause(&request.get_ref().name, false).await?);
        Ok(Response::new(proto::ResumeQueueResponse { queue }))
    }

    async fn purge_queue(
        &self,
        request: Request<proto::PurgeQueueRequest>,
    ) -> Result<Response<proto::PurgeQueueResponse>, Status> {
        let name = to_name(&request.get_ref().name)?;
        let purged = self
            .engine
            .purge_queue(&name)
            .await
            .map_err(Problem::from)?;
        Ok(Response::new(proto::PurgeQueueResponse { purged }))
    }
}

impl Service {
    async fn create(&self, request: proto::CreateQueueRequest) -> Result<proto::Queue, Problem> {
        let name = to_name(&request.name)?;
        let given = request.config.unwrap_or_default();
        let mut config = QueueConfig::default();
        for field in CONFIG_FIELDS {
            convert::set_config_field(&mut config, field, &given)
                .map_err(|v| v.within("config"))?;
        }
        Ok(convert::queue(
            self.engine.create_queue(&name, &config).await?,
        ))
    }

    async fn update(&self, request: proto::UpdateQueueRequest) -> Result<proto::Queue, Problem> {
        let name = to_name(&request.name)?;
        let given = request.config.unwrap_or_default();
        let fields = request
            .update_mask
            .map(|mask| mask.paths)
            .unwrap_or_default();
        if fields.is_empty() {
            let known = CONFIG_FIELDS.join(", ");
            let problem = format!("must name at least one of {known}");
            return Err(Violation::new("update_mask", problem).into());
        }
        // Tried on the defaults first, so that the change itself cannot fail.
        let mut tried = QueueConfig::default();
        for field in &fields {
            convert::set_config_field(&mut tried, field, &given)?;
        }
        let change = move |mut config: QueueConfig| {
            for field in &fields {
                drop(convert::set_config_field(&mut config, field, &given));
            }
            config
        };
        Ok(convert::queue(
            self.engine.update_queue(&name, change).await?,
        ))
    }

    async fn list(
        &self,
        request: proto::ListQueuesRequest,
    ) -> Result<proto::ListQueuesResponse, Problem> {
        let size = convert::to_page_size("page_size", request.page_size)?;
        let after = request.page_token;
        let names = self.engine.queue_names().await?;
        let rest: Vec<_> = names
            .into_iter()
            .filter(|n| n.as_str() > after.as_str())
            .collect();
        let mut queues = Vec::with_capacity(size.min(rest.len()));
        for name in rest.iter().take(size) {
            match self.engine.queue(name).await.map_err(Problem::from) {
                Ok(view) => queues.push(convert::queue(view)),
                // Deleted since it was named.
                Err(problem) if problem.is_queue_not_found() => {}
                Err(problem) => return Err(problem),
            }
        }
        let last = rest.get(size - 1).filter(|_| rest.len() > size);
        let next_page_token = last.map(|name| name.to_string()).unwrap_or_default();
        Ok(proto::ListQueuesResponse {
            queues,
            next_page_token,
        })
    }

    async fn pause(&self, name: &str, pause: bool) -> Result<proto::Queue, Problem> {
        let name = to_name(name)?;
        Ok(convert::queue(self.engine.pause_queue(&name, pause).await?))
    }
}

fn to_name(name: &str) -> Result<QueueName, Problem> {
    QueueName::parse(name).map_err(|v| {
        Violation {
            field: "name".into(),
            ..v
        }
        .into()
    })
}
