//! Deliveries, settlements and lost leases.

use std::time::Duration;

use keywork_engine::{
    Asked, GoAwayReason, Granted, Lost, LostReason, Outcome, Refused, SettleItem, SettleResult,
};
use keywork_model::{UnixMillis, Violation, decide::Settlement, limits};
use tokio::time::Instant;

use super::{
    job::plain_job,
    time::{duration, timestamp, to_duration},
};
use crate::{errors::Problem, proto};

/// Reads a settlement.
pub fn to_settle_item(settlement: proto::Settlement) -> SettleItem {
    use proto::settlement::Outcome as Wire;
    let refuse = |violation, unimplemented| {
        Asked::Refuse(Refused {
            violation,
            unimplemented,
        })
    };
    let asked = match settlement.outcome {
        None => refuse(Violation::new("outcome", "must be set"), false),
        Some(Wire::Complete(complete)) if !complete.result.is_empty() => refuse(
            Violation::new("complete.result", "keeping results is not served yet"),
            true,
        ),
        Some(Wire::Complete(_)) => Asked::Settle(Settlement::Complete),
        Some(Wire::Release(_)) => Asked::Settle(Settlement::Release),
        Some(Wire::Fail(fail)) => Asked::Settle(Settlement::Fail { error: fail.error }),
        Some(Wire::Rerun(_)) => refuse(Violation::new("rerun", "is not served yet"), true),
        Some(Wire::Retry(retry)) => match to_retry_delay(retry.delay) {
            Ok(delay) => Asked::Settle(Settlement::Retry {
                delay,
                error: retry.error,
            }),
            Err(violation) => refuse(violation, false),
        },
    };
    SettleItem {
        token: settlement.lease_token,
        asked,
    }
}

fn to_retry_delay(delay: Option<prost_types::Duration>) -> Result<Option<Duration>, Violation> {
    let Some(delay) = delay else { return Ok(None) };
    let delay = to_duration("retry.delay", delay)?;
    if delay > limits::MAX_DELAY {
        return Err(Violation::new("retry.delay", "must be at most 366 days"));
    }
    Ok(Some(delay))
}

/// A settlement's result on the wire.
pub fn settle_result(result: SettleResult) -> proto::SettlementResult {
    use proto::SettlementOutcome as Wire;
    let outcome = match result.outcome {
        Outcome::Settled => Wire::Settled,
        Outcome::AlreadySettled => Wire::AlreadySettled,
        Outcome::LeaseLost => Wire::LeaseLost,
        Outcome::TryAgain => Wire::TryAgain,
        Outcome::InvalidLease => Wire::InvalidLease,
        Outcome::Rejected => Wire::Rejected,
    };
    let error = result.refused.map(|refused| {
        if refused.unimplemented {
            Problem::not_served(&refused.violation.field).into_item()
        } else {
            Problem::from(refused.violation).into_item()
        }
    });
    proto::SettlementResult {
        lease_token: result.token,
        outcome: outcome.into(),
        error,
    }
}

/// Why a lease was lost, on the wire.
pub fn lost_reason(reason: LostReason) -> proto::LostReason {
    match reason {
        LostReason::Expired => proto::LostReason::Expired,
        LostReason::Cancelled => proto::LostReason::Cancelled,
        LostReason::Superseded => proto::LostReason::Superseded,
        LostReason::Invalid => proto::LostReason::Invalid,
    }
}

/// A lost lease on the wire.
pub fn lost(lost: Lost) -> proto::LostLease {
    proto::LostLease {
        lease_token: lost.token,
        reason: lost_reason(lost.reason).into(),
    }
}

/// Why a session should go, on the wire.
pub fn go_away_reason(reason: GoAwayReason) -> proto::GoAwayReason {
    match reason {
        GoAwayReason::Draining => proto::GoAwayReason::Draining,
        GoAwayReason::Superseded => proto::GoAwayReason::Superseded,
        GoAwayReason::QueueDeleted => proto::GoAwayReason::QueueDeleted,
        GoAwayReason::TermsChanged => proto::GoAwayReason::TermsChanged,
    }
}

/// A delivery on the wire. The time left is counted now, when it is about to be sent.
pub fn delivery(granted: Granted, now: Instant, wall: UnixMillis) -> proto::Delivery {
    let left = granted.deadline.saturating_duration_since(now);
    let attempt = granted.job.attempt;
    let mut job = plain_job(
        &granted.queue,
        granted.job,
        granted.max_attempts,
        proto::JobState::Leased,
        wall,
    );
    job.fencing_number = granted.sequence;
    job.lease_deadline = Some(timestamp(wall.plus(left)));
    proto::Delivery {
        lease_token: granted.token,
        fencing_number: granted.sequence,
        job: Some(job),
        attempt,
        time_left: Some(duration(left)),
    }
}
