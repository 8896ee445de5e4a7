//! What leases are checked against: who holds which job, and until when.

use super::*;

/// What the workers of a test hold, as they were told, and whatever they were told that must not be.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    held: Mutex<HashMap<String, Holding>>,
    settled: Mutex<HashMap<String, u32>>,
    asked: Mutex<HashSet<String>>,
    faults: Mutex<Vec<String>>,
}

#[derive(Clone, Debug)]
struct Holding {
    fencing: u64,
    worker: String,
    /// No later than the deadline that the server told.
    until: Instant,
}

impl Ledger {
    /// Nobody may be given a key while another's lease holds, and fencing numbers grow.
    fn granted(&self, worker: &str, delivery: &Delivery, until: Instant) {
        let (key, now) = (key_of(delivery), Instant::now());
        let fencing = delivery.fencing_number;
        let holding = Holding {
            fencing,
            worker: worker.into(),
            until,
        };
        let before = self.held.lock().expect("held").insert(key.clone(), holding);
        if let Some(before) = before
            && (before.until > now || before.fencing >= fencing)
        {
            let early = before.until.saturating_duration_since(now);
            self.fault(format!(
                "{key} went to {worker} as {fencing}, {early:?} before the end of {} with {}",
                before.fencing, before.worker
            ));
        }
    }

    fn extended(&self, key: &str, fencing: u64, until: Instant) {
        if let Some(holding) = self.held.lock().expect("held").get_mut(key)
            && holding.fencing == fencing
        {
            holding.until = holding.until.max(until);
        }
    }

    /// No lease is lost before its deadline.
    fn lost(&self, key: &str, fencing: u64, how: &str) {
        let holding = self.held.lock().expect("held").get(key).cloned();
        if let Some(holding) = holding
            && holding.fencing == fencing
        {
            let early = holding.until.saturating_duration_since(Instant::now());
            if !early.is_zero() {
                self.fault(format!("{key} was lost {early:?} too early: {how}"));
            }
        }
    }

    fn settled(&self, key: &str, fencing: u64) {
        let mut held = self.held.lock().expect("held");
        if let Some(holding) = held.get_mut(key)
            && holding.fencing == fencing
        {
            holding.until = Instant::now();
        }
        drop(held);
        let mut settled = self.settled.lock().expect("settled");
        *settled.entry(key.into()).or_default() += 1;
    }

    /// A settlement was sent: its answer may get lost.
    fn asked(&self, key: &str) {
        self.asked.lock().expect("asked").insert(key.into());
    }

    fn fault(&self, fault: String) {
        self.faults.lock().expect("faults").push(fault);
    }

    /// How often each key was settled.
    pub(crate) fn settlements(&self) -> HashMap<String, u32> {
        self.settled.lock().expect("settled").clone()
    }

    /// Whether a key was settled, as far as its worker can know.
    pub(crate) fn asked_for(&self, key: &str) -> bool {
        self.asked.lock().expect("asked").contains(key)
    }

    /// Fails the test where a worker was told what must not be.
    pub(crate) fn check(&self) {
        let faults = self.faults.lock().expect("faults");
        assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
    }
}

/// A worker that does as an SDK should: it extends what it holds, goes on with it at another server when
/// its stream breaks, and settles each lease after a while. Tells the ledger all that it is told.
#[derive(Clone)]
pub(crate) struct Careful {
    pub(crate) name: String,
    pub(crate) queue: String,
    pub(crate) endpoints: Vec<String>,
    pub(crate) capacity: u32,
    /// The longest time that it keeps a job.
    pub(crate) longest: Duration,
    pub(crate) ledger: Arc<Ledger>,
}

/// One lease of a [`Careful`].
struct Kept {
    key: String,
    fencing: u64,
    done_at: Instant,
    until: Instant,
    settling: bool,
}

