//! The fake server's memory: queues, jobs, leases, and the rules of the contract over them.
//!
//! Everything happens under one lock, so that a test sees one order of events.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::mpsc;
use tonic::Status;
use uuid::Uuid;

use super::{
    FakeServerBuilder, Script, Seen,
    answers::{left, wall},
};
use crate::raw::{self, lease_response::Message as Down};

/// Attempts of a job that does not say otherwise.
const ATTEMPTS: u32 = 10;

/// What a session is sent.
pub(super) type Outbound = mpsc::UnboundedSender<Result<raw::LeaseResponse, Status>>;

#[derive(Debug)]
pub(super) struct State {
    pub(super) options: FakeServerBuilder,
    pub(super) script: Script,
    pub(super) seen: Seen,
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) leases: HashMap<Bytes, Lease>,
    /// Tokens whose job ended by their settlement.
    pub(super) settled: HashSet<Bytes>,
    pub(super) sessions: BTreeMap<u64, Session>,
    serial: u64,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) config: raw::QueueConfig,
    pub(super) paused: bool,
    pub(super) jobs: BTreeMap<String, Entry>,
    pub(super) ready: VecDeque<String>,
    pub(super) dead: BTreeMap<u64, raw::DeadJob>,
    /// Every job that was accepted, by its id.
    pub(super) accepted: HashMap<String, raw::Job>,
}

/// An outstanding job.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) job: raw::Job,
    /// Not before then.
    pub(super) due: Option<Instant>,
    lease: Option<Bytes>,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) queue: String,
    pub(super) key: String,
    pub(super) deadline: Instant,
    pub(super) session: Option<u64>,
    pub(super) worker_id: String,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) worker_id: String,
    pub(super) queues: Vec<String>,
    pub(super) capacity: u32,
    pub(super) draining: bool,
    pub(super) outbound: Outbound,
}

impl State {
    pub(super) fn new(options: FakeServerBuilder) -> Self {
        Self {
            options,
            script: Script::default(),
            seen: Seen::default(),
            queues: BTreeMap::new(),
            leases: HashMap::new(),
            settled: HashSet::new(),
            sessions: BTreeMap::new(),
            serial: 0,
        }
    }

