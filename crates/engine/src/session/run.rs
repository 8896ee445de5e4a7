//! Opening a session, its task, and what its end leaves behind.

use std::{collections::HashSet, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use keywork_jetstream::{Completions, Reply, clock, tasks::Fate};
use keywork_model::{UnixMillis, WorkerId, limits};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until},
};

use crate::{
    claim::Resumed,
    engine::Engine,
    error::OpenError,
    lease::Granted,
    session::{
        GoAway, GoAwayReason, Hello, Input, OpenedSession, Output, Served, Session, SessionEnd,
        SessionEvent, SettleItem, SettleResult, Terms, Welcome,
        beat::{Beat, Extension},
        outbox::Outbox,
        proofs::Proofs,
        settling::{self, Ended, Quick, Start},
    },
};

/// Messages of a worker that wait for its session's task. More wait in the stream's own window.
const INPUTS: usize = 64;
/// Messages that wait for the stream to take them. More gather in the outbox.
const OUTPUTS: usize = 4;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A request whose answer the session waits for.
enum Waiting {
    Extend(Extension),
    Settle(Quick),
}

struct Task {
    engine: Engine,
    session: Arc<Session>,
    inputs: mpsc::Receiver<Input>,
    events: mpsc::UnboundedReceiver<SessionEvent>,
    outputs: mpsc::Sender<Output>,
    outbox: Outbox,
    completions: Completions<Waiting>,
    slow: FuturesUnordered<BoxFuture<'static, SettleResult>>,
    beat: Option<Beat>,
    /// The heartbeats that came while one was under way, as one: the newest of their numbers, and whatever they list.
    next_beat: Option<(u64, HashSet<Bytes>)>,
    proofs: Proofs,
    liveness_timeout: Duration,
    heard_at: Instant,
    /// Since when there is something to send that the stream does not take.
    blocked_since: Option<Instant>,
    sent_away: Option<(Instant, GoAwayReason)>,
    draining: bool,
    /// The worker has said all: what it asked for is still done and answered.
    said_all: bool,
}

/// What happens next to a session.
enum Turn {
    Input(Option<Input>),
    Event(SessionEvent),
    Answers(Vec<(Waiting, Reply)>),
    Result(SettleResult),
    /// The stream takes a message.
    Writable,
    /// The stream is gone.
    Unread,
    Tick,
    Away(GoAwayReason),
}

/// Opens a session.
///
/// # Errors
/// Why one of its queues cannot be served.
pub(crate) async fn open(engine: &Engine, hello: Hello) -> Result<OpenedSession, OpenError> {
    for token in &hello.held {
        if let Ok(facts) = engine.secret().open_lease(token) {
            engine.close_older(&facts).await;
        }
    }
    let queues = serve(engine, &hello.queues).await?;
    let now = clock::now();
    let id: u64 = rand::random();
    let worker = hello.worker.clone().unwrap_or_else(|| made_up(id));
    let (session, events) = Session::new(id, worker, now, queues.clone(), hello.capacity);
    let (resumed, lost) = engine.claim(&session, &hello.held, &hello.ticket).await;
    engine.enter(&session, &resumed).await;
    let shortest = queues
        .iter()
        .map(|served| served.term)
        .min()
        .unwrap_or_default();
    let heartbeat_interval = shortest / limits::HEARTBEATS_PER_LEASE;
    let liveness_timeout = heartbeat_interval * 5 / 2;
    let (inputs_tx, inputs) = mpsc::channel(INPUTS);
    let (outputs, outputs_rx) = mpsc::channel(OUTPUTS);
    let (end_tx, end) = oneshot::channel();
    let mut proofs = proofs_of(&queues, &resumed, now);
    let welcome = Welcome {
        session: id,
        worker: session.worker.clone(),
        terms: queues.iter().map(terms).collect(),
        heartbeat_interval,
        liveness_timeout,
        resumed: resumed
            .into_iter()
            .map(|r| (r.token, r.time_left))
            .collect(),
        lost,
        ticket: proofs.ticket(engine),
    };
    let task = Task {
        engine: engine.clone(),
        session,
        inputs,
        events,
        outputs,
        outbox: Outbox::default(),
        completions: Completions::default(),
        slow: FuturesUnordered::new(),
        beat: None,
        next_beat: None,
        proofs,
        liveness_timeout,
        heard_at: Instant::now(),
        blocked_since: None,
        sent_away: None,
        draining: false,
        said_all: false,
    };
    engine
        .tasks()
        .start("session", Fate::OneCaller, async move {
            let end = task.run().await;
            if end_tx.send(end).is_err() {
                tracing::trace!("the stream has gone first: nobody asks why");
            }
        });
    Ok(OpenedSession {
        welcome,
        inputs: inputs_tx,
        outputs: outputs_rx,
        end,
    })
}

/// What the leases prove that a session goes on with; `before` is a time before they were claimed.
fn proofs_of(queues: &[Served], resumed: &[Resumed], before: UnixMillis) -> Proofs {
    let mut proofs = Proofs::default();
    for lease in resumed {
        if let Some(served) = queues.iter().find(|s| *s.queue.name == lease.queue) {
            let until = before.plus(lease.time_left);
            proofs.extended(&served.queue, lease.sequence, until);
        }
    }
    proofs
}

