//! What is uncertain after deliveries were forgotten, and for how long.
//!
//! A consumer that was made anew knows of no delivery. And with one replica, delivery counts and pending times prove nothing for a while after nats-server was
//! killed: about 100 ms of deliveries are forgotten, and leases are redelivered up to seconds early. So
//! for one wait of JetStream's nothing that may have been leased before is leased or re-seated: such
//! deliveries are dropped, their holders' heartbeats and settlements still work, and JetStream brings
//! back what nobody holds. New sequences are served meanwhile. The clean-up of jobs that ended and came
//! back goes first.

use std::{collections::HashMap, sync::Arc, time::Duration};

use keywork_jetstream::{
    ApiError,
    pull::Delivery,
    queues::{QueueError, QueueInfo},
};
use keywork_model::limits;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{engine::Engine, queue::Queue, settle};

/// Deliveries that one wait may drop: more than NATS can make in what a kill forgets. What is beyond was
/// never delivered before, and waits until the time is over.
const MOST_DROPPED: u32 = 20_000;
/// Added to JetStream's own wait: pending times come back up to three seconds early.
const EARLY: Duration = Duration::from_secs(3);

/// What is uncertain now.
#[derive(Debug)]
pub(crate) struct Guard {
    keeper: String,
    checked_once: bool,
    epoch: Option<u64>,
    boundary: u64,
    until: Option<Instant>,
    forgiven_until: Option<Instant>,
    dropped: u32,
    /// When each was dropped last in this wait.
    dropped_at: HashMap<u64, Instant>,
    ack_wait: Duration,
    /// Whether everything up to the boundary was drawn since the wait began.
    drawn: bool,
    /// Several nodes agree on each delivery before it is sent: one that says it is the first is.
    agreed: bool,
}

/// What the servers remember of a queue's NATS server.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seen {
    keeper: String,
    clean: bool,
}

/// What to do with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Go on: an earlier delivery may have been given to a worker.
    Certain,
    /// Go on: if it came before, that was because it was dropped here.
    Forgiven,
    /// Drop it: JetStream brings it back.
    Drop,
}

impl Guard {
    pub(crate) fn new(info: &QueueInfo) -> Self {
        Self {
            keeper: info.keeper.clone(),
            checked_once: false,
            epoch: None,
            boundary: 0,
            until: None,
            forgiven_until: None,
            dropped: 0,
            dropped_at: HashMap::new(),
            ack_wait: info.ack_wait,
            drawn: false,
            agreed: info.replicas > 1,
        }
    }

    /// Whether deliveries may have been forgotten since the last check.
    pub(crate) fn must_check(&self, epoch: u64) -> bool {
        self.epoch != Some(epoch)
    }

    /// Takes in what was read: another keeper asks for a check.
    pub(crate) fn saw_keeper(&mut self, keeper: &str) {
        if self.epoch.is_some() && self.keeper != keeper {
            self.epoch = None;
        }
    }

    /// Whether the wait is on.
    pub(crate) fn waiting(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Whether more may be asked for: not when the wait has dropped what it may.
    pub(crate) fn may_ask(&self, now: Instant) -> bool {
        !self.waiting(now) || self.dropped < MOST_DROPPED
    }

    /// Whether deliveries must be drawn although nobody has room: a lease that NATS forgot is protected
    /// only once it was delivered again and dropped.
    pub(crate) fn must_draw(&self, now: Instant) -> bool {
        self.waiting(now) && !self.drawn
    }

    /// Whether what NATS says of this keeper is what was checked last, with nothing uncertain.
    fn knows(&self, keeper: &str, epoch: u64, now: Instant) -> bool {
        self.keeper == keeper && !self.must_check(epoch) && !self.waiting(now)
    }

    /// Whether a wait is over that has not been closed yet.
    fn over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    fn begin(&mut self, boundary: u64, ack_wait: Duration, now: Instant) {
        let wait = ack_wait + EARLY;
        self.boundary = boundary;
        self.until = Some(now + wait);
        self.forgiven_until = Some(now + wait + wait);
        self.dropped = 0;
        self.dropped_at.clear();
        self.ack_wait = ack_wait;
        self.drawn = self.agreed;
    }

    /// Whether NATS, since its restart, waited for this one in vain: nobody has extended it since it was
    /// dropped here, and every lease from before is over.
    fn waited_for(&self, sequence: u64, now: Instant) -> bool {
        let at_least = self.ack_wait.saturating_sub(limits::ACK_WAIT_MARGIN);
        let dropped = self.dropped_at.get(&sequence);
        dropped.is_some_and(|at| now.duration_since(*at) >= at_least)
    }

    /// Judges a delivery, `count` of its sequence.
    pub(crate) fn judge(&mut self, sequence: u64, count: u64, now: Instant) -> Verdict {
        if sequence > self.boundary {
            self.drawn = true;
            return Verdict::Certain;
        }
        if self.agreed && count == 1 {
            return Verdict::Certain;
        }
        if self.waiting(now) {
            if self.waited_for(sequence, now) {
                return Verdict::Forgiven;
            }
            self.dropped += 1;
            self.dropped_at.insert(sequence, now);
            return Verdict::Drop;
        }
        match self.forgiven_until {
            Some(until) if now < until => Verdict::Forgiven,
            Some(_) | None => Verdict::Certain,
        }
    }
}

impl Queue {
    /// Looks whether redeliveries may come early, before they are dealt with: where several nodes keep the
    /// consumer, its leadership may have moved a moment ago. False: that could not be found out.
    pub(crate) async fn look_at_keeper(&self) -> bool {
        if !self.jobs.replicated() {
            return true;
        }
        let info = self.jobs.info().await;
        if let Ok(info) = &info {
            self.guard.lock().saw_keeper(&info.keeper);
        }
        info.is_ok()
    }

