//! Sessions of the fake server: the `Lease` stream.

use std::{pin::Pin, time::Duration};

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

use super::{
    Fake,
    answers::bad_field,
    state::{Session, State},
    submits::is_queue_name,
};
use crate::{
    raw::{self, lease_request::Message as Up, lease_response::Message as Down},
    tasks, wire,
};

/// What the server says on a `Lease` stream.
pub(super) type LeaseStream =
    Pin<Box<dyn Stream<Item = Result<raw::LeaseResponse, Status>> + Send>>;

impl Fake {
    /// Opens a session: the answer's headers go out at once.
    pub(super) fn open(
        &self,
        inbound: Streaming<raw::LeaseRequest>,
    ) -> Result<LeaseStream, Status> {
        let refused = self.change(|state| {
            state.seen.streams += 1;
            let next = state.script.refuse_sessions.pop_front();
            next.or_else(|| state.script.refuse_all_sessions.clone())
        });
        if let Some(status) = refused {
            return Err(status);
        }
        let (outbound, receiver) = mpsc::unbounded_channel();
        let fake = self.clone();
        // Its fate: it ends with the client's half of the stream, or when the session is removed.
        drop(tasks::start(async move {
            fake.session(inbound, outbound).await
        }));
        Ok(UnboundedReceiverStream::new(receiver).boxed())
    }

    async fn session(
        &self,
        mut inbound: Streaming<raw::LeaseRequest>,
        outbound: super::state::Outbound,
    ) {
        let Ok(Some(raw::LeaseRequest {
            message: Some(Up::Hello(hello)),
        })) = inbound.message().await
        else {
            // The client has gone when this cannot be sent.
            let _ = outbound.send(Err(bad_field("hello", "comes first")));
            return;
        };
        let mut queues = hello.queues.iter();
        if let Some(at) = queues.position(|one| !is_queue_name(&one.queue)) {
            let field = format!("queues[{at}].queue");
            let refused = bad_field(&field, "must match [a-z0-9][a-z0-9_-]{0,63}");
            let _ = outbound.send(Err(refused));
            return;
        }
        let id = self.change(|state| state.hello(hello, outbound.clone()));
        drop(outbound);
        loop {
            tokio::select! {
                message = inbound.message() => match message {
                    Ok(Some(message)) => self.change(|state| state.on_message(id, message)),
                    Ok(None) | Err(_) => break,
                },
                () = self.removed(id) => break,
            }
        }
        self.change(|state| state.close(id));
    }

