//! What to do with a delivery and with a settlement: pure decisions that the engine carries out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    DeadReason, Job, Mark, QueueConfig, UnixMillis, job::bounded_error, limits, state::Event,
};

/// The new shape of a job that takes its own place under a new sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reseat {
    /// The attempt that comes next.
    pub attempt: u32,
    /// Not to be leased before.
    pub not_before: Option<UnixMillis>,
    /// What went wrong, where something did; otherwise what was there stays.
    pub error: Option<String>,
    /// What happened to the job.
    pub event: Event,
}

/// What to do with a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnDelivery {
    /// Give it to a session: its sequence was never handed out.
    Lease,
    /// Not yet: ask JetStream to deliver it again after this long.
    Wait(Duration),
    /// Store it anew; the new sequence is then delivered like any job's.
    Reseat(Reseat),
    /// Mark it as dying and finish that.
    Doom(DeadReason, String),
    /// Store it among the dead letters and remove it.
    FinishDead(DeadReason),
    /// Delete it: the job ended.
    RemoveTombstone,
}

/// What is known of a delivery beside the job.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryFacts {
    /// How often JetStream delivered this sequence, this time included.
    pub count: u64,
    /// Whether an earlier delivery may have been given to a worker.
    pub may_have_run: bool,
    /// Whether a session has room for it.
    pub room: bool,
    /// The time.
    pub now: UnixMillis,
    /// From 0 to 1, for the backoff.
    pub jitter: f64,
}

/// Decides on a delivery. The rule behind it: a sequence is handed to a worker at most once.
pub fn on_delivery(job: &Job, config: &QueueConfig, facts: DeliveryFacts) -> OnDelivery {
    match job.mark {
        Mark::Tombstone => return OnDelivery::RemoveTombstone,
        Mark::Doomed(reason) => return OnDelivery::FinishDead(reason),
        Mark::None => {}
    }
    if let Some(at) = job.not_before.filter(|at| *at > facts.now) {
        return OnDelivery::Wait(at.since(facts.now));
    }
    let never_ran = facts.count == 1 || job.not_before.is_some() || !facts.may_have_run;
    if never_ran && expired(job, facts.now) {
        return OnDelivery::Doom(DeadReason::Expired, "not started before expires_at".into());
    }
    if job.not_before.is_some() {
        return OnDelivery::Reseat(unchanged(job, Event::Due));
    }
    if !never_ran {
        return ran_out(job, config, facts);
    }
    if facts.count == 1 && facts.room {
        return OnDelivery::Lease;
    }
    OnDelivery::Reseat(unchanged(job, Event::Release))
}

/// Whether a job that has not started yet is too late to start. A job that was ever attempted has started.
pub fn expired(job: &Job, now: UnixMillis) -> bool {
    job.attempt == 1 && job.expires_at.is_some_and(|at| at <= now)
}

fn unchanged(job: &Job, event: Event) -> Reseat {
    Reseat {
        attempt: job.attempt,
        not_before: None,
        error: None,
        event,
    }
}

/// The lease of the current attempt ran out. The backoff counts from the deadline, which was the margin ago.
fn ran_out(job: &Job, config: &QueueConfig, facts: DeliveryFacts) -> OnDelivery {
    let since = facts.now.minus(limits::ACK_WAIT_MARGIN);
    match lost_attempt(job, config, since, facts) {
        Some(reseat) => OnDelivery::Reseat(reseat),
        None => OnDelivery::Doom(DeadReason::LeaseExpired, LEASE_RAN_OUT.into()),
    }
}

const LEASE_RAN_OUT: &str = "the lease ran out";

/// The next attempt after one that was cut off at `since`; `None` when there is none left.
pub fn lost_attempt(
    job: &Job,
    config: &QueueConfig,
    since: UnixMillis,
    facts: DeliveryFacts,
) -> Option<Reseat> {
    (job.attempt < job.max_attempts(config)).then(|| {
        let at = since.plus(job.backoff(config).wait(job.attempt, facts.jitter));
        Reseat {
            attempt: job.attempt + 1,
            not_before: Some(at).filter(|at| *at > facts.now),
            error: Some(LEASE_RAN_OUT.into()),
            event: Event::Retry,
        }
    })
}

/// How a worker settles a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settlement {
    /// The job is done.
    Complete,
    /// The attempt failed.
    Retry {
        /// The wait before the next one; `None`: the backoff's.
        delay: Option<Duration>,
        /// What went wrong.
        error: String,
    },
    /// Given back.
    Release,
    /// Failed for good.
    Fail {
        /// Why.
        error: String,
    },
}

/// What a settlement makes of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnSettlement {
    /// It ends, and its key is free.
    End,
    /// It goes on under a new sequence.
    Reseat(Reseat),
    /// It becomes a dead letter.
    Doom(DeadReason, String),
}

