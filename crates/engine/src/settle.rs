//! Ending leases and jobs: what is done about a settlement, a lost attempt, a doomed job.

use std::sync::Arc;

use keywork_jetstream::{ApiError, Stored, clock, jobs::Reseated};
use keywork_model::{
    DeadReason, Job, Mark, QueueConfig,
    decide::{self, DeliveryFacts, OnSettlement, Reseat, Settlement},
    token::LeaseFacts,
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{engine::Engine, queue::Queue};

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It counts.
    Settled,
    /// It counted before.
    AlreadySettled,
    /// The lease was lost before.
    LeaseLost,
    /// JetStream did not answer.
    TryAgain,
    /// The token is malformed or forged.
    InvalidLease,
    /// The settlement itself is refused.
    Rejected,
}

/// One settlement that goes the sure way.
#[derive(Clone, Debug)]
pub(crate) struct Settling {
    pub(crate) facts: LeaseFacts,
    pub(crate) settlement: Settlement,
    /// Until when nobody else can have had the job.
    pub(crate) good_until: Instant,
}

impl Settling {
    /// What is said when nothing of the lease is left: before the deadline nobody else can have had it. What counts
    /// is when that was seen, not when it was asked: JetStream may have taken long to answer.
    fn gone(&self) -> Outcome {
        if Instant::now() < self.good_until {
            Outcome::AlreadySettled
        } else {
            Outcome::LeaseLost
        }
    }

    /// A re-seat by the holder's settlement is told from all others, at whatever server it is tried again.
    fn nonce(&self) -> String {
        format!("settle-{:x}-{:x}", self.facts.session, self.facts.sequence)
    }
}

/// Settles a lease in the way that is true whoever else acts on the job at this moment: by a delete,
/// which excludes a re-seat where there is one replica, or by a re-seat, which excludes another one.
pub(crate) async fn settle(queue: &Arc<Queue>, settling: &Settling) -> Outcome {
    match try_settle(queue, settling).await {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::debug!(queue = %queue.name, %error, "failed to settle a lease");
            Outcome::TryAgain
        }
    }
}

async fn try_settle(queue: &Arc<Queue>, settling: &Settling) -> Result<Outcome, ApiError> {
    let Some(stored) = queue.jobs.read_sequence(settling.facts.sequence).await? else {
        return Ok(settling.gone());
    };
    let config = queue.config();
    let settlement = settling.settlement.clone();
    match decide::on_settlement(
        &stored.job,
        &config,
        settlement,
        clock::now(),
        rand::random(),
    ) {
        OnSettlement::End if queue.jobs.replicated() => {
            end_by_tombstone(queue, settling, &stored).await
        }
        OnSettlement::End => end_by_delete(queue, settling, &stored).await,
        OnSettlement::Reseat(reseat) => {
            let job = reseated(&stored.job, reseat);
            Ok(match take_place(queue, settling, &stored, &job).await? {
                Ok(_) => Outcome::Settled,
                Err(outcome) => outcome,
            })
        }
        OnSettlement::Doom(reason, error) => {
            let job = doomed(&stored.job, reason, error);
            match take_place(queue, settling, &stored, &job).await? {
                Ok(sequence) => {
                    finish_dead(queue, &stored.subject, sequence, &job, reason).await?;
                    Ok(Outcome::Settled)
                }
                Err(outcome) => Ok(outcome),
            }
        }
    }
}

async fn end_by_delete(
    queue: &Arc<Queue>,
    settling: &Settling,
    stored: &Stored,
) -> Result<Outcome, ApiError> {
    if remove(queue, stored).await? {
        queue.count_ended();
        return Ok(Outcome::Settled);
    }
    // It was there a moment ago: ended by the same lease shown elsewhere, or stored anew for another.
    Ok(match queue.jobs.read_key(&stored.subject).await? {
        Some(other) if other.job.id == stored.job.id => Outcome::LeaseLost,
        Some(_) | None => settling.gone(),
    })
}

async fn end_by_tombstone(
    queue: &Arc<Queue>,
    settling: &Settling,
    stored: &Stored,
) -> Result<Outcome, ApiError> {
    let tombstone = Job {
        mark: Mark::Tombstone,
        payload: bytes::Bytes::new(),
        ..stored.job.clone()
    };
    match take_place(queue, settling, stored, &tombstone).await? {
        Ok(sequence) => {
            queue.jobs.delete_now(sequence).await?;
            queue.count_ended();
            Ok(Outcome::Settled)
        }
        Err(outcome) => Ok(outcome),
    }
}

/// Re-seats under the settlement's nonce: the new sequence, or why not.
async fn take_place(
    queue: &Arc<Queue>,
    settling: &Settling,
    stored: &Stored,
    job: &Job,
) -> Result<Result<u64, Outcome>, ApiError> {
    let nonce = settling.nonce();
    Ok(
        match queue
            .jobs
            .reseat(&stored.subject, stored.sequence, job, &nonce)
            .await?
        {
            Reseated::Now(sequence) => Ok(sequence),
            Reseated::Lost(_) => Err(Outcome::LeaseLost),
            Reseated::Gone => Err(settling.gone()),
        },
    )
}