    /// A number that grows: fencing numbers, sessions, dead letters.
    pub(super) fn number(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub(super) fn outstanding(&self, queue: &str, key: &str) -> Option<raw::Job> {
        Some(self.queues.get(queue)?.jobs.get(key)?.job.clone())
    }

    pub(super) fn dead(&self, queue: &str) -> Vec<raw::DeadJob> {
        self.queues
            .get(queue)
            .map(|queue| queue.dead.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Accepts a job whose key is free.
    pub(super) fn accept(
        &mut self,
        request: raw::SubmitRequest,
        delay: Option<Duration>,
    ) -> raw::Job {
        let id = Some(request.request_id).filter(|id| !id.is_empty());
        let attempts = if request.max_attempts == 0 {
            ATTEMPTS
        } else {
            request.max_attempts
        };
        let job = raw::Job {
            id: id.unwrap_or_else(|| Uuid::new_v4().to_string()),
            queue: request.queue.clone(),
            key: request.key.clone(),
            payload: request.payload,
            content_type: request.content_type,
            attributes: request.attributes,
            state: raw::JobState::Queued.into(),
            attempt: 1,
            max_attempts: attempts,
            submitted_at: Some(wall()),
            expires_at: request.expires_at,
            ..Default::default()
        };
        let due = delay.map(|delay| Instant::now() + delay);
        let queue = self.queues.entry(request.queue).or_default();
        queue.accepted.insert(job.id.clone(), job.clone());
        queue.jobs.insert(
            request.key.clone(),
            Entry {
                job: job.clone(),
                due,
                lease: None,
            },
        );
        queue.ready.push_back(request.key);
        job
    }

    /// Something is to be done by now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let waiting = self.queues.values().flat_map(|queue| queue.jobs.values());
        self.leases.values().any(|lease| lease.deadline <= now)
            || waiting.filter_map(|entry| entry.due).any(|due| due <= now)
    }

    /// Ends the leases that ran out, and starts what was waiting for its time.
    pub(super) fn on_time(&mut self, now: Instant) {
        let late = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.deadline <= now);
        let late: Vec<Bytes> = late.map(|(token, _)| token.clone()).collect();
        for token in late {
            self.seen.expired += 1;
            if let Some(lease) = self.take_lease(&token) {
                self.retry(
                    &lease.queue,
                    &lease.key,
                    None,
                    "the lease ran out",
                    raw::DeadReason::LeaseExpired,
                );
                self.tell_lost(&lease, token, raw::LostReason::Expired);
            }
        }
        for entry in self
            .queues
            .values_mut()
            .flat_map(|queue| queue.jobs.values_mut())
        {
            entry.due = entry.due.filter(|due| *due > now);
        }
    }

    /// Leases what is ready to the sessions that have room.
    pub(super) fn dispatch(&mut self) {
        if self.script.silent {
            return;
        }
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        for id in sessions {
            let Some(session) = self.sessions.get(&id).filter(|session| !session.draining) else {
                continue;
            };
            let held = self
                .leases
                .values()
                .filter(|lease| lease.session == Some(id))
                .count();
            let most = session.capacity.saturating_add(self.script.beyond_capacity);
            let room = (most as usize).saturating_sub(held);
            let (queues, worker_id) = (session.queues.clone(), session.worker_id.clone());
            let deliveries = self.lease(&queues, room, Some(id), &worker_id);
            if !deliveries.is_empty() {
                self.send(id, Down::Deliveries(raw::Deliveries { deliveries }));
            }
        }
    }

    /// Leases up to so many jobs.
    pub(super) fn lease(
        &mut self,
        queues: &[String],
        most: usize,
        session: Option<u64>,
        worker_id: &str,
    ) -> Vec<raw::Delivery> {
        let mut deliveries = Vec::new();
        for name in queues {
            while deliveries.len() < most {
                let Some(key) = self.next_ready(name) else {
                    break;
                };
                deliveries.extend(self.lease_one(name, key, session, worker_id));
            }
        }
        deliveries
    }

    fn next_ready(&mut self, queue: &str) -> Option<String> {
        let queue = self.queues.get_mut(queue).filter(|queue| !queue.paused)?;
        let ready = |key: &String| queue.jobs.get(key).is_some_and(|entry| entry.due.is_none());
        let place = queue.ready.iter().position(ready)?;
        queue.ready.remove(place)
    }

    fn lease_one(
        &mut self,
        queue: &str,
        key: String,
        session: Option<u64>,
        worker_id: &str,
    ) -> Option<raw::Delivery> {
        let (fencing_number, now) = (self.number(), Instant::now());
        let deadline = now + self.options.lease_duration;
        let token = Bytes::from(format!("{queue}/{fencing_number}/{}", Uuid::new_v4()));
        let entry = self.queues.get_mut(queue)?.jobs.get_mut(&key)?;
        entry.lease = Some(token.clone());
        entry.job.state = raw::JobState::Leased.into();
        entry.job.fencing_number = fencing_number;
        entry.job.holder = worker_id.to_owned();
        let job = entry.job.clone();
        self.seen.delivered.push(key.clone());
        let worker_id = worker_id.to_owned();
        let lease = Lease {
            queue: queue.to_owned(),
            key,
            deadline,
            session,
            worker_id,
        };
        self.leases.insert(token.clone(), lease);
        Some(raw::Delivery {
            lease_token: token,
            fencing_number,
            attempt: job.attempt,
            job: Some(job),
            time_left: left(deadline, now),
        })
    }

    /// Ends a lease; its job is neither leased nor ready afterwards.
    pub(super) fn take_lease(&mut self, token: &Bytes) -> Option<Lease> {
        let lease = self.leases.remove(token)?;
        if let Some(entry) = self.entry(&lease.queue, &lease.key) {
            entry.lease = None;
            entry.job.holder.clear();
            entry.job.state = raw::JobState::Queued.into();
        }
        Some(lease)
    }

    pub(super) fn entry(&mut self, queue: &str, key: &str) -> Option<&mut Entry> {
        self.queues.get_mut(queue)?.jobs.get_mut(key)
    }

    /// Extends a lease. False: there is none.
    pub(super) fn extend(&mut self, token: &Bytes) -> Option<Instant> {
        let deadline = Instant::now() + self.options.lease_duration;
        let lease = self.leases.get_mut(token)?;
        lease.deadline = deadline;
        Some(deadline)
    }

    /// A session's stream has ended: its leases run out sooner where there is a grace.
    pub(super) fn start_grace(&mut self, session: u64) {
        let Some(grace) = self.options.disconnect_grace else {
            return;
        };
        let latest = Instant::now() + grace;
        let stranded = self
            .leases
            .values_mut()
            .filter(|lease| lease.session == Some(session));
        stranded.for_each(|lease| lease.deadline = lease.deadline.min(latest));
    }

    /// Goes on with the leases that a new session shows, and hands back those of its worker that it does not.
    pub(super) fn resume(
        &mut self,
        session: u64,
        hello: &raw::Hello,
    ) -> (Vec<raw::ResumedLease>, Vec<raw::LostLease>) {
        let (mut resumed, mut lost) = (Vec::new(), Vec::new());
        let now = Instant::now();
        for token in &hello.held_leases {
            let lease_token = token.clone();
            match self.leases.get_mut(token) {
                Some(lease) => {
                    lease.session = Some(session);
                    resumed.push(raw::ResumedLease {
                        lease_token,
                        time_left: left(lease.deadline, now),
                    });
                }
                None => lost.push(raw::LostLease {
                    lease_token,
                    reason: raw::LostReason::Expired.into(),
                }),
            }
        }
        let stranded = self.leases.iter().filter(|(_, lease)| {
            lease.worker_id == hello.worker_id && lease.session != Some(session)
        });
        let stranded: Vec<Bytes> = stranded.map(|(token, _)| token.clone()).collect();
        stranded.iter().for_each(|token| self.hand_back(token));
        (resumed, lost)
    }

    pub(super) fn hand_back(&mut self, token: &Bytes) {
        if let Some(lease) = self.take_lease(token)
            && let Some(queue) = self.queues.get_mut(&lease.queue)
        {
            queue.ready.push_front(lease.key);
        }
    }

    /// Takes a lease away from its holder.
    pub(super) fn lose_lease(
        &mut self,
        queue: &str,
        key: &str,
        reason: raw::LostReason,
        tell: bool,
    ) {
        let Some(token) = self.entry(queue, key).and_then(|entry| entry.lease.clone()) else {
            return;
        };
        let Some(lease) = self.take_lease(&token) else {
            return;
        };
        if reason == raw::LostReason::Cancelled {
            self.queues
                .get_mut(queue)
                .and_then(|queue| queue.jobs.remove(key));
        } else if let Some(queue) = self.queues.get_mut(queue) {
            queue.ready.push_back(key.to_owned());
        }
        if tell {
            self.tell_lost(&lease, token, reason);
        }
    }

    fn tell_lost(&mut self, lease: &Lease, lease_token: Bytes, reason: raw::LostReason) {
        let Some(session) = lease.session else { return };
        let lost = raw::LostLease {
            lease_token,
            reason: reason.into(),
        };
        self.send(
            session,
            Down::LeasesLost(raw::LeasesLost { leases: vec![lost] }),
        );
    }

    /// Sends to a session, unless the script says silence.
    pub(super) fn send(&mut self, session: u64, message: Down) {
        if self.script.silent {
            return;
        }
        if let Some(session) = self.sessions.get(&session) {
            // A session whose stream has gone is about to be removed.
            let _ = session.outbound.send(Ok(raw::LeaseResponse {
                message: Some(message),
            }));
        }
    }
}
