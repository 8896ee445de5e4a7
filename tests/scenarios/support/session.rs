//! A worker session, message by message.

use super::*;

/// A session that does only what it is told: no heartbeats, no settlements of its own.
pub(crate) struct Session {
    up: mpsc::Sender<proto::LeaseRequest>,
    pub(super) down: Streaming<proto::LeaseResponse>,
    /// The answer to Hello.
    pub(crate) welcome: proto::Welcome,
    beats: u64,
    waiting: VecDeque<Down>,
}

/// A Hello for one queue.
pub(crate) fn hello(worker: &str, queue: &str, capacity: u32) -> proto::Hello {
    let subscription = proto::QueueSubscription {
        queue: queue.into(),
        weight: 1,
    };
    proto::Hello {
        worker_id: worker.into(),
        queues: vec![subscription],
        capacity,
        ..proto::Hello::default()
    }
}

impl Session {
    /// Opens a session. A server that says "not now" is asked again, as every worker does: a cluster that was just
    /// formed may not make a queue's streams in time.
    pub(crate) async fn open(client: &mut Client, hello: proto::Hello) -> Self {
        eventually_some(3 * SOON, "a Welcome", async || {
            match Self::try_open(client, hello.clone()).await {
                Ok(session) => Some(session),
                Err(status) if status.code() == tonic::Code::Unavailable => None,
                Err(status) => panic!("a session was refused: {status:?}"),
            }
        })
        .await
    }

    /// Opens a session, or answers what the server said instead of Welcome.
    pub(crate) async fn try_open(client: &mut Client, hello: proto::Hello) -> Result<Self, Status> {
        let (up, rx) = mpsc::channel(1_024);
        let first = proto::LeaseRequest {
            message: Some(Up::Hello(hello)),
        };
        up.send(first).await.expect("room for Hello");
        let mut down = client.lease(ReceiverStream::new(rx)).await?.into_inner();
        match timeout(SOON, down.message())
            .await
            .expect("Welcome in time")?
        {
            Some(proto::LeaseResponse {
                message: Some(Down::Welcome(welcome)),
            }) => Ok(Self {
                up,
                down,
                welcome,
                beats: 0,
                waiting: VecDeque::new(),
            }),
            other => panic!("something other than Welcome: {other:?}"),
        }
    }

    /// Sends a message.
    pub(crate) async fn send(&self, message: Up) {
        let request = proto::LeaseRequest {
            message: Some(message),
        };
        self.up
            .send(request)
            .await
            .expect("a stream that takes messages");
    }

    /// Sends a message; false where the stream has ended.
    pub(crate) async fn offer(&self, message: Up) -> bool {
        let message = Some(message);
        self.up.send(proto::LeaseRequest { message }).await.is_ok()
    }

    /// The next message, or how the stream ended: `None` is an end without an error.
    pub(crate) async fn next(&mut self) -> Result<Option<Down>, Status> {
        if let Some(message) = self.waiting.pop_front() {
            return Ok(Some(message));
        }
        let message = timeout(SOON, self.down.message())
            .await
            .expect("a message in time")?;
        Ok(message.and_then(|response| response.message))
    }

    /// The first message that `pick` takes; others wait for their turn.
    pub(crate) async fn wait_for<T>(&mut self, mut pick: impl FnMut(&Down) -> Option<T>) -> T {
        for at in 0..self.waiting.len() {
            if let Some(found) = pick(&self.waiting[at]) {
                self.waiting.remove(at);
                return found;
            }
        }
        loop {
            let next = timeout(SOON, self.down.message())
                .await
                .expect("a message in time");
            let message = next
                .expect("a stream without an error")
                .and_then(|r| r.message);
            let message = message.expect("a stream that goes on");
            match pick(&message) {
                Some(found) => return found,
                None => self.waiting.push_back(message),
            }
        }
    }

    /// The next deliveries.
    pub(crate) async fn deliveries(&mut self) -> Vec<Delivery> {
        self.wait_for(|message| match message {
            Down::Deliveries(list) => Some(list.deliveries.clone()),
            _ => None,
        })
        .await
    }

    /// The next delivery, which must come alone.
    pub(crate) async fn delivery(&mut self) -> Delivery {
        let mut deliveries = self.deliveries().await;
        assert_eq!(deliveries.len(), 1, "one delivery: {deliveries:?}");
        deliveries.remove(0)
    }

    /// Forgets deliveries that have come and were not asked for yet.
    pub(crate) fn deliveries_before_now(&mut self) {
        self.waiting
            .retain(|message| !matches!(message, Down::Deliveries(_)));
    }

    /// Whether nothing is delivered for so long.
    pub(crate) async fn nothing_for(&mut self, time: Duration) -> bool {
        timeout(time, self.deliveries()).await.is_err()
    }

