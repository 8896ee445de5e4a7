//! The worker's loop: one task, on a thread of its own, that holds all state of the session.
//!
//! Handlers run elsewhere, on the caller's runtime, so that one which burns CPU delays no heartbeat. Every arm of
//! the loop calls something that never waits; messages are sent when there is room for them.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    time::{Sleep, sleep_until},
};

use super::{
    CancelReason, Event, Shared, WorkerError,
    beats::Beats,
    event::count,
    handler::Outcome,
    leases::{LeaseId, Leases, Terms},
    link::{Link, LinkEvent},
    outbox::Outbox,
    run_one::{Finished, Report, run_one},
    stop::{FLUSH_WITHIN, Order, Stop, Stopper},
    tell::{Failure, Teller, What},
};
use crate::{backoff::Backoff, tasks};

/// How many ended handlers are taken at once: what one message can settle.
const TAKEN: usize = 1_000;
/// When a handler that goes on after its cancellation is told of.
pub(super) const STUBBORN: Duration = Duration::from_secs(5);
/// A point in time that never comes.
const FAR: Duration = Duration::from_secs(86_400);

pub(crate) struct Driver {
    pub(super) shared: Arc<Shared>,
    handlers: Handle,
    pub(super) teller: Teller,
    pub(super) link: Link,
    pub(super) leases: Leases,
    pub(super) beats: Beats,
    pub(super) outbox: Outbox,
    /// Leases that wait for a handler slot.
    pub(super) waiting: VecDeque<LeaseId>,
    pub(super) terms: Vec<Terms>,
    pub(super) session: Session,
    pub(super) stop: Stop,
    pub(super) result: Result<(), WorkerError>,
    /// Results that were unconfirmed when the session could not go on.
    given_up: usize,
    pub(super) backoff: Backoff,
    finished: (
        mpsc::UnboundedSender<Finished>,
        mpsc::UnboundedReceiver<Finished>,
    ),
    /// When the leases' fences are to be looked at next.
    next_sweep: Instant,
}

