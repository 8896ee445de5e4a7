//! Leasing without a stream: pull, heartbeat, settle by token.
//!
//! For programs that run now and then. The caller keeps the deadlines; a [`Worker`](crate::Worker) does
//! that by itself.

use std::time::Duration;

use bytes::Bytes;
use tonic::Code;

use super::Client;
use crate::{Error, Job, raw, wire};

/// What to pull.
#[derive(Clone, Debug, PartialEq)]
pub struct Pull(raw::PullRequest);

impl Pull {
    /// One job of a queue, waiting for it up to 20 s.
    pub fn new(queue: impl Into<String>) -> Self {
        Self(raw::PullRequest {
            queue: queue.into(),
            ..Default::default()
        })
    }

    /// At most this many jobs: 1 to 1,000.
    #[must_use]
    pub fn max_jobs(mut self, jobs: u32) -> Self {
        self.0.max_jobs = jobs;
        self
    }

    /// How long to wait for the first job: 0 to 60 s.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.0.wait = Some(wire::from_duration(wait));
        self
    }

    /// Names the worker, for people who look at the job.
    #[must_use]
    pub fn worker_id(mut self, id: impl Into<String>) -> Self {
        self.0.worker_id = id.into();
        self
    }

    /// How long the call may take: the wait and a little more.
    fn timeout(&self, call: Duration) -> Duration {
        let wait = self
            .0
            .wait
            .map_or(Duration::from_secs(20), wire::to_duration);
        wait.saturating_add(call)
    }
}

/// A job with its lease.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Leased {
    /// Names the lease: opaque.
    pub token: Bytes,
    /// The job.
    pub job: Job,
    /// Until the deadline, from when the server sent this. Count it from before the call.
    pub time_left: Duration,
}

impl From<raw::Delivery> for Leased {
    fn from(wire: raw::Delivery) -> Self {
        let mut job = Job::from(wire.job.unwrap_or_default());
        job.fencing_number = wire.fencing_number;
        job.attempt = wire.attempt;
        Self {
            token: wire.lease_token,
            job,
            time_left: wire.time_left.map(wire::to_duration).unwrap_or_default(),
        }
    }
}

/// What became of one lease that was to be extended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseExtension {
    /// It holds for this long, from when the server sent this. Use this token from now on.
    Extended(Bytes, Duration),
    /// It is as before: try again.
    TryAgain(Bytes),
    /// It is lost.
    Lost(LostReason),
}

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// Its deadline passed, or the job ended or was given to another.
    Expired,
    /// The job was cancelled, its queue purged or deleted.
    Cancelled,
    /// A newer session of the same worker did not go on with it.
    Superseded,
    /// The token is malformed, forged or of another queue's making.
    Invalid,
    /// The server gave a reason that this version does not know.
    Unknown,
}

/// The reason as the wire has it.
pub(crate) fn lost_reason(wire: raw::LostReason) -> LostReason {
    match wire {
        raw::LostReason::Unspecified => LostReason::Unknown,
        raw::LostReason::Expired => LostReason::Expired,
        raw::LostReason::Cancelled => LostReason::Cancelled,
        raw::LostReason::Superseded => LostReason::Superseded,
        raw::LostReason::Invalid => LostReason::Invalid,
    }
}

/// How to settle a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settle {
    /// The job is done.
    Complete,
    /// The attempt failed: try again after the delay, or after the job's backoff.
    Retry(Option<Duration>, String),
    /// Give the job back; costs no attempt.
    Release,
    /// Make it a dead letter now.
    Fail(String),
}

/// What became of a settlement.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Settled {
    /// It counts. Where the job ended, its key is free.
    Settled,
    /// The job had ended already; most likely an earlier try of this settlement counted.
    AlreadySettled,
    /// The lease was lost before. Nothing was changed.
    LeaseLost,
    /// The server could not tell: send the same settlement again.
    TryAgain,
    /// The token is malformed or forged.
    InvalidLease,
    /// The settlement breaks a limit, or is one that the server does not serve.
    Rejected(Error),
}

impl Client {
    /// Leases jobs without a stream; none when the wait ended without one.
    ///
    /// # Errors
    /// The queue is unknown, or the call failed.
    pub async fn pull(&self, pull: Pull) -> Result<Vec<Leased>, Error> {
        let limit = pull.timeout(self.options().call_timeout);
        let mut client = self.raw();
        let answer = self.once(limit, client.pull(pull.0)).await?;
        Ok(answer.deliveries.into_iter().map(Leased::from).collect())
    }

    /// Extends leases: one result for each token, in their order.
    ///
    /// # Errors
    /// The call failed as a whole: the leases are as before, or were extended.
    pub async fn heartbeat(&self, tokens: Vec<Bytes>) -> Result<Vec<LeaseExtension>, Error> {
        let request = raw::HeartbeatRequest {
            lease_tokens: tokens,
        };
        let answer = self
            .call(async |mut client| client.heartbeat(request).await)
            .await?;
        Ok(answer.results.into_iter().map(extension).collect())
    }

    /// Settles leases: one result for each, in their order. Repeating it is safe.
    ///
    /// # Errors
    /// The call failed as a whole.
    pub async fn ack(&self, settlements: Vec<(Bytes, Settle)>) -> Result<Vec<Settled>, Error> {
        let settlements = settlements.into_iter().map(settlement).collect();
        let request = raw::AckRequest { settlements };
        let answer = self
            .call(async |mut client| client.ack(request).await)
            .await?;
        answer.results.into_iter().map(settled).collect()
    }
}

fn extension(wire: raw::HeartbeatResult) -> LeaseExtension {
    let lost = wire.lost();
    match wire.time_left {
        _ if lost != raw::LostReason::Unspecified => LeaseExtension::Lost(lost_reason(lost)),
        Some(left) if !wire.try_again => {
            LeaseExtension::Extended(wire.lease_token, wire::to_duration(left))
        }
        _ => LeaseExtension::TryAgain(wire.lease_token),
    }
}

fn settlement((lease_token, settle): (Bytes, Settle)) -> raw::Settlement {
    use raw::settlement::Outcome;
    let outcome = match settle {
        Settle::Complete => Outcome::Complete(raw::Complete::default()),
        Settle::Retry(delay, error) => Outcome::Retry(raw::Retry {
            delay: delay.map(wire::from_duration),
            error,
        }),
        Settle::Release => Outcome::Release(raw::Release {}),
        Settle::Fail(error) => Outcome::Fail(raw::Fail { error }),
    };
    raw::Settlement {
        lease_token,
        outcome: Some(outcome),
    }
}

fn settled(wire: raw::SettlementResult) -> Result<Settled, Error> {
    use raw::SettlementOutcome as Wire;
    Ok(match wire.outcome() {
        Wire::Settled => Settled::Settled,
        Wire::AlreadySettled => Settled::AlreadySettled,
        Wire::LeaseLost => Settled::LeaseLost,
        Wire::TryAgain => Settled::TryAgain,
        Wire::InvalidLease => Settled::InvalidLease,
        Wire::Rejected => Settled::Rejected(Error::of_item(wire.error.unwrap_or_default())),
        Wire::Unspecified => {
            let text = "the server answered with an outcome that this version does not know";
            return Err(Error::local(Code::Internal, text).with_doubt(true));
        }
    })
}
