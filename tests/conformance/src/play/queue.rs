//! Steps of the runner's own client: it makes the queue, submits, and looks at what is left.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use keywork_sdk::{
    Submit as Offer, SubmitOutcome,
    client::{Queue, QueueConfig},
    errors::Error,
    job::JobState,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Played, Player, Stop, failed};
use crate::scenario::{Admin, AdminWhat, QueueSettings, Submit};

/// How long the runner's own calls may take: servers may just be coming back.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at the server.
const POLL: Duration = Duration::from_millis(20);

impl QueueSettings {
    fn config(&self) -> QueueConfig {
        let duration = |ms: Option<u64>| ms.map(Duration::from_millis);
        QueueConfig {
            lease_duration: duration(self.lease_ms),
            max_run_time: duration(self.max_run_ms),
            max_attempts: self.max_attempts,
            backoff: duration(self.backoff_ms).map(|wait| (wait, wait)),
            max_depth: self.max_depth,
            max_payload_bytes: self.max_payload_bytes,
            disconnect_grace: duration(self.disconnect_grace_ms),
            ..QueueConfig::default()
        }
    }
}

impl Player<'_> {
    fn queue(&self) -> String {
        self.names.text("$queue")
    }

    pub(super) async fn make_queue(&mut self) -> Played {
        if self.scenario.queue.unmade {
            return Ok(());
        }
        let (queue, config) = (self.queue(), self.scenario.queue.config());
        let client = self.client.clone();
        patiently(|| client.create_queue(queue.clone(), config.clone()))
            .await
            .map(drop)
    }

    pub(super) async fn submit(&mut self, submit: &Submit) -> Played {
        let numbered = (1..=submit.count).map(|number| format!("{}{number}", submit.prefix));
        let keys = submit.keys.iter().map(|key| self.names.text(key));
        let keys: Vec<String> = keys.chain(numbered).collect();
        let offers = keys.iter().map(|key| self.offer(submit, key));
        let results = self.client.submit_many(offers.collect::<Vec<_>>()).await;
        self.trace.note("submits", &json!(keys));
        for (key, result) in keys.iter().zip(results) {
            let outcome = match &result {
                Ok(SubmitOutcome::Created(_)) => "CREATED",
                Ok(SubmitOutcome::AlreadyOutstanding(_)) => "ALREADY_OUTSTANDING",
                Ok(SubmitOutcome::Duplicate(_)) => "DUPLICATE",
                Ok(_) => "another outcome",
                Err(error) => return failed(format!("failed to submit {key}: {error}")),
            };
            if outcome != submit.outcome {
                return failed(format!(
                    "the submit of {key} was {outcome}, not {}",
                    submit.outcome
                ));
            }
        }
        Ok(())
    }

    fn offer(&self, submit: &Submit, key: &str) -> Offer {
        let mut offer = Offer::new(self.queue(), key).payload(submit.payload.clone());
        for (name, value) in &submit.attributes {
            offer = offer.attribute(name, self.names.text(value));
        }
        if let Some(delay) = submit.delay_ms {
            offer = offer.delay(Duration::from_millis(delay));
        }
        if let Some(attempts) = submit.max_attempts {
            offer = offer.max_attempts(attempts);
        }
        offer
    }

    pub(super) async fn admin(&mut self, admin: &Admin) -> Played {
        self.trace
            .note("admin", &json!(format!("{:?}", admin.what)));
        let (queue, client) = (self.queue(), self.client.clone());
        match admin.what {
            AdminWhat::Create => self.make_queue_again().await,
            AdminWhat::Delete => patiently(|| client.delete_queue(queue.clone(), true)).await,
            AdminWhat::Pause => patiently(|| client.pause_queue(queue.clone()))
                .await
                .map(drop),
            AdminWhat::Resume => patiently(|| client.resume_queue(queue.clone()))
                .await
                .map(drop),
            AdminWhat::Purge => patiently(|| client.purge_queue(queue.clone()))
                .await
                .map(drop),
            AdminWhat::Update => {
                let config = QueueConfig {
                    lease_duration: admin.lease_ms.map(Duration::from_millis),
                    ..QueueConfig::default()
                };
                patiently(|| client.update_queue(queue.clone(), config.clone()))
                    .await
                    .map(drop)
            }
        }
    }

    async fn make_queue_again(&mut self) -> Played {
        let (queue, config) = (self.queue(), self.scenario.queue.config());
        let client = self.client.clone();
        patiently(|| client.create_queue(queue.clone(), config.clone()))
            .await
            .map(drop)
    }

    pub(super) async fn job(
        &mut self,
        key: &str,
        state: &str,
        attempt: Option<u32>,
        within_ms: u64,
    ) -> Played {
        let (queue, key) = (self.queue(), self.names.text(key));
        let wanted = json!({"state": state, "attempt": attempt});
        let look = async || {
            let job = self.client.get_job(&queue, &key).await.ok()?;
            let found = job.map_or(("", None), |job| (name(job.state), Some(job.attempt)));
            Some(json!({"state": found.0, "attempt": attempt.and(found.1)}))
        };
        until(look, |found| *found == wanted, within_ms)
            .await
            .map_err(|found| Stop::Failed(format!("the job of {key} is {found}, not {wanted}")))
    }

    pub(super) async fn left(
        &mut self,
        outstanding: Option<u64>,
        dead: Option<u64>,
        within_ms: u64,
    ) -> Played {
        let queue = self.queue();
        let look = async || {
            let Queue { stats, .. } = self.client.get_queue(&queue).await.ok()?;
            Some(json!({"outstanding": stats.outstanding, "dead": stats.dead}))
        };
        let is_so = |found: &Value| {
            let same = |name: &str, wanted: Option<u64>| {
                wanted.is_none_or(|wanted| found[name].as_u64() == Some(wanted))
            };
            same("outstanding", outstanding) && same("dead", dead)
        };
        until(look, is_so, within_ms)
            .await
            .map_err(|found| Stop::Failed(format!("what is left in the queue is {found}")))
    }
}

/// Looks again and again until it is so; otherwise what was found last.
pub(super) async fn until(
    mut look: impl AsyncFnMut() -> Option<Value>,
    is_so: impl Fn(&Value) -> bool,
    within_ms: u64,
) -> Result<(), Value> {
    let end = Instant::now() + Duration::from_millis(within_ms);
    let mut last = json!("unknown");
    loop {
        if let Some(found) = look().await {
            if is_so(&found) {
                return Ok(());
            }
            last = found;
        }
        if Instant::now() >= end {
            return Err(last);
        }
        sleep(POLL).await;
    }
}

/// Calls until it is answered: servers may just be coming back.
async fn patiently<T, F>(call: impl Fn() -> F) -> Result<T, Stop>
where
    F: Future<Output = Result<T, Error>>,
{
    let end = Instant::now() + PATIENCE;
    loop {
        match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_retryable() && Instant::now() < end => sleep(POLL).await,
            Err(error) => return failed(format!("a call of the runner failed: {error}")),
        }
    }
}

fn name(state: JobState) -> &'static str {
    match state {
        JobState::Scheduled => "SCHEDULED",
        JobState::Queued => "QUEUED",
        JobState::Leased => "LEASED",
        JobState::Retrying => "RETRYING",
        JobState::Dead => "DEAD",
        JobState::Ended => "ENDED",
        JobState::Unknown | _ => "UNKNOWN",
    }
}