/// What is known of the session that is open, or was last.
pub(super) struct Session {
    /// The server has said Welcome, and the stream has not ended since.
    pub(super) live: bool,
    pub(super) hello_sent: Instant,
    /// When the stream of the last live session broke.
    pub(super) broke: Option<Instant>,
    pub(super) ticket: Bytes,
    pub(super) heartbeat_interval: Duration,
    pub(super) liveness: Duration,
    pub(super) next_heartbeat: Instant,
    /// The capacity that the server was last told.
    pub(super) capacity: u32,
    pub(super) drain_sent: bool,
    pub(super) drain_acknowledged: bool,
    /// The server wants us gone: when to reconnect.
    pub(super) move_at: Option<Instant>,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, handlers: Handle, teller: Teller) -> Self {
        let now = Instant::now();
        Self {
            link: Link::new(shared.options.clone(), now),
            handlers,
            teller,
            leases: Leases::default(),
            beats: Beats::new(now),
            outbox: Outbox::default(),
            waiting: VecDeque::new(),
            terms: Vec::new(),
            session: Session::new(now),
            stop: Stop::No,
            result: Ok(()),
            given_up: 0,
            backoff: Backoff::default(),
            // Unbounded, and yet never longer than there are handlers.
            finished: mpsc::unbounded_channel(),
            next_sweep: now + FAR,
            shared,
        }
    }

    /// Works until it is stopped.
    pub(crate) async fn run(mut self, mut stopper: Stopper) -> Result<(), WorkerError> {
        let mut orders = self.shared.orders.subscribe();
        let timer = sleep_until(Instant::now().into());
        tokio::pin!(timer);
        let mut ended = Vec::with_capacity(TAKEN);
        loop {
            let now = Instant::now();
            self.on_time(now);
            self.obey(*orders.borrow_and_update(), now);
            if self.is_over() {
                break;
            }
            self.flush(now);
            reset(timer.as_mut(), self.wake(now));
            let want_room = self.wants_room(now);
            let given = *self.shared.orders.borrow();
            tokio::select! {
                order = stopper.next(given) => self.shared.order(order),
                _ = orders.changed() => {}
                () = &mut timer => {}
                event = self.link.next(want_room) => self.on_link(event, Instant::now()),
                _ = self.finished.1.recv_many(&mut ended, TAKEN) => self.on_finished(&mut ended, Instant::now()),
            }
        }
        self.link.close().await;
        let stopped = Event::Stopped {
            abandoned: self.leases.occupied(),
            unconfirmed: self.given_up + self.leases.unconfirmed(),
        };
        drop(self.leases);
        self.shared.healthy.store(false, Ordering::Release);
        if let Err(error) = &self.result {
            self.teller.tell(Event::Failed {
                error: error.clone(),
            });
        }
        self.teller.tell(stopped);
        self.result
    }

    /// The earliest time at which something is due.
    fn wake(&self, now: Instant) -> Instant {
        // Without room for it, the room is waited for instead.
        let can_beat = self.session.live && self.link.has_room();
        let heartbeat = can_beat.then_some(self.session.next_heartbeat);
        let times = [
            self.link.wake(),
            heartbeat,
            self.session.move_at,
            self.outbox.wake(),
            self.stop.wake(),
            Some(self.next_sweep),
        ];
        times.into_iter().flatten().min().unwrap_or(now + FAR)
    }

    /// Does what is due.
    fn on_time(&mut self, now: Instant) {
        if self.next_sweep <= now {
            self.sweep(now);
        }
        if self.link.is_too_silent(now) {
            self.on_silence(now);
        }
        if self.session.move_at.is_some_and(|at| at <= now) {
            self.move_on(now);
        }
        if self.link.is_due_to_connect(now) {
            self.teller.tell(Event::Connecting {
                endpoint: self.link.endpoint(),
            });
            self.link.connect(now);
        }
        if self.stop.wake().is_some_and(|at| at <= now) {
            self.stop_further(now);
        }
    }

    /// Stops every handler whose lease may end before it is extended.
    fn sweep(&mut self, now: Instant) {
        let (due, next) = self.leases.fenced(&self.terms, self.session.broke, now);
        for id in due {
            self.lose(id, CancelReason::LeaseLost, None, now);
        }
        for (queue, key, cancelled_for) in self.leases.stubborn(STUBBORN, now) {
            let queue = self.shared.queue_name(queue);
            self.teller.tell(Event::HandlerIgnoresCancellation {
                queue,
                key,
                cancelled_for,
            });
        }
        let stubborn = (self.leases.occupied_by_lost() > 0).then_some(now + STUBBORN);
        self.next_sweep = [next, stubborn]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(now + FAR);
    }

    /// A fence may have come nearer: look at it in time.
    pub(super) fn sweep_by(&mut self, fence: Instant) {
        self.next_sweep = self.next_sweep.min(fence);
    }

    fn on_link(&mut self, event: LinkEvent, now: Instant) {
        match event {
            LinkEvent::Connected => self.say_hello(now),
            LinkEvent::Message(message) => self.on_message(message, now),
            LinkEvent::Room => {}
            LinkEvent::Ended(status) => self.on_end(status, now),
        }
    }

    fn on_finished(&mut self, ended: &mut Vec<Finished>, now: Instant) {
        for Finished { id, outcome } in ended.drain(..) {
            let late = self
                .leases
                .get(id)
                .is_some_and(|held| Leases::fence_of(held, &self.terms, self.session.broke) <= now);
            if late {
                self.lose(id, CancelReason::LeaseLost, None, now);
            }
            self.on_ended(id, outcome);
        }
        self.start_waiting();
    }

    fn on_ended(&mut self, id: LeaseId, outcome: Outcome) {
        let stopped = self.leases.get(id).and_then(|held| held.context.reason());
        // None is one whose lease is lost, which settles nothing.
        let settled = outcome.after(stopped).unwrap_or(Outcome::Release);
        let failure = self.failure(id, &settled);
        if self.leases.finish(id, settled) {
            self.outbox.push(id);
            if let Some(failure) = failure {
                self.teller.handler_failed(failure);
            }
        } else {
            count(&self.shared.counters.dropped_results);
        }
    }

    /// What is told of an ordinary error, and of what makes a job a dead letter.
    fn failure(&self, id: LeaseId, outcome: &Outcome) -> Option<Failure> {
        let held = self.leases.get(id)?;
        let last = (1..=held.attempt).contains(&held.max_attempts);
        let (what, error) = match outcome {
            Outcome::Fail { reason } => (What::Fail, reason),
            Outcome::Retry { error, .. } if last => (What::LastAttempt, error),
            Outcome::Retry {
                chosen: false,
                error,
                ..
            } => (What::Attempt, error),
            Outcome::Complete
            | Outcome::Retry { .. }
            | Outcome::Release
            | Outcome::Rerun { .. } => return None,
        };
        Some(Failure {
            queue: self.shared.queue_name(held.queue),
            key: held.key.clone(),
            attempt: held.attempt,
            what,
            error: error.clone(),
        })
    }

    /// Starts what waits, as far as there are slots.
    pub(super) fn start_waiting(&mut self) {
        while !self.stop.is_stopping() && self.leases.occupied() < self.shared.concurrency {
            let Some(id) = self.waiting.pop_front() else {
                return;
            };
            self.start(id);
        }
    }

    fn start(&mut self, id: LeaseId) {
        let (shared, handlers, finished) = (&self.shared, &self.handlers, &self.finished.0);
        self.leases.start(id, |context, job| {
            count(&shared.counters.started);
            let report = Report::new(id, finished.clone());
            let task = run_one(shared.chain.clone(), context, job, report);
            tasks::start_on(handlers, task).abort_handle()
        });
    }

    /// Follows an order that has not been followed yet.
    fn obey(&mut self, order: Order, now: Instant) {
        match (order, self.stop) {
            (Order::Drain, Stop::No) => self.drain(now),
            (Order::ReleaseAll, Stop::No | Stop::Draining { .. } | Stop::Cancelling { .. }) => {
                if self.result.is_ok() {
                    self.result = Err(WorkerError::Forced);
                }
                self.release_all(now);
            }
            _ => {}
        }
    }

    fn drain(&mut self, now: Instant) {
        self.teller.tell(Event::Draining);
        self.stop = Stop::Draining {
            grace_ends: now + self.shared.shutdown_grace,
        };
        self.give_back_waiting();
        if !self.session.live {
            self.link.hurry(now + FLUSH_WITHIN);
        }
    }

    /// Gives back what was delivered and has not started.
    pub(super) fn give_back_waiting(&mut self) {
        while let Some(id) = self.waiting.pop_front() {
            if self.leases.give_back(id) {
                self.outbox.push(id);
            }
        }
    }

    fn stop_further(&mut self, now: Instant) {
        match self.stop {
            Stop::Draining { .. } => {
                self.leases.cancel_all(CancelReason::WorkerShutdown);
                self.stop = Stop::Cancelling {
                    until: now + self.shared.cancel_grace,
                };
            }
            Stop::Cancelling { .. } => self.release_all(now),
            // The time is over: what is left is left.
            Stop::No | Stop::Releasing { .. } => {}
        }
    }

    /// Drops every handler; each lease is released when its handler is really gone.
    fn release_all(&mut self, now: Instant) {
        self.leases.cancel_all(CancelReason::WorkerShutdown);
        self.leases.abort_all();
        self.give_back_waiting();
        self.stop = Stop::Releasing {
            until: now + FLUSH_WITHIN,
        };
    }

    /// The session can never go on: handlers are stopped, since nothing extends their leases any more.
    pub(super) fn fail(&mut self, error: WorkerError, now: Instant) {
        self.result = Err(error);
        self.session.live = false;
        self.shared.healthy.store(false, Ordering::Release);
        self.link.close_now();
        self.given_up += self.leases.unconfirmed();
        let all: Vec<LeaseId> = self.leases.held().map(|(id, _)| id).collect();
        for id in all {
            self.leases.settled(id);
            self.lose(id, CancelReason::LeaseLost, None, now);
        }
        self.stop = Stop::Cancelling {
            until: now + self.shared.cancel_grace,
        };
    }

    /// Stopping, and nothing is left to wait for.
    fn is_over(&self) -> bool {
        let settled = self.leases.is_empty();
        // A session that is being opened may bring deliveries: they are to be released, not dropped.
        let told = if self.session.live {
            self.session.drain_acknowledged
        } else {
            !self.link.is_opening()
        };
        match self.stop {
            Stop::No => false,
            Stop::Draining { .. } | Stop::Cancelling { .. } => settled && told,
            Stop::Releasing { until } => (settled && told) || until <= Instant::now(),
        }
    }
}

impl Session {
    fn new(now: Instant) -> Self {
        Self {
            live: false,
            hello_sent: now,
            broke: None,
            ticket: Bytes::new(),
            heartbeat_interval: FAR,
            liveness: FAR,
            next_heartbeat: now + FAR,
            capacity: 0,
            drain_sent: false,
            drain_acknowledged: false,
            move_at: None,
        }
    }
}

fn reset(timer: std::pin::Pin<&mut Sleep>, at: Instant) {
    if timer.deadline() != at.into() {
        timer.reset(at.into());
    }
}

/// Orders can be waited for by several.
pub(crate) fn orders() -> watch::Sender<Order> {
    watch::Sender::new(Order::Work)
}