impl Careful {
    /// Works until it is dropped, which is like a SIGKILL.
    pub(crate) fn start(self) -> JoinSet<()> {
        let mut working = JoinSet::new();
        working.spawn(async move {
            let (mut kept, mut ticket) = (HashMap::new(), Bytes::new());
            for at in 0.. {
                let endpoint = &self.endpoints[at % self.endpoints.len()];
                let now = Instant::now();
                kept.retain(|_, k: &mut Kept| k.until > now);
                if let Some(session) = self.open(endpoint, &mut kept, &ticket).await {
                    self.serve(session, &mut kept, &mut ticket).await;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        working
    }

    async fn open(
        &self,
        endpoint: &str,
        kept: &mut HashMap<Bytes, Kept>,
        ticket: &Bytes,
    ) -> Option<Session> {
        let channel = Channel::from_shared(endpoint.to_owned()).ok()?;
        let mut client = WorkQueueClient::new(channel.connect().await.ok()?);
        let hello = proto::Hello {
            held_leases: kept.keys().cloned().collect(),
            session_ticket: ticket.clone(),
            ..hello(&self.name, &self.queue, self.capacity)
        };
        let opening = Session::try_open(&mut client, hello);
        let session = timeout(SOON, opening).await.ok()?.ok()?;
        for lost in &session.welcome.lost {
            self.lost(kept, &lost.lease_token, "at Hello");
        }
        for lease in kept.values_mut() {
            lease.settling = false;
        }
        Some(session)
    }

    async fn serve(
        &self,
        mut session: Session,
        kept: &mut HashMap<Bytes, Kept>,
        ticket: &mut Bytes,
    ) {
        let term = unwire(session.welcome.queues[0].lease_duration.as_ref());
        *ticket = session.welcome.session_ticket.clone();
        let mut ticks = tokio::time::interval(term / 8);
        let mut beats: HashMap<u64, (Instant, Vec<Bytes>)> = HashMap::new();
        for beat in 0.. {
            let message = tokio::select! {
                _ = ticks.tick() => {
                    let now = Instant::now();
                    kept.retain(|_, k| k.settling || k.until > now);
                    let held = kept.iter().filter(|(_, k)| !k.settling);
                    let lease_tokens: Vec<Bytes> = held.map(|(token, _)| token.clone()).collect();
                    beats.insert(beat, (now, lease_tokens.clone()));
                    let beating = proto::LeaseHeartbeat { sequence: beat, lease_tokens };
                    let due = kept.iter_mut().filter(|(_, k)| !k.settling && k.done_at <= now);
                    let settlements = due.map(|(token, k)| {
                        k.settling = true;
                        self.ledger.asked(&k.key);
                        settlement(token, complete())
                    });
                    let settlements = proto::Settlements { settlements: settlements.collect() };
                    if !session.offer(Up::Heartbeat(beating)).await
                        || !session.offer(Up::Settlements(settlements)).await
                    {
                        return;
                    }
                    continue;
                }
                message = session.down.message() => message,
            };
            let Ok(Some(proto::LeaseResponse {
                message: Some(message),
            })) = message
            else {
                return;
            };
            match message {
                Down::Deliveries(list) => self.take(kept, list.deliveries),
                Down::HeartbeatAck(ack) => {
                    *ticket = ack.session_ticket;
                    for lost in &ack.lost {
                        self.lost(kept, &lost.lease_token, "at a heartbeat");
                    }
                    let (sent, tokens) = beats.remove(&ack.sequence).expect("a heartbeat of ours");
                    for token in tokens.iter().filter(|t| !ack.unconfirmed.contains(t)) {
                        // A lease that is being settled is not extended.
                        if let Some(k) = kept.get_mut(token).filter(|k| !k.settling) {
                            k.until = k.until.max(sent + term);
                            self.ledger.extended(&k.key, k.fencing, k.until);
                        }
                    }
                }
                Down::LeasesLost(list) => {
                    for lost in &list.leases {
                        self.lost(kept, &lost.lease_token, "pushed");
                    }
                }
                Down::SettlementResults(list) => {
                    for result in &list.results {
                        self.settled(kept, &result.lease_token, result.outcome());
                    }
                }
                Down::GoAway(_) => return,
                Down::Welcome(_) | Down::DrainAck(_) => {}
            }
        }
    }

    fn take(&self, kept: &mut HashMap<Bytes, Kept>, deliveries: Vec<Delivery>) {
        // What the message took on its way is not known: the margin is more than that.
        const ON_THE_WAY: Duration = Duration::from_millis(700);
        for delivery in deliveries {
            let now = Instant::now();
            let left = unwire(delivery.time_left.as_ref()).saturating_sub(ON_THE_WAY);
            self.ledger.granted(&self.name, &delivery, now + left);
            let lease = Kept {
                key: key_of(&delivery),
                fencing: delivery.fencing_number,
                done_at: now + self.longest.mul_f64(rand::random()),
                until: now + left,
                settling: false,
            };
            kept.insert(delivery.lease_token, lease);
        }
    }

    fn lost(&self, kept: &mut HashMap<Bytes, Kept>, token: &Bytes, how: &str) {
        // One that is being settled may have ended so.
        if kept.get(token).is_none_or(|k| k.settling) {
            return;
        }
        if let Some(lease) = kept.remove(token) {
            self.ledger.lost(&lease.key, lease.fencing, how);
        }
    }

    fn settled(&self, kept: &mut HashMap<Bytes, Kept>, token: &Bytes, outcome: SettlementOutcome) {
        if outcome == SettlementOutcome::TryAgain {
            if let Some(lease) = kept.get_mut(token) {
                lease.settling = false;
            }
            return;
        }
        let Some(lease) = kept.remove(token) else {
            return;
        };
        match outcome {
            SettlementOutcome::Settled | SettlementOutcome::AlreadySettled => {
                self.ledger.settled(&lease.key, lease.fencing);
            }
            other => self
                .ledger
                .lost(&lease.key, lease.fencing, other.as_str_name()),
        }
    }
}
