//! `call`: one call of the client's hand-written API, and the members of its answer that scenarios ask for.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use keywork_sdk::{
    Client, Error, Job,
    client::{
        LeaseExtension, Leased, Page, Pull, Queue, QueueConfig, Redriven, Settle, Settled, Which,
    },
    job::{DeadJob, DeadReason},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    command::Call,
    emit::{emit, fault, refuse},
    submits::{outcome_or_reason, state},
};

/// The most of a list that is looked at.
const PAGE: u32 = 1_000;

/// What an RPC is told; each takes what it knows.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Args {
    queue: String,
    key: String,
    keys: Vec<String>,
    lease_duration_ms: Option<u64>,
    max_attempts: Option<u32>,
    max_depth: Option<u64>,
    disconnect_grace_ms: Option<u64>,
    backoff_ms: Option<u64>,
    max_jobs: Option<u32>,
    wait_ms: Option<u64>,
    tokens: Vec<String>,
    token: String,
    with: String,
    delay_ms: Option<u64>,
    text: String,
}

pub(crate) async fn run(client: Client, call: String, command: Call) {
    let args = match serde_json::from_value(command.args) {
        Ok(args) => args,
        Err(error) => return refuse(&call, "UNSUPPORTED", &error.to_string()),
    };
    match answer(&client, &command.rpc, args).await {
        Some(Ok(result)) => {
            emit(&json!({"event": "answered", "call": call, "result": result}));
        }
        Some(Err(error)) => fault(&call, &error),
        None => refuse(&call, "UNSUPPORTED", "there is no such call"),
    }
}

async fn answer(client: &Client, rpc: &str, args: Args) -> Option<Result<Value, Error>> {
    let queue = args.queue.clone();
    Some(match rpc {
        "get_job" => client.get_job(queue, args.key).await.map(found),
        "list_jobs" => client
            .list_jobs(queue, None, Page::of(PAGE))
            .await
            .map(listed),
        "cancel_job" => client
            .cancel_job(queue, args.key, None)
            .await
            .map(|job| of_job(&job)),
        "create_queue" => client
            .create_queue(queue, args.config())
            .await
            .map(of_queue),
        "update_queue" => client
            .update_queue(queue, args.config())
            .await
            .map(of_queue),
        "get_queue" => client.get_queue(queue).await.map(of_queue),
        "pause_queue" => client.pause_queue(queue).await.map(of_queue),
        "resume_queue" => client.resume_queue(queue).await.map(of_queue),
        "delete_queue" => client.delete_queue(queue, true).await.map(|()| json!({})),
        "purge_queue" => client
            .purge_queue(queue)
            .await
            .map(|purged| json!({"purged": purged})),
        "list_queues" => client.list_queues(Page::of(PAGE)).await.map(
            |(queues, _)| json!({"queues": queues.into_iter().map(of_queue).collect::<Vec<_>>()}),
        ),
        "list_dead_jobs" => dead_jobs(client, &queue)
            .await
            .map(|dead| json!({"jobs": dead.iter().map(of_dead).collect::<Vec<_>>()})),
        "redrive_dead_jobs" => redrive(client, args).await,
        "delete_dead_jobs" => delete_dead(client, args).await,
        "pull" => client
            .pull(args.pull())
            .await
            .map(|jobs| json!({"jobs": jobs.iter().map(of_lease).collect::<Vec<_>>()})),
        "heartbeat" => client.heartbeat(args.tokens()).await.map(extended),
        "ack" => {
            let settlement = (token(&args.token), args.settle());
            client.ack(vec![settlement]).await.map(settled)
        }
        _ => return None,
    })
}

async fn dead_jobs(client: &Client, queue: &str) -> Result<Vec<DeadJob>, Error> {
    let (dead, _) = client.list_dead_jobs(queue, None, Page::of(PAGE)).await?;
    Ok(dead)
}

async fn dead_ids(client: &Client, args: &Args) -> Result<Vec<u64>, Error> {
    let dead = dead_jobs(client, &args.queue).await?;
    let meant = dead.iter().filter(|dead| args.keys.contains(&dead.job.key));
    Ok(meant.map(|dead| dead.dead_id).collect())
}

async fn redrive(client: &Client, args: Args) -> Result<Value, Error> {
    let ids = dead_ids(client, &args).await?;
    let redriven = client
        .redrive_dead_jobs(args.queue, Which::Ids(ids))
        .await?;
    let outcome = |one: &Redriven| outcome_or_reason(&one.result);
    Ok(json!({"outcomes": redriven.iter().map(outcome).collect::<Vec<_>>()}))
}

