//! What the worker says on its stream: Hello, heartbeats, settlements, its capacity, that it drains.
//!
//! Nothing here waits: what finds no room is sent when there is some.

use std::time::Instant;

use bytes::Bytes;

use super::{beats::LISTED, driver::Driver, leases::LeaseId};
use crate::raw::{self, lease_request::Message as Up};

impl Driver {
    /// Opens the session: claims every lease that is not lost.
    pub(super) fn say_hello(&mut self, now: Instant) {
        self.session.hello_sent = now;
        self.session.capacity = self.capacity();
        let hello = raw::Hello {
            worker_id: self.shared.worker_id.clone(),
            queues: self.shared.queues.clone(),
            capacity: self.session.capacity,
            held_leases: self
                .leases
                .held()
                .map(|(_, held)| held.token.clone())
                .collect(),
            session_ticket: self.session.ticket.clone(),
            protocol_version: 1,
            sdk_name: "keywork-sdk-rust".to_owned(),
            sdk_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        self.link.open(up(Up::Hello(hello)));
    }

    /// How many leases the session may hold: a slot is not free while a handler sits in it that lost its lease.
    fn capacity(&self) -> u32 {
        if self.stop.is_stopping() {
            return 0;
        }
        let free = self
            .shared
            .concurrency
            .saturating_sub(self.leases.occupied_by_lost());
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    /// Something is to be sent and there may be no room for it.
    pub(super) fn wants_room(&self, now: Instant) -> bool {
        let due = self.outbox.is_ready()
            || self.session.next_heartbeat <= now
            || self.session.capacity != self.capacity()
            || (self.stop.is_stopping() && !self.session.drain_sent);
        self.session.live && due && !self.link.has_room()
    }

    /// Sends what is due, as far as there is room.
    pub(super) fn flush(&mut self, now: Instant) {
        self.outbox.on_time(now);
        if !self.session.live {
            return;
        }
        if self.session.next_heartbeat <= now && self.link.has_room() {
            self.beat(now);
        }
        self.say_capacity();
        if self.stop.is_stopping() && !self.session.drain_sent {
            self.session.drain_sent = self.link.send(up(Up::Drain(raw::Drain {})));
        }
        // After the drain: what is given back now is not to come to this worker again.
        while self.outbox.is_ready() && self.link.has_room() {
            let settlements = self.outbox.take(&self.leases);
            if !settlements.is_empty() {
                self.link
                    .send(up(Up::Settlements(raw::Settlements { settlements })));
            }
        }
    }

    /// Heartbeats go on until the last settlement is confirmed: leases that are being settled are listed too.
    fn beat(&mut self, now: Instant) {
        let held: Vec<(LeaseId, Bytes)> = self
            .leases
            .held()
            .map(|(id, held)| (id, held.token.clone()))
            .collect();
        self.session.next_heartbeat = now + self.session.heartbeat_interval;
        if held.is_empty() {
            return self.beat_with(&[], now);
        }
        held.chunks(LISTED)
            .for_each(|part| self.beat_with(part, now));
    }

    fn beat_with(&mut self, part: &[(LeaseId, Bytes)], now: Instant) {
        let sequence = self
            .beats
            .sent(part.iter().map(|(id, _)| *id).collect(), now);
        let lease_tokens = part.iter().map(|(_, token)| token.clone()).collect();
        self.link.send(up(Up::Heartbeat(raw::LeaseHeartbeat {
            sequence,
            lease_tokens,
        })));
    }

    fn say_capacity(&mut self) {
        let capacity = self.capacity();
        if capacity != self.session.capacity
            && self.link.send(up(Up::Capacity(raw::Capacity { capacity })))
        {
            self.session.capacity = capacity;
        }
    }
}

fn up(message: Up) -> raw::LeaseRequest {
    raw::LeaseRequest {
        message: Some(message),
    }
}