    /// Finds out whether NATS was restarted, and begins the wait if it was.
    ///
    /// # Errors
    /// What failed: nothing may be leased then.
    pub(crate) async fn check_restart(&self) -> Result<(), QueueError> {
        let epoch = self.jobs.nats().epoch();
        if !self.guard.lock().must_check(epoch) {
            return Ok(());
        }
        let info = self.jobs.info().await?;
        let seen = self.seen().await?;
        let first = !self.guard.lock().checked_once;
        let known = if first {
            seen.keeper.clone()
        } else {
            self.guard.lock().keeper.clone()
        };
        let restarted = !known.is_empty() && known != info.keeper;
        if restarted && !(first && seen.clean) {
            tracing::info!(queue = %self.name, "NATS was restarted, or has another leader: waiting for old leases");
            self.delete_ended().await?;
            self.guard
                .lock()
                .begin(info.last_sequence, info.ack_wait, Instant::now());
        } else if !self.guard.lock().waiting(Instant::now()) {
            self.remember(&info.keeper, false).await?;
        }
        let mut guard = self.guard.lock();
        guard.keeper = info.keeper;
        guard.checked_once = true;
        guard.epoch = Some(epoch);
        Ok(())
    }

    /// Closes a wait that is over: whatever is stored but neither pending nor ahead is stored anew.
    pub(crate) async fn close_wait(self: &Arc<Self>, engine: &Engine) -> Result<(), QueueError> {
        let now = Instant::now();
        let keeper = {
            let guard = self.guard.lock();
            if !guard.over(now) {
                return Ok(());
            }
            guard.keeper.clone()
        };
        self.delete_ended().await?;
        self.rescue_stranded(engine).await?;
        self.remember(&keeper, false).await?;
        self.guard.lock().until = None;
        Ok(())
    }

    /// Stores anew what lies at or below the consumer's ack floor: it would never be delivered again. Not
    /// before a restart was dealt with: what ended and came back would get a sequence that nothing says
    /// has ended.
    pub(crate) async fn rescue_stranded(
        self: &Arc<Self>,
        engine: &Engine,
    ) -> Result<(), QueueError> {
        let info = self.jobs.info().await?;
        let epoch = self.jobs.nats().epoch();
        let known = self.guard.lock().knows(&info.keeper, epoch, Instant::now());
        if !known {
            return Ok(());
        }
        let mut from = info.first_sequence;
        while info.messages > 0 && from <= info.ack_floor {
            let Some(stored) = self.jobs.read_from(from).await? else {
                break;
            };
            if stored.sequence > info.ack_floor {
                break;
            }
            from = stored.sequence + 1;
            tracing::warn!(queue = %self.name, sequence = stored.sequence, "rescuing a stranded job");
            settle::rescue(engine, self, stored).await?;
        }
        Ok(())
    }

    /// Records that this server stops with no lease out, so that a restart needs no wait.
    pub(crate) async fn record_clean_stop(&self) -> Result<(), QueueError> {
        let (keeper, waiting, checked) = {
            let guard = self.guard.lock();
            (
                guard.keeper.clone(),
                guard.until.is_some(),
                guard.epoch.is_some(),
            )
        };
        let idle = self.state.lock().leases.is_empty();
        if waiting || !idle || !checked {
            return Ok(());
        }
        // What a server before this one leased is over when JetStream's wait has passed, or nothing is pending.
        let known_for_long = self.opened.elapsed() > self.ack_wait();
        if known_for_long || self.jobs.info().await?.in_flight == 0 {
            self.remember(&keeper, true).await?;
        }
        Ok(())
    }

    /// Deletes jobs that ended and came back: only a single replica brings them back.
    async fn delete_ended(&self) -> Result<(), QueueError> {
        if !self.jobs.replicated() {
            let purged = self.jobs.nats().setting(&self.purged_name()).await?;
            if let Some(up_to) = purged.and_then(|v| serde_json::from_slice(&v).ok()) {
                self.jobs.purge(up_to).await?;
            }
            let deleted = self.jobs.delete_ended().await?;
            tracing::info!(queue = %self.name, deleted, "deleted jobs that ended and came back");
        }
        Ok(())
    }