    /// Sends a heartbeat and answers what it says is lost.
    pub(crate) async fn beat(&mut self, tokens: &[&Bytes]) -> Vec<LostLease> {
        self.beats += 1;
        let sequence = self.beats;
        let lease_tokens = tokens.iter().map(|token| (*token).clone()).collect();
        self.send(Up::Heartbeat(proto::LeaseHeartbeat {
            sequence,
            lease_tokens,
        }))
        .await;
        self.wait_for(|message| match message {
            Down::HeartbeatAck(ack) if ack.sequence == sequence => Some(ack.lost.clone()),
            _ => None,
        })
        .await
    }

    /// Sends a heartbeat and answers all that is said to it.
    pub(crate) async fn beat_ack(&mut self, tokens: &[Bytes]) -> proto::HeartbeatAck {
        self.beats += 1;
        let sequence = self.beats;
        let lease_tokens = tokens.to_vec();
        self.send(Up::Heartbeat(proto::LeaseHeartbeat {
            sequence,
            lease_tokens,
        }))
        .await;
        self.wait_for(|message| match message {
            Down::HeartbeatAck(ack) if ack.sequence == sequence => Some(ack.clone()),
            _ => None,
        })
        .await
    }

    /// Goes on with heartbeats for these leases until what is answered is dropped. With none, the stream
    /// lives while its leases run out.
    pub(crate) fn keep_beating(&self, lease_tokens: Vec<Bytes>) -> JoinSet<()> {
        const APART: u64 = 1 << 32;
        let interval = unwire(self.welcome.heartbeat_interval.as_ref()) / 2;
        let up = self.up.clone();
        let mut beating = JoinSet::new();
        beating.spawn(async move {
            for sequence in APART.. {
                let lease_tokens = lease_tokens.clone();
                let beat = Up::Heartbeat(proto::LeaseHeartbeat {
                    sequence,
                    lease_tokens,
                });
                let message = Some(beat);
                if up.send(proto::LeaseRequest { message }).await.is_err() {
                    return;
                }
                tokio::time::sleep(interval).await;
            }
        });
        beating
    }

    /// The next deliveries, until there are so many.
    pub(crate) async fn deliveries_of(&mut self, count: usize) -> Vec<Delivery> {
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            all.extend(self.deliveries().await);
        }
        assert_eq!(all.len(), count, "as many deliveries as there are jobs");
        all
    }

    /// What is delivered until `time` is over.
    pub(crate) async fn deliveries_for(&mut self, time: Duration) -> Vec<Delivery> {
        let (mut all, end) = (Vec::new(), Instant::now() + time);
        while let Ok(more) = timeout_at(end, self.deliveries()).await {
            all.extend(more);
        }
        all
    }

    /// Settles a lease and answers the outcome.
    pub(crate) async fn settle(&mut self, token: &Bytes, outcome: Outcome) -> SettlementOutcome {
        let settlements = vec![settlement(token, outcome)];
        self.send(Up::Settlements(proto::Settlements { settlements }))
            .await;
        self.wait_for(|message| match message {
            Down::SettlementResults(list) => list
                .results
                .iter()
                .find(|r| r.lease_token == *token)
                .map(|r| r.outcome()),
            _ => None,
        })
        .await
    }

    /// Leases that the server says are lost.
    pub(crate) async fn lost(&mut self) -> Vec<LostLease> {
        self.wait_for(|message| match message {
            Down::LeasesLost(list) => Some(list.leases.clone()),
            _ => None,
        })
        .await
    }

    /// Closes this side of the stream.
    pub(crate) fn close(self) {
        drop(self);
    }
}

impl Session {
    /// As [`Session::wait_for`], but `None` when nothing that `pick` takes comes within this time.
    pub(crate) async fn within<T>(
        &mut self,
        time: Duration,
        pick: impl FnMut(&Down) -> Option<T>,
    ) -> Option<T> {
        timeout(time, self.wait_for(pick)).await.ok()
    }

    /// The next deliveries, with heartbeats that list nothing until they come: a session that waits for
    /// longer than its liveness timeout needs them.
    pub(crate) async fn beating(&mut self) -> Vec<Delivery> {
        const EVERY: Duration = Duration::from_millis(500);
        let waits = SOON.as_millis() * 2 / EVERY.as_millis();
        for _ in 0..waits {
            let deliveries = self
                .within(EVERY, |message| match message {
                    Down::Deliveries(list) => Some(list.deliveries.clone()),
                    _ => None,
                })
                .await;
            if let Some(deliveries) = deliveries {
                return deliveries;
            }
            self.beat(&[]).await;
        }
        panic!("no delivery comes");
    }

    /// As [`Session::beating`], for a delivery that must come alone.
    pub(crate) async fn beating_delivery(&mut self) -> Delivery {
        let mut deliveries = self.beating().await;
        assert_eq!(deliveries.len(), 1, "one delivery: {deliveries:?}");
        deliveries.remove(0)
    }
}
