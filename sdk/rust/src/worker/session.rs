//! What the server says on the worker's stream, and what that changes.

use std::{
    collections::HashSet,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tonic::{Code, Status};

use super::{
    CancelReason, Event, SettledOutcome, WorkerError,
    driver::Driver,
    event::count,
    handler::Outcome,
    leases::{Held, LeaseId, Terms, fence},
};
use crate::{
    Error, Job,
    backoff::around,
    client::{LostReason, lost_reason},
    errors::reasons,
    raw::{self, lease_response::Message as Down},
    wire,
};

/// What is taken for a lease's duration where a server does not say.
const LEASE_DURATION: Duration = Duration::from_secs(15);

impl Driver {
    pub(super) fn on_message(&mut self, message: raw::LeaseResponse, now: Instant) {
        if self.session.live {
            self.link.heard(now, self.session.liveness);
        }
        match message.message {
            Some(Down::Welcome(welcome)) => self.on_welcome(welcome, now),
            Some(Down::Deliveries(deliveries)) => self.on_deliveries(deliveries),
            Some(Down::HeartbeatAck(ack)) => self.on_heartbeat_ack(ack, now),
            Some(Down::SettlementResults(results)) => self.on_results(results, now),
            Some(Down::LeasesLost(lost)) => self.on_lost(&lost.leases, now),
            Some(Down::DrainAck(_)) => self.session.drain_acknowledged = true,
            Some(Down::GoAway(away)) => self.on_go_away(away, now),
            // Something newer than this version.
            None => {}
        }
    }

    fn on_welcome(&mut self, welcome: raw::Welcome, now: Instant) {
        self.terms = self
            .shared
            .queues
            .iter()
            .map(|queue| terms(&welcome, &queue.queue))
            .collect();
        let shortest = self.terms.iter().map(|terms| terms.lease_duration).min();
        let third = shortest.unwrap_or(LEASE_DURATION) / 3;
        self.session.heartbeat_interval = positive(welcome.heartbeat_interval).unwrap_or(third);
        let liveness = self.session.heartbeat_interval.mul_f64(2.5);
        self.session.liveness = positive(welcome.liveness_timeout).unwrap_or(liveness);
        self.link.heard(now, self.session.liveness);
        self.remember_ticket(welcome.session_ticket);
        if !self.session.live {
            self.on_opened(now);
        }
        for resumed in welcome.resumed {
            self.extend(&resumed.lease_token, resumed.time_left);
        }
        self.on_lost(&welcome.lost, now);
        self.outbox.refill(&self.leases);
    }

    fn on_opened(&mut self, now: Instant) {
        self.session.live = true;
        self.session.broke = None;
        self.session.move_at = None;
        self.session.drain_sent = false;
        self.session.drain_acknowledged = false;
        // What it holds was extended last through an earlier session, and may have little time left.
        let pause = if self.leases.is_empty() {
            self.session.heartbeat_interval
        } else {
            Duration::ZERO
        };
        self.session.next_heartbeat = now + pause;
        self.beats.opened(self.session.hello_sent);
        self.shared.healthy.store(true, Ordering::Release);
        count(&self.shared.counters.sessions);
        self.teller.tell(Event::Ready);
    }

    fn extend(&mut self, token: &Bytes, left: Option<prost_types::Duration>) {
        let Some(id) = self.leases.find(token) else {
            return;
        };
        let margin = self.margin(id);
        let left = left.map(wire::to_duration).unwrap_or_default();
        self.leases
            .extend(id, self.session.hello_sent, left, margin);
    }

    fn margin(&self, id: LeaseId) -> Duration {
        let terms = self
            .leases
            .get(id)
            .and_then(|held| self.terms.get(held.queue));
        terms.map(Terms::margin).unwrap_or_default()
    }

    fn on_deliveries(&mut self, deliveries: raw::Deliveries) {
        for delivery in deliveries.deliveries {
            self.on_delivery(delivery);
        }
        if self.stop.is_stopping() {
            self.give_back_waiting();
        }
        self.start_waiting();
    }

    fn on_delivery(&mut self, delivery: raw::Delivery) {
        let mut job = Job::from(delivery.job.unwrap_or_default());
        job.attempt = delivery.attempt;
        job.fencing_number = delivery.fencing_number;
        let queue = self
            .shared
            .queues
            .iter()
            .position(|q| q.queue == job.queue)
            .unwrap_or(0);
        let margin = self.terms.get(queue).map(Terms::margin).unwrap_or_default();
        let left = delivery
            .time_left
            .map(wire::to_duration)
            .unwrap_or_default();
        let fence = fence(self.beats.basis(), left, margin);
        let id = self.leases.insert(delivery.lease_token, queue, job, fence);
        self.waiting.push_back(id);
        self.sweep_by(fence);
    }

    fn on_heartbeat_ack(&mut self, ack: raw::HeartbeatAck, now: Instant) {
        self.backoff.reset();
        self.remember_ticket(ack.session_ticket);
        self.on_lost(&ack.lost, now);
        let unconfirmed = ack.unconfirmed.iter();
        let unconfirmed: HashSet<LeaseId> = unconfirmed
            .filter_map(|token| self.leases.find(token))
            .collect();
        while let Some((sent, leases)) = self.beats.answered(ack.sequence) {
            // The unconfirmed ones are as before: JetStream did not answer for them.
            for id in leases.into_iter().filter(|id| !unconfirmed.contains(id)) {
                let held = self.leases.get(id);
                let terms = held.and_then(|held| self.terms.get(held.queue));
                if let Some(terms) = terms.copied() {
                    self.leases
                        .extend(id, sent, terms.lease_duration, terms.margin());
                }
            }
        }
    }

    fn remember_ticket(&mut self, ticket: Bytes) {
        if !ticket.is_empty() {
            self.session.ticket = ticket;
        }
    }

    fn on_lost(&mut self, lost: &[raw::LostLease], now: Instant) {
        for lease in lost {
            let Some(id) = self.leases.find(&lease.lease_token) else {
                continue;
            };
            let why = lost_reason(lease.reason());
            let reason = if why == LostReason::Cancelled {
                CancelReason::JobCancelled
            } else {
                CancelReason::LeaseLost
            };
            self.lose(id, reason, Some(why), now);
        }
    }

    pub(super) fn lose(
        &mut self,
        id: LeaseId,
        reason: CancelReason,
        why: Option<LostReason>,
        now: Instant,
    ) {
        let Some((queue, key)) = self.leases.lose(id, reason, now) else {
            return;
        };
        count(&self.shared.counters.leases_lost);
        self.teller.tell(Event::LeaseLost {
            queue: self.shared.queue_name(queue),
            key,
            reason: why,
        });
        self.sweep_by(now + super::driver::STUBBORN);
    }

    fn on_results(&mut self, results: raw::SettlementResults, now: Instant) {
        for result in results.results {
            let Some(id) = self.leases.find(&result.lease_token) else {
                continue;
            };
            self.on_result(id, result, now);
        }
    }

    fn on_result(&mut self, id: LeaseId, result: raw::SettlementResult, now: Instant) {
        use raw::SettlementOutcome as Answer;
        match result.outcome() {
            Answer::Settled | Answer::AlreadySettled => {
                if let Some(held) = self.leases.settled(id) {
                    count(&self.shared.counters.settled);
                    self.tell_settled(held, result.outcome());
                }
            }
            Answer::TryAgain | Answer::Unspecified => self.outbox.push_later(id, now),
            Answer::LeaseLost | Answer::InvalidLease => {
                self.on_settled_too_late(id, result.outcome())
            }
            Answer::Rejected => self.on_rejected(id, result.error.unwrap_or_default()),
        }
    }

    fn on_settled_too_late(&mut self, id: LeaseId, answer: raw::SettlementOutcome) {
        let Some(held) = self.leases.settled(id) else {
            return;
        };
        count(&self.shared.counters.leases_lost);
        count(&self.shared.counters.dropped_results);
        let reason = if answer == raw::SettlementOutcome::InvalidLease {
            LostReason::Invalid
        } else {
            LostReason::Expired
        };
        self.teller.tell(Event::LeaseLost {
            queue: self.shared.queue_name(held.queue),
            key: held.key.clone(),
            reason: Some(reason),
        });
        self.tell_settled(held, answer);
    }

    fn tell_settled(&self, held: Held, answer: raw::SettlementOutcome) {
        use raw::SettlementOutcome as Answer;
        self.teller.tell_often(|| Event::Settled {
            queue: self.shared.queue_name(held.queue),
            key: held.key,
            fencing_number: held.fencing_number,
            outcome: match answer {
                Answer::Settled => SettledOutcome::Settled,
                Answer::AlreadySettled => SettledOutcome::AlreadySettled,
                Answer::LeaseLost
                | Answer::InvalidLease
                | Answer::TryAgain
                | Answer::Rejected
                | Answer::Unspecified => SettledOutcome::LeaseLost,
            },
        });
    }

    /// The lease is as before: the job is tried again after its backoff, with the reason as its error. When that is
    /// refused too, the lease is left to run out.
    fn on_rejected(&mut self, id: LeaseId, error: raw::ItemError) {
        let Some(held) = self.leases.get(id) else {
            return;
        };
        let text = Error::of_item(error).to_string();
        let (queue, key) = (self.shared.queue_name(held.queue), held.key.clone());
        let retried = matches!(
            held.phase,
            super::leases::Phase::Settling(Outcome::Retry { delay: None, .. })
        );
        self.teller.tell(Event::SettlementRejected {
            queue,
            key,
            error: text.clone(),
        });
        if retried {
            self.leases.settled(id);
            return;
        }
        let refused = format!("the server refused the settlement: {text}");
        self.leases.settle_as(id, Outcome::retry(refused));
        self.outbox.push(id);
    }

    fn on_go_away(&mut self, away: raw::GoAway, now: Instant) {
        if away.reason() == raw::GoAwayReason::Superseded {
            return self.fail(WorkerError::Superseded, now);
        }
        let delay = away
            .reconnect_delay
            .map(wire::to_duration)
            .unwrap_or_default();
        self.session.move_at = Some(now + around(delay));
    }

    /// Leaves a server that wants us gone for the next one.
    pub(super) fn move_on(&mut self, now: Instant) {
        self.session.move_at = None;
        self.break_off("the server asked us to reconnect", now);
        self.link.down(now);
    }

    pub(super) fn on_silence(&mut self, now: Instant) {
        let what = if self.session.live {
            "fell silent"
        } else {
            "did not say Welcome in time"
        };
        self.on_end(Some(Status::unavailable(format!("the server {what}"))), now);
    }

    /// The stream ended, or could not be opened. Unasked, whatever its status: reconnect. Only a refusal of what we
    /// ask for ends the worker.
    pub(super) fn on_end(&mut self, status: Option<Status>, now: Instant) {
        let error = status.map(|status| Error::of_call(status, &self.link.endpoint()));
        // The GoAway before it may not have arrived.
        if error
            .as_ref()
            .is_some_and(|error| error.reason() == reasons::SESSION_SUPERSEDED)
        {
            return self.fail(WorkerError::Superseded, now);
        }
        if let Some(error) = error.clone().filter(is_final) {
            return self.fail(WorkerError::Refused(error), now);
        }
        let text = error.map_or_else(
            || "the server ended the stream".to_owned(),
            |error| error.to_string(),
        );
        self.break_off(&text, now);
        let backoff = now + self.backoff.next();
        let until = self
            .session
            .move_at
            .take()
            .map_or(backoff, |at| at.max(now));
        self.link.down(until);
    }

    fn break_off(&mut self, error: &str, now: Instant) {
        self.shared.healthy.store(false, Ordering::Release);
        if self.session.live {
            self.session.live = false;
            self.session.broke = Some(now);
            // Where there is a grace, fences have come nearer.
            self.sweep_by(now);
        }
        self.teller.tell(Event::Degraded {
            endpoint: self.link.endpoint(),
            error: error.to_owned(),
        });
    }
}

fn terms(welcome: &raw::Welcome, queue: &str) -> Terms {
    let found = welcome.queues.iter().find(|terms| terms.queue == queue);
    Terms {
        lease_duration: found
            .and_then(|t| positive(t.lease_duration))
            .unwrap_or(LEASE_DURATION),
        disconnect_grace: found.and_then(|t| positive(t.disconnect_grace)),
    }
}

fn positive(duration: Option<prost_types::Duration>) -> Option<Duration> {
    duration
        .map(wire::to_duration)
        .filter(|duration| !duration.is_zero())
}

/// The server refuses what this worker asks for, and would again.
fn is_final(error: &Error) -> bool {
    let refusal = matches!(
        error.code(),
        Code::InvalidArgument
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::NotFound
            | Code::Unimplemented
    );
    refusal && !error.is_outage()
}
