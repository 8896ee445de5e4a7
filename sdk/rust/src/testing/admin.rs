//! The fake server's `QueueAdmin`.

use tonic::{Code, Request, Response, Status};

use super::{
    Fake,
    answers::refusal,
    state::{Queue, State},
};
use crate::{errors::reasons, raw, raw::queue_admin_server::QueueAdmin};

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl QueueAdmin for Fake {
    async fn create_queue(
        &self,
        request: Request<raw::CreateQueueRequest>,
    ) -> Answer<raw::CreateQueueResponse> {
        let raw::CreateQueueRequest { name, config } = request.into_inner();
        let config = config.unwrap_or_default();
        let queue = self.change(|state| {
            let queue = state.queues.entry(name.clone()).or_insert_with(|| Queue {
                config,
                ..Default::default()
            });
            if queue.config == config {
                return Ok(described(&name, queue));
            }
            let text = "the queue is there with another configuration";
            Err(refusal(Code::AlreadyExists, reasons::QUEUE_EXISTS, text))
        })?;
        Ok(Response::new(raw::CreateQueueResponse {
            queue: Some(queue),
        }))
    }

    async fn update_queue(
        &self,
        request: Request<raw::UpdateQueueRequest>,
    ) -> Answer<raw::UpdateQueueResponse> {
        let request = request.into_inner();
        let (config, mask) = (
            request.config.unwrap_or_default(),
            request.update_mask.unwrap_or_default(),
        );
        let queue = self.with(&request.name, |queue| {
            update(&mut queue.config, &config, &mask.paths)
        })?;
        Ok(Response::new(raw::UpdateQueueResponse {
            queue: Some(queue),
        }))
    }

    async fn get_queue(
        &self,
        request: Request<raw::GetQueueRequest>,
    ) -> Answer<raw::GetQueueResponse> {
        let queue = self.with(&request.into_inner().name, |_| {})?;
        Ok(Response::new(raw::GetQueueResponse { queue: Some(queue) }))
    }

    async fn list_queues(
        &self,
        _: Request<raw::ListQueuesRequest>,
    ) -> Answer<raw::ListQueuesResponse> {
        let state = self.0.state.lock();
        let queues = state
            .queues
            .iter()
            .map(|(name, queue)| described(name, queue))
            .collect();
        Ok(Response::new(raw::ListQueuesResponse {
            queues,
            next_page_token: String::new(),
        }))
    }

    async fn delete_queue(
        &self,
        request: Request<raw::DeleteQueueRequest>,
    ) -> Answer<raw::DeleteQueueResponse> {
        let raw::DeleteQueueRequest { name, force } = request.into_inner();
        let queue = self.with(&name, |_| {})?;
        let stats = queue.stats.unwrap_or_default();
        if !force && stats.outstanding + stats.dead > 0 {
            return Err(refusal(
                Code::FailedPrecondition,
                reasons::QUEUE_NOT_EMPTY,
                "the queue is not empty",
            ));
        }
        self.change(|state| {
            state.purge(&name);
            state.queues.remove(&name);
        });
        Ok(Response::new(raw::DeleteQueueResponse {}))
    }

    async fn pause_queue(
        &self,
        request: Request<raw::PauseQueueRequest>,
    ) -> Answer<raw::PauseQueueResponse> {
        let queue = self.with(&request.into_inner().name, |queue| queue.paused = true)?;
        Ok(Response::new(raw::PauseQueueResponse {
            queue: Some(queue),
        }))
    }

    async fn resume_queue(
        &self,
        request: Request<raw::ResumeQueueRequest>,
    ) -> Answer<raw::ResumeQueueResponse> {
        let queue = self.with(&request.into_inner().name, |queue| queue.paused = false)?;
        Ok(Response::new(raw::ResumeQueueResponse {
            queue: Some(queue),
        }))
    }

    async fn purge_queue(
        &self,
        request: Request<raw::PurgeQueueRequest>,
    ) -> Answer<raw::PurgeQueueResponse> {
        let name = request.into_inner().name;
        self.with(&name, |_| {})?;
        let purged = self.change(|state| state.purge(&name));
        Ok(Response::new(raw::PurgeQueueResponse { purged }))
    }
}

impl Fake {
    /// Changes a queue and describes it.
    fn with(&self, name: &str, change: impl FnOnce(&mut Queue)) -> Result<raw::Queue, Status> {
        self.change(|state| {
            let Some(queue) = state.queues.get_mut(name) else {
                return Err(refusal(
                    Code::NotFound,
                    reasons::QUEUE_NOT_FOUND,
                    "there is no such queue",
                ));
            };
            change(queue);
            Ok(described(name, queue))
        })
    }
}

impl State {
    /// Ends all outstanding jobs of a queue; holders are told.
    fn purge(&mut self, name: &str) -> u64 {
        let keys: Vec<String> = self
            .queues
            .get(name)
            .map(|queue| queue.jobs.keys().cloned().collect())
            .unwrap_or_default();
        for key in &keys {
            self.lose_lease(name, key, raw::LostReason::Cancelled, true);
        }
        if let Some(queue) = self.queues.get_mut(name) {
            queue.jobs.clear();
            queue.ready.clear();
        }
        u64::try_from(keys.len()).unwrap_or(u64::MAX)
    }
}

fn described(name: &str, queue: &Queue) -> raw::Queue {
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let (all, ready) = (count(queue.jobs.len()), count(queue.ready.len()));
    raw::Queue {
        name: name.to_owned(),
        config: Some(queue.config),
        paused: queue.paused,
        stats: Some(raw::QueueStats {
            outstanding: all,
            ready,
            in_flight: all.saturating_sub(ready),
            dead: count(queue.dead.len()),
            sessions: 0,
        }),
        replicas: 1,
        ..Default::default()
    }
}

fn update(old: &mut raw::QueueConfig, new: &raw::QueueConfig, paths: &[String]) {
    for path in paths {
        match path.as_str() {
            "lease_duration" => old.lease_duration = new.lease_duration,
            "max_run_time" => old.max_run_time = new.max_run_time,
            "max_attempts" => old.max_attempts = new.max_attempts,
            "backoff" => old.backoff = new.backoff,
            "max_depth" => old.max_depth = new.max_depth,
            "max_payload_bytes" => old.max_payload_bytes = new.max_payload_bytes,
            "disconnect_grace" => old.disconnect_grace = new.disconnect_grace,
            "dead_letter_retention" => old.dead_letter_retention = new.dead_letter_retention,
            "dedupe_window" => old.dedupe_window = new.dedupe_window,
            _ => {}
        }
    }
}