async fn serve(
    engine: &Engine,
    wanted: &[(keywork_model::QueueName, u32)],
) -> Result<Vec<Served>, OpenError> {
    let total: f64 = wanted.iter().map(|(_, weight)| f64::from(*weight)).sum();
    let mut served = Vec::with_capacity(wanted.len());
    for (name, weight) in wanted {
        let queue = engine.open_sound(name).await?;
        let term = queue.lease_duration();
        served.push(Served {
            queue,
            share: f64::from(*weight) / total,
            term,
        });
    }
    Ok(served)
}

fn terms(served: &Served) -> Terms {
    Terms {
        queue: (*served.queue.name).clone(),
        lease_duration: served.term,
        disconnect_grace: served.queue.config().disconnect_grace,
    }
}

fn made_up(id: u64) -> WorkerId {
    WorkerId::parse(&format!("worker-{id:016x}"))
        .unwrap_or_else(|_| unreachable!("a short printable name is a worker's id"))
}

impl Task {
    async fn run(mut self) -> SessionEnd {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = loop {
            match self.turn(&mut ticks).await {
                Turn::Input(Some(input)) => self.on_input(input),
                Turn::Event(event) => self.on_event(event),
                Turn::Answers(answers) => self.on_answers(answers),
                Turn::Result(result) => self.outbox.result(result),
                Turn::Writable => self.write(),
                Turn::Input(None) => self.on_said_all(),
                Turn::Unread => break SessionEnd::Closed,
                Turn::Away(reason) => break SessionEnd::SentAway(reason),
                Turn::Tick => {
                    if let Some(end) = self.look() {
                        break end;
                    }
                }
            }
            if self.is_over() {
                break SessionEnd::Closed;
            }
        };
        self.close(end);
        end
    }

    /// Waits for what is next.
    async fn turn(&mut self, ticks: &mut Interval) -> Turn {
        let away = self.sent_away;
        let away_at = away.map_or_else(Instant::now, |(at, _)| at);
        tokio::select! {
            input = self.inputs.recv(), if !self.said_all => Turn::Input(input),
            Some(event) = self.events.recv() => Turn::Event(event),
            answers = self.completions.ready() => Turn::Answers(answers),
            Some(result) = self.slow.next(), if !self.slow.is_empty() => Turn::Result(result),
            permit = self.outputs.reserve(), if !self.outbox.is_empty() => match permit {
                Ok(_) => Turn::Writable,
                Err(_) => Turn::Unread,
            },
            _ = ticks.tick() => Turn::Tick,
            () = sleep_until(away_at), if away.is_some() => {
                Turn::Away(away.map_or(GoAwayReason::Draining, |(_, reason)| reason))
            }
        }
    }

    /// Sends what waits. There is room: nobody else sends.
    fn write(&mut self) {
        self.blocked_since = None;
        if let Some(output) = self.outbox.next() {
            drop(self.outputs.try_send(output));
        }
    }

    /// Whether it is time to end.
    fn look(&mut self) -> Option<SessionEnd> {
        if self.outbox.is_empty() {
            self.blocked_since = None;
        }
        let since = self.blocked_since.get_or_insert_with(Instant::now);
        let unread = !self.outbox.is_empty() && since.elapsed() > self.liveness_timeout;
        if unread || self.outbox.overflows() {
            return Some(SessionEnd::NotReading);
        }
        let silent = !self.said_all && self.heard_at.elapsed() > self.liveness_timeout;
        silent.then_some(SessionEnd::Silent)
    }

    fn on_input(&mut self, input: Input) {
        self.heard_at = Instant::now();
        match input {
            Input::Capacity(capacity) => {
                self.session.set_capacity(capacity);
                if !self.draining {
                    self.session.refresh();
                }
            }
            Input::Heartbeat { sequence, tokens } if self.beat.is_some() => {
                let (newest, listed) = self.next_beat.get_or_insert_default();
                *newest = sequence;
                listed.extend(tokens);
            }
            Input::Heartbeat { sequence, tokens } => self.start_beat(sequence, tokens),
            Input::Settle(items) => {
                for item in items {
                    self.settle(item);
                }
            }
            Input::Drain => self.drain(),
        }
    }

    /// Nothing more comes from the worker, so nothing more is given to it. Its leases count as those of a
    /// stream that broke.
    fn on_said_all(&mut self) {
        self.said_all = true;
        self.session.close();
        self.session.leave();
        while let Ok(event) = self.events.try_recv() {
            self.on_event(event);
        }
        self.draining = true;
        let unsent = self.outbox.unsent();
        self.refuse(unsent);
        self.engine.begin_grace(&self.session);
    }

    /// Whether the worker has said all, and was told all that it asked for.
    fn is_over(&self) -> bool {
        let idle = self.completions.is_empty() && self.slow.is_empty();
        self.said_all && idle && self.outbox.is_empty()
    }