/// Decides on a settlement.
pub fn on_settlement(
    job: &Job,
    config: &QueueConfig,
    settlement: Settlement,
    now: UnixMillis,
    jitter: f64,
) -> OnSettlement {
    match settlement {
        Settlement::Complete => OnSettlement::End,
        Settlement::Release => OnSettlement::Reseat(unchanged(job, Event::Release)),
        Settlement::Fail { error } => OnSettlement::Doom(DeadReason::Failed, bounded_error(error)),
        Settlement::Retry { error, .. } if job.attempt >= job.max_attempts(config) => {
            OnSettlement::Doom(DeadReason::AttemptsExhausted, bounded_error(error))
        }
        Settlement::Retry { delay, error } => {
            let wait = delay.unwrap_or_else(|| job.backoff(config).wait(job.attempt, jitter));
            OnSettlement::Reseat(Reseat {
                attempt: job.attempt + 1,
                not_before: (!wait.is_zero()).then(|| now.plus(wait)),
                error: Some(bounded_error(error)),
                event: Event::Retry,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::{JobId, JobKey, state::State};

    fn job(attempt: u32, not_before: Option<u64>, expires_at: Option<u64>) -> Job {
        Job {
            id: JobId::of_foreign(1, 1),
            key: JobKey::parse("k").expect("a key"),
            payload: Bytes::new(),
            content_type: String::new(),
            attributes: Default::default(),
            attempt,
            max_attempts: Some(3),
            backoff: None,
            submitted_at: UnixMillis(0),
            not_before: not_before.map(UnixMillis),
            expires_at: expires_at.map(UnixMillis),
            last_error: String::new(),
            reseated: false,
            mark: Mark::None,
        }
    }

    fn facts(count: u64) -> DeliveryFacts {
        DeliveryFacts {
            count,
            may_have_run: true,
            room: true,
            now: UnixMillis(100_000),
            jitter: 0.0,
        }
    }

    #[test]
    fn a_delivery_that_may_have_run_is_never_leased() {
        let config = QueueConfig::default();
        let again = on_delivery(&job(1, None, None), &config, facts(2));
        assert!(
            matches!(again, OnDelivery::Reseat(Reseat { attempt: 2, .. })),
            "{again:?}"
        );
        let last = on_delivery(&job(3, None, None), &config, facts(2));
        assert!(
            matches!(last, OnDelivery::Doom(DeadReason::LeaseExpired, _)),
            "{last:?}"
        );
    }

    #[test]
    fn a_job_that_waited_for_its_time_lost_no_attempt() {
        let config = QueueConfig::default();
        let early = on_delivery(&job(1, Some(101_000), None), &config, facts(2));
        assert_eq!(early, OnDelivery::Wait(Duration::from_secs(1)));
        let due = on_delivery(&job(1, Some(99_000), None), &config, facts(2));
        assert!(matches!(
            due,
            OnDelivery::Reseat(Reseat {
                attempt: 1,
                not_before: None,
                ..
            })
        ));
    }

    #[test]
    fn only_a_job_that_has_not_started_expires() {
        let config = QueueConfig::default();
        let expired =
            |attempt, count| on_delivery(&job(attempt, None, Some(1)), &config, facts(count));
        assert!(matches!(
            expired(1, 1),
            OnDelivery::Doom(DeadReason::Expired, _)
        ));
        assert!(matches!(expired(2, 1), OnDelivery::Lease));
        assert!(matches!(
            expired(1, 2),
            OnDelivery::Reseat(Reseat { attempt: 2, .. })
        ));
    }

    proptest! {
        #[test]
        fn every_decision_is_a_move_of_the_state_machine(
            attempt in 1u32..5, count in 1u64..4, nb in proptest::option::of(0u64..200_000),
            ex in proptest::option::of(0u64..200_000), may_have_run: bool, room: bool,
        ) {
            let job = job(attempt, nb, ex);
            let facts = DeliveryFacts { may_have_run, room, ..facts(count) };
            let state = match (&job.not_before, count > 1 && may_have_run) {
                (Some(_), _) if attempt > 1 => State::Retrying,
                (Some(_), _) => State::Scheduled,
                (None, true) => State::Leased,
                (None, false) => State::Queued,
            };
            match on_delivery(&job, &QueueConfig::default(), facts) {
                OnDelivery::Lease => {
                    prop_assert!(count == 1 && room && job.not_before.is_none());
                    prop_assert!(state.after(Event::Lease).is_some());
                }
                OnDelivery::Wait(_) => prop_assert!(job.not_before > Some(facts.now)),
                OnDelivery::Reseat(reseat) => prop_assert!(state.after(reseat.event).is_some(), "{state:?} {reseat:?}"),
                OnDelivery::Doom(..) => prop_assert!(state.after(Event::Doom).is_some(), "{state:?}"),
                OnDelivery::FinishDead(_) | OnDelivery::RemoveTombstone => prop_assert!(false, "no mark was set"),
            }
        }
    }
}