/// Removes a message for good. Where a killed NATS could bring it back, its end is recorded before.
pub(crate) async fn remove(queue: &Queue, stored: &Stored) -> Result<bool, ApiError> {
    remove_at(queue, &stored.subject, stored.sequence, stored.job.reseated).await
}

async fn remove_at(
    queue: &Queue,
    subject: &str,
    sequence: u64,
    reseated: bool,
) -> Result<bool, ApiError> {
    if reseated && !queue.jobs.replicated() {
        queue.jobs.record_end(subject, sequence).await?;
    }
    queue.jobs.delete_now(sequence).await
}

/// Stores a doomed job among the dead letters and frees its key. Whoever meets a doomed job does this,
/// as often as it takes.
pub(crate) async fn finish_dead(
    queue: &Queue,
    subject: &str,
    sequence: u64,
    job: &Job,
    reason: DeadReason,
) -> Result<(), ApiError> {
    queue.jobs.bury(subject, sequence, job, reason).await?;
    if remove_at(queue, subject, sequence, true).await? {
        queue.count_ended();
    }
    Ok(())
}

/// Marks a job as doomed and finishes that. A job that another took meanwhile is theirs.
pub(crate) async fn doom(
    queue: &Queue,
    stored: &Stored,
    reason: DeadReason,
    error: String,
) -> Result<(), ApiError> {
    let job = doomed(&stored.job, reason, error);
    let reseated = queue
        .jobs
        .reseat(&stored.subject, stored.sequence, &job, &nonce())
        .await?;
    match reseated {
        Reseated::Now(sequence) => {
            finish_dead(queue, &stored.subject, sequence, &job, reason).await
        }
        Reseated::Lost(_) | Reseated::Gone => Ok(()),
    }
}

/// Stores a job anew. A job that another took meanwhile is theirs.
pub(crate) async fn reseat(queue: &Queue, stored: &Stored, reseat: Reseat) -> Result<(), ApiError> {
    let job = reseated(&stored.job, reseat);
    queue
        .jobs
        .reseat(&stored.subject, stored.sequence, &job, &nonce())
        .await
        .map(drop)
}

/// Gives a job back that no worker may go on with: at no attempt's cost.
pub(crate) async fn hand_back(queue: &Queue, sequence: u64) -> Result<(), ApiError> {
    let Some(stored) = queue.jobs.read_sequence(sequence).await? else {
        return Ok(());
    };
    let same = Reseat {
        attempt: stored.job.attempt,
        not_before: None,
        error: None,
        event: keywork_model::state::Event::Release,
    };
    reseat(queue, &stored, same).await
}

/// Gives a job to others whose worker broke off: costs an attempt, like a lease that ran out.
pub(crate) async fn give_up(
    queue: &Queue,
    sequence: u64,
    config: &QueueConfig,
    since: keywork_model::UnixMillis,
) -> Result<(), ApiError> {
    let Some(stored) = queue.jobs.read_sequence(sequence).await? else {
        return Ok(());
    };
    let facts = DeliveryFacts {
        count: 2,
        may_have_run: true,
        room: false,
        now: clock::now(),
        jitter: rand::random(),
    };
    match decide::lost_attempt(&stored.job, config, since, facts) {
        Some(next) => reseat(queue, &stored, next).await,
        None => {
            let error = "the worker's connection broke".into();
            doom(queue, &stored, DeadReason::LeaseExpired, error).await
        }
    }
}

/// Deals with a message that JetStream would never deliver again.
pub(crate) async fn rescue(
    _engine: &Engine,
    queue: &Arc<Queue>,
    stored: Stored,
) -> Result<(), ApiError> {
    match stored.job.mark {
        Mark::Tombstone => remove(queue, &stored).await.map(drop),
        Mark::Doomed(reason) => {
            finish_dead(queue, &stored.subject, stored.sequence, &stored.job, reason).await
        }
        Mark::None => {
            let same = Reseat {
                attempt: stored.job.attempt,
                not_before: stored.job.not_before,
                error: None,
                event: keywork_model::state::Event::Release,
            };
            reseat(queue, &stored, same).await
        }
    }
}

fn reseated(job: &Job, reseat: Reseat) -> Job {
    Job {
        attempt: reseat.attempt,
        not_before: reseat.not_before,
        last_error: reseat.error.unwrap_or_else(|| job.last_error.clone()),
        reseated: true,
        ..job.clone()
    }
}

fn doomed(job: &Job, reason: DeadReason, error: String) -> Job {
    Job {
        mark: Mark::Doomed(reason),
        not_before: None,
        last_error: error,
        reseated: true,
        ..job.clone()
    }
}

fn nonce() -> String {
    format!("{:032x}", rand::random::<u128>())
}
