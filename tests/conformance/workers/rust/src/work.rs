//! The worker: made as the runner says, and run as a user runs it.

use std::{process::ExitCode, sync::Arc, time::Duration};

use keywork_sdk::{
    Client, Worker,
    client::LostReason,
    otel::TraceContext,
    worker::{Event, SettledOutcome, Subscription, WorkerError},
};
use serde_json::json;

use crate::{
    command::{HandlerKind, Start, Subscribed},
    desk::Desk,
    emit::{code, emit},
    handlers::Chosen,
    intercept::Noting,
};

pub(crate) fn build(client: Client, start: Start, desk: Arc<Desk>) -> Worker {
    let queues = start.queues.into_iter().map(|queue| match queue {
        Subscribed::Name(queue) => Subscription::new(queue),
        Subscribed::Weighted { queue, weight } => Subscription::new(queue).weight(weight),
    });
    let usual = start.handler;
    let mut builder = Worker::builder(client, queues).on_event(move |event| tell(event, usual));
    builder = builder.interceptor(TraceContext::new());
    if start.interceptors {
        builder = builder.interceptor(Noting);
    }
    if let Some(handlers) = start.concurrency {
        builder = builder.concurrency(handlers);
    }
    if let Some(id) = start.worker_id {
        builder = builder.worker_id(id);
    }
    if let Some(grace) = start.shutdown_grace_ms {
        builder = builder.shutdown_grace(Duration::from_millis(grace));
    }
    builder.build(Chosen { usual, desk })
}

/// Runs until a signal, as a user's program does, and says how it ended.
pub(crate) async fn run(worker: Worker) -> ExitCode {
    let result = worker.run().await;
    let (code, message) = match &result {
        Ok(()) => (String::new(), String::new()),
        Err(error) => (name(error), error.to_string()),
    };
    emit(&json!({"event": "stopped", "ok": result.is_ok(), "code": code, "message": message}));
    ExitCode::from(u8::from(result.is_err()))
}

fn name(error: &WorkerError) -> String {
    match error {
        WorkerError::Refused(error) | WorkerError::Options(error) => code(error.code()),
        WorkerError::Superseded => "SUPERSEDED",
        WorkerError::Forced => "FORCED",
        WorkerError::StartedBefore | WorkerError::System(_) | WorkerError::Broken | _ => "INTERNAL",
    }
    .to_owned()
}

pub(crate) fn tell_stats(worker: &Worker, call: &str) {
    let counts = worker.counts();
    emit(&json!({
        "event": "stats",
        "call": call,
        "started": counts.started,
        "settled": counts.settled,
        "leases_lost": counts.leases_lost,
        "dropped_results": counts.dropped_results,
        "sessions": counts.sessions,
    }));
}

fn tell(event: &Event, usual: HandlerKind) {
    match event {
        Event::Connecting { .. } => tell_state("connecting"),
        Event::Ready => tell_state("ready"),
        Event::Degraded { .. } => tell_state("degraded"),
        Event::Draining => tell_state("draining"),
        Event::Stopped { .. } => tell_state("stopped"),
        Event::LeaseLost { queue, key, reason } => emit(&json!({
            "event": "lease_lost", "queue": queue, "key": key, "reason": lost(*reason),
        })),
        // For throughput nothing is written for each job.
        Event::Settled { .. } if usual == HandlerKind::Complete => {}
        Event::Settled {
            key,
            fencing_number,
            outcome,
            ..
        } => emit(&json!({
            "event": "settled", "key": key, "job": "", "fencing": fencing_number, "outcome": settled(*outcome),
        })),
        // The rest has no place in the protocol.
        Event::HandlerIgnoresCancellation { .. }
        | Event::SettlementRejected { .. }
        | Event::Failed { .. }
        | _ => {}
    }
}

fn tell_state(state: &str) {
    emit(&json!({"event": "state", "state": state}));
}

fn lost(reason: Option<LostReason>) -> &'static str {
    match reason {
        Some(LostReason::Expired) => "EXPIRED",
        Some(LostReason::Cancelled) => "CANCELLED",
        Some(LostReason::Superseded) => "SUPERSEDED",
        Some(LostReason::Invalid) => "INVALID",
        Some(_) => "UNKNOWN",
        None => "",
    }
}

fn settled(outcome: SettledOutcome) -> &'static str {
    match outcome {
        SettledOutcome::Settled => "SETTLED",
        SettledOutcome::AlreadySettled => "ALREADY_SETTLED",
        SettledOutcome::LeaseLost => "LEASE_LOST",
        _ => "",
    }
}
