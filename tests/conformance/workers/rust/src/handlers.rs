//! What the handlers do that the runner chooses.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use keywork_sdk::{
    Context, Handler, Job,
    worker::{CancelReason, HandlerResult},
};
use opentelemetry::{Context as OtelContext, trace::TraceContextExt};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{command::HandlerKind, desk::Desk, emit::emit};

/// The handler of a worker-under-test.
pub(crate) struct Chosen {
    pub(crate) usual: HandlerKind,
    pub(crate) desk: Arc<Desk>,
}

impl Handler for Chosen {
    async fn handle(&self, context: Context, job: Job) -> HandlerResult {
        match self.kind_for(&job) {
            HandlerKind::Complete => Ok(()),
            HandlerKind::Wait => self.wait(&context, &job).await,
            HandlerKind::Deaf => self.wait_whatever_comes(&context, &job).await,
            HandlerKind::Throw => {
                tell_started(&context, &job);
                panic!("thrown");
            }
            HandlerKind::Burn => burn(&context, &job),
        }
    }
}

impl Chosen {
    fn kind_for(&self, job: &Job) -> HandlerKind {
        let named = job.attributes.get("handler");
        named
            .and_then(|name| HandlerKind::deserialize(Value::from(name.as_str())).ok())
            .unwrap_or(self.usual)
    }

    async fn wait(&self, context: &Context, job: &Job) -> HandlerResult {
        let finish = self.desk.wait(&job.key);
        tell_started(context, job);
        tokio::select! {
            Ok(finish) = finish => {
                tell("ended", job);
                finish.result()
            }
            () = context.cancelled() => {
                tell_cancelled(context, job);
                Err("cancelled".into())
            }
        }
    }

    async fn wait_whatever_comes(&self, context: &Context, job: &Job) -> HandlerResult {
        let mut finish = self.desk.wait(&job.key);
        tell_started(context, job);
        let finish = tokio::select! {
            finish = &mut finish => finish,
            () = context.cancelled() => {
                tell_cancelled(context, job);
                finish.await
            }
        };
        tell("ended", job);
        finish?.result()
    }
}

fn burn(context: &Context, job: &Job) -> HandlerResult {
    tell_started(context, job);
    let ms = job.attributes.get("ms").and_then(|ms| ms.parse().ok());
    let until = Instant::now() + Duration::from_millis(ms.unwrap_or_default());
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    tell("ended", job);
    Ok(())
}

fn tell_started(context: &Context, job: &Job) {
    let left = context.deadline().saturating_duration_since(Instant::now());
    emit(&json!({
        "event": "started",
        "queue": job.queue,
        "key": job.key,
        "job": job.id,
        "attempt": job.attempt,
        "fencing": job.fencing_number,
        "payload": String::from_utf8_lossy(&job.payload),
        "attributes": job.attributes,
        "trace_id": OtelContext::current().span().span_context().trace_id().to_string(),
        "left_ms": u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
    }));
}

fn tell_cancelled(context: &Context, job: &Job) {
    let reason = match context.reason() {
        Some(CancelReason::LeaseLost) => "LEASE_LOST",
        Some(CancelReason::JobCancelled) => "JOB_CANCELLED",
        Some(CancelReason::WorkerShutdown) => "WORKER_SHUTDOWN",
        Some(_) | None => "",
    };
    emit(&json!({
        "event": "cancelled", "key": job.key, "job": job.id, "fencing": job.fencing_number, "reason": reason,
    }));
}

fn tell(event: &str, job: &Job) {
    emit(&json!({
        "event": event, "key": job.key, "job": job.id, "fencing": job.fencing_number,
    }));
}