    fn on_event(&mut self, event: SessionEvent) {
        match event {
            // Chosen before the session left its queues, and told after it said that nothing more comes.
            SessionEvent::Deliver(granted) if self.draining => self.refuse(granted),
            SessionEvent::Deliver(granted) => self.outbox.deliver(granted),
            SessionEvent::Lost(lost) => self.outbox.lost(lost),
            SessionEvent::GoAway(away) => self.send_away(away),
        }
    }

    /// Gives back what the worker was never told of.
    fn refuse(&self, granted: Vec<Granted>) {
        for granted in granted {
            if let Some(queue) = self.engine.open_already(&granted.queue) {
                self.engine.hand_back(&queue, vec![granted.sequence]);
            }
        }
    }

    fn send_away(&mut self, away: GoAway) {
        if self.sent_away.is_none() {
            self.session.leave();
            self.sent_away = Some((Instant::now() + away.grace, away.reason));
            self.outbox.answer(Output::GoAway(away));
        }
    }

    /// Leaves all queues; what was given before is sent before it is said that nothing more comes.
    fn drain(&mut self) {
        self.session.leave();
        while let Ok(event) = self.events.try_recv() {
            self.on_event(event);
        }
        self.draining = true;
        self.outbox.drained();
    }

    fn settle(&mut self, item: SettleItem) {
        let started = settling::start(&self.engine, item, &mut self.completions, Waiting::Settle);
        match started {
            Start::Done(result) => self.outbox.result(result),
            Start::Quick => {}
            Start::Slow(future) => self.slow.push(future),
        }
    }

    fn start_beat(&mut self, sequence: u64, tokens: impl IntoIterator<Item = Bytes>) {
        let (mut beat, now) = (Beat::new(sequence), Instant::now());
        for token in tokens {
            if let Some(extension) = beat.look(&self.engine, &self.session, token, now) {
                beat.open += 1;
                let (n, c) = (extension.sequence, extension.consumer_sequence);
                let jobs = extension.queue.jobs.clone();
                jobs.extend(self.completions.ticket(Waiting::Extend(extension)), n, c);
            }
        }
        self.beat = Some(beat);
        self.answer_beat();
    }

    /// Answers the heartbeat when nothing of it is open, and begins the next.
    fn answer_beat(&mut self) {
        let Some(beat) = self.beat.take_if(|beat| beat.open == 0) else {
            return;
        };
        let ticket = self.proofs.ticket(&self.engine);
        self.outbox.answer(beat.answer(ticket));
        if let Some((sequence, tokens)) = self.next_beat.take() {
            self.start_beat(sequence, tokens);
        }
    }

    fn on_answers(&mut self, answers: Vec<(Waiting, Reply)>) {
        let mut ended = Ended::default();
        for (waiting, reply) in answers {
            match waiting {
                Waiting::Extend(extension) => {
                    let confirmed = reply.acked().is_ok();
                    if let Some(beat) = &mut self.beat {
                        beat.answered(&self.session, &mut self.proofs, extension, confirmed);
                    }
                }
                Waiting::Settle(quick) => {
                    match settling::finish(&self.engine, quick, reply, &mut ended) {
                        Ok(result) => self.outbox.result(result),
                        Err(slow) => self.slow.push(slow),
                    }
                }
            }
        }
        ended.give_back(&self.engine);
        self.answer_beat();
    }

    /// Ends the session. Its leases stay until their deadline, for the worker to claim, unless they were
    /// never sent, or the queue has a disconnect grace, or the worker does not read.
    fn close(mut self, end: SessionEnd) {
        self.session.close();
        self.session.leave();
        self.events.close();
        while let Ok(event) = self.events.try_recv() {
            if let SessionEvent::Deliver(granted) = event {
                self.outbox.deliver(granted);
            }
        }
        let unsent = self.outbox.unsent();
        self.refuse(unsent);
        match end {
            SessionEnd::NotReading => self.engine.hand_back_all(&self.session),
            SessionEnd::Closed | SessionEnd::Silent | SessionEnd::SentAway(_) => {
                self.engine.begin_grace(&self.session);
            }
        }
        let Self {
            engine,
            completions,
            slow,
            ..
        } = self;
        let finishing = finish_settlements(engine.clone(), completions, slow);
        engine
            .tasks()
            .start("session-leftovers", Fate::OneCaller, finishing);
    }
}

/// Settlements that are under way end, whether or not anybody waits for their result.
async fn finish_settlements(
    engine: Engine,
    mut completions: Completions<Waiting>,
    mut slow: FuturesUnordered<BoxFuture<'static, SettleResult>>,
) {
    while !completions.is_empty() {
        let mut ended = Ended::default();
        for (waiting, reply) in completions.ready().await {
            if let Waiting::Settle(quick) = waiting
                && let Err(future) = settling::finish(&engine, quick, reply, &mut ended)
            {
                slow.push(future);
            }
        }
        ended.give_back(&engine);
    }
    while slow.next().await.is_some() {}
}