async fn delete_dead(client: &Client, args: Args) -> Result<Value, Error> {
    let ids = dead_ids(client, &args).await?;
    let deleted = client.delete_dead_jobs(args.queue, ids).await?;
    Ok(json!({"deleted": deleted}))
}

impl Args {
    fn config(&self) -> QueueConfig {
        let duration = |ms: Option<u64>| ms.map(Duration::from_millis);
        QueueConfig {
            lease_duration: duration(self.lease_duration_ms),
            max_attempts: self.max_attempts,
            max_depth: self.max_depth,
            disconnect_grace: duration(self.disconnect_grace_ms),
            backoff: duration(self.backoff_ms).map(|wait| (wait, wait)),
            ..QueueConfig::default()
        }
    }

    fn pull(&self) -> Pull {
        Pull::new(&self.queue)
            .max_jobs(self.max_jobs.unwrap_or(1))
            .wait(Duration::from_millis(self.wait_ms.unwrap_or_default()))
    }

    fn tokens(&self) -> Vec<Bytes> {
        self.tokens.iter().map(|text| token(text)).collect()
    }

    fn settle(&self) -> Settle {
        match self.with.as_str() {
            "release" => Settle::Release,
            "fail" => Settle::Fail(self.text.clone()),
            "retry" | "error" => {
                Settle::Retry(self.delay_ms.map(Duration::from_millis), self.text.clone())
            }
            _ => Settle::Complete,
        }
    }
}

/// A token that is no Base64 is sent as the bytes that it is: the server is to refuse it.
fn token(text: &str) -> Bytes {
    match BASE64_STANDARD.decode(text) {
        Ok(bytes) => bytes.into(),
        Err(_) => text.to_owned().into(),
    }
}

fn found(job: Option<Job>) -> Value {
    job.map_or_else(|| json!({"state": ""}), |job| of_job(&job))
}

fn listed((jobs, _): (Vec<Job>, Option<Page>)) -> Value {
    json!({"jobs": jobs.iter().map(of_job).collect::<Vec<_>>()})
}

fn of_job(job: &Job) -> Value {
    json!({"key": job.key, "id": job.id, "state": state(job.state), "attempt": job.attempt})
}

fn of_queue(queue: Queue) -> Value {
    let lease = queue.config.lease_duration.unwrap_or_default();
    json!({
        "queue": queue.name,
        "lease_duration_ms": u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        "max_attempts": queue.config.max_attempts,
        "paused": queue.paused,
    })
}

fn of_dead(dead: &DeadJob) -> Value {
    let reason = match dead.reason {
        DeadReason::AttemptsExhausted => "ATTEMPTS_EXHAUSTED",
        DeadReason::LeaseExpired => "LEASE_EXPIRED",
        DeadReason::Failed => "FAILED",
        DeadReason::Expired => "EXPIRED",
        DeadReason::Unreadable => "UNREADABLE",
        DeadReason::Unknown | _ => "",
    };
    json!({"key": dead.job.key, "reason": reason})
}

fn of_lease(lease: &Leased) -> Value {
    json!({
        "key": lease.job.key,
        "token": BASE64_STANDARD.encode(&lease.token),
        "fencing_number": lease.job.fencing_number,
        "attempt": lease.job.attempt,
    })
}

/// How many leases hold, and how many are lost.
fn extended(results: Vec<LeaseExtension>) -> Value {
    let of = |wanted: fn(&LeaseExtension) -> bool| results.iter().filter(|one| wanted(one)).count();
    json!({
        "renewed": of(|one| matches!(one, LeaseExtension::Extended(..))),
        "lost": of(|one| matches!(one, LeaseExtension::Lost(_))),
    })
}

fn settled(results: Vec<Settled>) -> Value {
    let outcome = match results.first() {
        Some(Settled::Settled) => "SETTLED",
        Some(Settled::AlreadySettled) => "ALREADY_SETTLED",
        Some(Settled::LeaseLost) => "LEASE_LOST",
        Some(Settled::TryAgain) => "TRY_AGAIN",
        Some(Settled::InvalidLease) => "INVALID_LEASE",
        Some(Settled::Rejected(_)) => "REJECTED",
        Some(_) | None => "",
    };
    json!({"outcome": outcome})
}