    /// Removes all jobs up to a sequence. Where a killed NATS could bring some back, that is recorded
    /// before, and done again after a restart.
    pub(crate) async fn purge(&self, up_to: u64) -> Result<u64, QueueError> {
        if !self.jobs.replicated() {
            let value = serde_json::to_vec(&up_to).unwrap_or_default();
            self.jobs.nats().set(&self.purged_name(), value).await?;
        }
        self.jobs.purge(up_to).await
    }

    fn purged_name(&self) -> String {
        format!("purged.{}", self.name)
    }

    async fn seen(&self) -> Result<Seen, ApiError> {
        let value = self.jobs.nats().setting(&self.seen_name()).await?;
        Ok(value
            .and_then(|v| serde_json::from_slice(&v).ok())
            .unwrap_or_default())
    }

    async fn remember(&self, keeper: &str, clean: bool) -> Result<(), ApiError> {
        let seen = Seen {
            keeper: keeper.into(),
            clean,
        };
        let value = serde_json::to_vec(&seen).unwrap_or_default();
        self.jobs.nats().set(&self.seen_name(), value).await
    }

    /// Writes again what the settings said, where they were deleted. During a wait its end does that.
    pub(crate) async fn remember_again(&self) -> Result<(), ApiError> {
        let keeper = {
            let guard = self.guard.lock();
            let certain = guard.epoch.is_some() && guard.until.is_none();
            certain.then(|| guard.keeper.clone())
        };
        match keeper {
            Some(keeper) => self.remember(&keeper, false).await,
            None => Ok(()),
        }
    }

    fn seen_name(&self) -> String {
        format!("seen.{}", self.name)
    }

    /// Judges a delivery in the light of restarts.
    pub(crate) fn judge(&self, delivery: &Delivery, now: Instant) -> Verdict {
        let (sequence, count) = (delivery.stored.sequence, delivery.count);
        self.guard.lock().judge(sequence, count, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard {
            keeper: String::new(),
            checked_once: false,
            epoch: None,
            boundary: 0,
            until: None,
            forgiven_until: None,
            dropped: 0,
            dropped_at: HashMap::new(),
            ack_wait: Duration::ZERO,
            drawn: false,
            agreed: false,
        }
    }

    #[test]
    fn what_comes_again_after_a_whole_wait_of_nats_is_not_dropped_twice() {
        let (mut guard, now) = (guard(), Instant::now());
        guard.begin(10, Duration::from_secs(16), now);
        let drawn = now + Duration::from_millis(100);
        assert_eq!(guard.judge(10, 2, drawn), Verdict::Drop);
        assert_eq!(guard.judge(8, 2, drawn), Verdict::Drop);
        let early = drawn + Duration::from_secs(13);
        assert_eq!(guard.judge(8, 2, early), Verdict::Drop);
        let again = drawn + Duration::from_secs(16);
        assert!(guard.waiting(again));
        assert_eq!(guard.judge(10, 2, again), Verdict::Forgiven);
        assert_eq!(
            guard.judge(9, 2, again),
            Verdict::Drop,
            "it was never waited for"
        );
        assert_eq!(
            guard.judge(8, 2, again),
            Verdict::Drop,
            "nor this one for long"
        );
    }

    #[test]
    fn while_the_wait_is_on_only_new_sequences_are_served() {
        let (mut guard, now) = (guard(), Instant::now());
        guard.begin(10, Duration::from_secs(3), now);
        assert_eq!(guard.judge(10, 2, now), Verdict::Drop);
        assert_eq!(guard.judge(11, 2, now), Verdict::Certain);
        let after = now + Duration::from_secs(7);
        assert_eq!(guard.judge(10, 2, after), Verdict::Forgiven);
        assert_eq!(
            guard.judge(10, 2, after + Duration::from_secs(7)),
            Verdict::Certain
        );
    }

    #[test]
    fn a_first_delivery_that_nodes_agreed_on_is_served_in_the_wait() {
        let (mut guard, now) = (guard(), Instant::now());
        guard.agreed = true;
        guard.begin(10, Duration::from_secs(3), now);
        assert!(!guard.must_draw(now));
        assert_eq!(guard.judge(10, 1, now), Verdict::Certain);
        assert_eq!(guard.judge(9, 2, now), Verdict::Drop);
    }

    #[test]
    fn a_wait_drops_no_more_than_a_kill_can_forget() {
        let (mut guard, now) = (guard(), Instant::now());
        guard.begin(1_000_000, Duration::from_secs(3), now);
        for sequence in 0..u64::from(MOST_DROPPED) {
            assert!(guard.may_ask(now));
            guard.judge(sequence, 2, now);
        }
        assert!(!guard.may_ask(now));
        assert!(guard.may_ask(now + Duration::from_secs(7)));
    }
}