    /// Completes when the session is no longer one.
    async fn removed(&self, id: u64) {
        let mut changes = self.0.changed.subscribe();
        while self.0.state.lock().sessions.contains_key(&id) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

impl State {
    fn hello(&mut self, hello: raw::Hello, outbound: super::state::Outbound) -> u64 {
        let id = self.number();
        self.supersede(&hello.worker_id);
        let session = Session {
            worker_id: hello.worker_id.clone(),
            queues: hello
                .queues
                .iter()
                .map(|queue| queue.queue.clone())
                .collect(),
            capacity: hello.capacity,
            draining: false,
            outbound,
        };
        self.seen.capacity = Some(hello.capacity);
        self.seen.hellos.push(hello.clone());
        let welcomed = self.script.unwelcome_sessions == 0;
        if welcomed {
            self.sessions.insert(id, session);
            self.welcome(id, &hello);
        } else {
            // No deliveries either: it is a session that does not work.
            self.script.unwelcome_sessions -= 1;
            self.sessions.insert(
                id,
                Session {
                    capacity: 0,
                    ..session
                },
            );
        }
        self.seen.sessions = self.sessions.len();
        id
    }

    /// A newer session of a worker takes over from an older one.
    fn supersede(&mut self, worker_id: &str) {
        let older = self
            .sessions
            .iter()
            .filter(|(_, session)| session.worker_id == worker_id);
        for id in older.map(|(id, _)| *id).collect::<Vec<_>>() {
            let reason = raw::GoAwayReason::Superseded.into();
            self.send(
                id,
                Down::GoAway(raw::GoAway {
                    reason,
                    ..Default::default()
                }),
            );
            self.sessions.remove(&id);
        }
    }

    fn welcome(&mut self, id: u64, hello: &raw::Hello) {
        let (resumed, lost) = self.resume(id, hello);
        let lease = self.options.lease_duration;
        let terms = hello.queues.iter().map(|queue| raw::QueueTerms {
            queue: queue.queue.clone(),
            lease_duration: Some(wire::from_duration(lease)),
            disconnect_grace: self.options.disconnect_grace.map(wire::from_duration),
        });
        let welcome = raw::Welcome {
            session_id: id.to_string(),
            worker_id: hello.worker_id.clone(),
            queues: terms.collect(),
            heartbeat_interval: Some(wire::from_duration(lease / 3)),
            liveness_timeout: Some(wire::from_duration(lease.mul_f64(2.5 / 3.0))),
            resumed,
            lost,
            session_ticket: format!("ticket-{id}").into(),
        };
        self.send(id, Down::Welcome(welcome));
    }

    fn on_message(&mut self, id: u64, message: raw::LeaseRequest) {
        match message.message {
            Some(Up::Capacity(raw::Capacity { capacity })) => {
                self.seen.capacity = Some(capacity);
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.capacity = capacity;
                }
            }
            Some(Up::Heartbeat(heartbeat)) => self.on_heartbeat(id, &heartbeat),
            Some(Up::Settlements(settlements)) => self.on_settlements(id, settlements),
            Some(Up::Drain(_)) => {
                self.seen.drains += 1;
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.draining = true;
                }
                self.send(id, Down::DrainAck(raw::DrainAck {}));
            }
            Some(Up::Hello(_)) | None => {}
        }
    }

    fn on_heartbeat(&mut self, id: u64, heartbeat: &raw::LeaseHeartbeat) {
        self.seen.heartbeats += 1;
        if self.script.ignore_heartbeats {
            return;
        }
        let unconfirmed = self.script.unconfirmed_heartbeats;
        let confirmed = if unconfirmed {
            &[]
        } else {
            &*heartbeat.lease_tokens
        };
        let gone = confirmed
            .iter()
            .filter(|token| self.extend(token).is_none());
        let lost = gone.map(|token| raw::LostLease {
            lease_token: token.clone(),
            reason: raw::LostReason::Expired.into(),
        });
        let ack = raw::HeartbeatAck {
            sequence: heartbeat.sequence,
            lost: lost.collect(),
            session_ticket: format!("ticket-{id}-{}", heartbeat.sequence).into(),
            unconfirmed: if unconfirmed {
                heartbeat.lease_tokens.clone()
            } else {
                Vec::new()
            },
        };
        self.send(id, Down::HeartbeatAck(ack));
    }

    fn on_settlements(&mut self, id: u64, settlements: raw::Settlements) {
        self.seen.settlement_messages += 1;
        let mut results = Vec::new();
        for settlement in settlements.settlements {
            let result = self.settle(settlement);
            if self.script.unanswered_settlements > 0 {
                self.script.unanswered_settlements -= 1;
            } else {
                results.push(result);
            }
        }
        if !results.is_empty() {
            self.send(
                id,
                Down::SettlementResults(raw::SettlementResults { results }),
            );
        }
    }

    fn close(&mut self, id: u64) {
        self.sessions.remove(&id);
        self.start_grace(id);
        self.seen.sessions = self.sessions.len();
    }

    pub(super) fn end_sessions(&mut self, status: Option<&Status>) {
        for session in std::mem::take(&mut self.sessions).into_values() {
            if let Some(status) = status {
                // A stream that has gone needs no end.
                let _ = session.outbound.send(Err(status.clone()));
            }
        }
        self.seen.sessions = 0;
    }

    pub(super) fn go_away(&mut self, reason: raw::GoAwayReason, reconnect_delay: Duration) {
        let away = raw::GoAway {
            reason: reason.into(),
            grace: Some(wire::from_duration(Duration::from_secs(10))),
            reconnect_delay: Some(wire::from_duration(reconnect_delay)),
        };
        for id in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.send(id, Down::GoAway(away));
        }
    }
}
