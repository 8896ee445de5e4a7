//! How jobs of the fake server end, or come back.

use std::time::{Duration, Instant};

use super::{
    SeenSettlement,
    answers::wall,
    state::{Lease, State},
};
use crate::{
    raw::{self, settlement::Outcome},
    wire,
};

impl State {
    /// Settles a lease and notes it.
    pub(super) fn settle(&mut self, settlement: raw::Settlement) -> raw::SettlementResult {
        let lease = self.leases.get(&settlement.lease_token);
        let key = lease.map(|lease| lease.key.clone()).unwrap_or_default();
        let (outcome, error) = described(settlement.outcome.as_ref());
        let lease_token = settlement.lease_token.clone();
        let answer = match self.script.settlement_answers.pop_front() {
            Some(answer) => answer,
            None => self.settle_truly(settlement),
        };
        self.seen.settlements.push(SeenSettlement {
            key,
            outcome,
            error,
            answer,
        });
        raw::SettlementResult {
            lease_token,
            outcome: answer.into(),
            error: None,
        }
    }

    fn settle_truly(&mut self, settlement: raw::Settlement) -> raw::SettlementOutcome {
        let token = settlement.lease_token;
        let outcome = match settlement.outcome {
            Some(Outcome::Rerun(_)) | None => return raw::SettlementOutcome::Rejected,
            Some(outcome) => outcome,
        };
        if !self.leases.contains_key(&token) {
            let twice = self.settled.contains(&token);
            let (again, lost) = (
                raw::SettlementOutcome::AlreadySettled,
                raw::SettlementOutcome::LeaseLost,
            );
            return if twice { again } else { lost };
        }
        self.settled.insert(token.clone());
        if matches!(outcome, Outcome::Release(_)) {
            self.hand_back(&token);
        } else if let Some(lease) = self.take_lease(&token) {
            self.end_attempt(&lease, outcome);
        }
        raw::SettlementOutcome::Settled
    }

    fn end_attempt(&mut self, lease: &Lease, outcome: Outcome) {
        let (queue, key) = (&lease.queue, &lease.key);
        match outcome {
            Outcome::Retry(retry) => {
                let delay = retry.delay.map(wire::to_duration);
                self.retry(
                    queue,
                    key,
                    delay,
                    &retry.error,
                    raw::DeadReason::AttemptsExhausted,
                );
            }
            Outcome::Fail(fail) => self.bury(queue, key, &fail.error, raw::DeadReason::Failed),
            Outcome::Complete(_) | Outcome::Release(_) | Outcome::Rerun(_) => {
                self.queues
                    .get_mut(queue)
                    .and_then(|queue| queue.jobs.remove(key));
            }
        }
    }

    pub(super) fn retry(
        &mut self,
        queue: &str,
        key: &str,
        delay: Option<Duration>,
        error: &str,
        reason: raw::DeadReason,
    ) {
        let wait = delay.unwrap_or(self.options.retry_delay);
        let Some(entry) = self.entry(queue, key) else {
            return;
        };
        if entry.job.attempt >= entry.job.max_attempts {
            return self.bury(queue, key, error, reason);
        }
        entry.job.attempt += 1;
        error.clone_into(&mut entry.job.last_error);
        entry.job.state = raw::JobState::Retrying.into();
        entry.due = Some(Instant::now() + wait);
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.ready.push_back(key.to_owned());
        }
    }

    fn bury(&mut self, queue: &str, key: &str, error: &str, reason: raw::DeadReason) {
        let dead_id = self.number();
        let Some(queue) = self.queues.get_mut(queue) else {
            return;
        };
        let Some(mut entry) = queue.jobs.remove(key) else {
            return;
        };
        error.clone_into(&mut entry.job.last_error);
        entry.job.state = raw::JobState::Dead.into();
        let dead = raw::DeadJob {
            dead_id,
            job: Some(entry.job),
            reason: reason.into(),
            died_at: Some(wall()),
        };
        queue.dead.insert(dead_id, dead);
    }
}

fn described(outcome: Option<&Outcome>) -> (&'static str, String) {
    match outcome {
        Some(Outcome::Complete(_)) => ("complete", String::new()),
        Some(Outcome::Retry(retry)) => ("retry", retry.error.clone()),
        Some(Outcome::Release(_)) => ("release", String::new()),
        Some(Outcome::Fail(fail)) => ("fail", fail.error.clone()),
        Some(Outcome::Rerun(_)) => ("rerun", String::new()),
        None => ("none", String::new()),
    }
}
