//! Requests to NATS, pipelined over one inbox.
//!
//! Sending never waits: a request takes a slot, goes to the connection, and its answer comes back
//! through the slot, as one future or as one entry of a caller's [`Completions`]. Slots carry a
//! generation, so an answer that comes after its time is recognised and dropped; time-outs are one
//! sweep, not a timer a request.

use std::{sync::Arc, time::Duration};

use async_nats::{Client, HeaderMap, Message, Subscriber, connection::State};
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use slab::Slab;
use tokio::{
    sync::{mpsc, oneshot},
    task::coop::unconstrained,
    time::{Instant, interval},
};

use crate::{api::Failure, digits, tasks::Tasks};

/// Most requests of one connection that wait for their answers.
pub(crate) const IN_FLIGHT: usize = 65_536;
const SWEEP_EVERY: Duration = Duration::from_millis(200);
const CHUNK: usize = 512;

/// An answer's payload, or why there is none.
#[derive(Debug)]
pub struct Reply(pub(crate) Result<Bytes, Failure>);

enum Sink {
    One(oneshot::Sender<Reply>),
    Many(Ticket),
}

impl Sink {
    /// Delivers the answer. Whoever asked may have gone: then it is dropped.
    fn fill(self, reply: Reply) {
        match self {
            Self::One(tx) => drop(tx.send(reply)),
            Self::Many(ticket) => drop(ticket.tx.send((ticket.tag, reply))),
        }
    }
}

/// Where the answer of one request goes: see [`Completions::ticket`].
#[derive(Debug)]
pub struct Ticket {
    tx: mpsc::UnboundedSender<(usize, Reply)>,
    tag: usize,
}

/// Many requests' answers in one place, each with what its caller wanted to remember.
///
/// The channel is unbounded because every entry belongs to a request in flight, and those are bounded.
#[derive(Debug)]
pub struct Completions<T> {
    tx: mpsc::UnboundedSender<(usize, Reply)>,
    rx: mpsc::UnboundedReceiver<(usize, Reply)>,
    waiting: Slab<T>,
    ready: Vec<(usize, Reply)>,
}

impl<T> Default for Completions<T> {
    fn default() -> Self {
        let (tx, rx) = mpsc::unbounded_channel();
        Self {
            tx,
            rx,
            waiting: Slab::new(),
            ready: Vec::new(),
        }
    }
}

impl<T> Completions<T> {
    /// A ticket for one request, remembering `what` until its answer is there.
    pub fn ticket(&mut self, what: T) -> Ticket {
        self.remember(what).0
    }

    /// A ticket for one request, and what is remembered until its answer is there.
    pub fn remember(&mut self, what: T) -> (Ticket, &T) {
        let tag = self.waiting.insert(what);
        let tx = self.tx.clone();
        (Ticket { tx, tag }, &self.waiting[tag])
    }

    /// How many answers are still to come.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no answer is to come.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Waits for answers and takes all that are there. Can be dropped while it waits, and loses nothing.
    pub async fn ready(&mut self) -> Vec<(T, Reply)> {
        self.rx.recv_many(&mut self.ready, CHUNK).await;
        let waiting = &mut self.waiting;
        self.ready
            .drain(..)
            .map(|(tag, reply)| (waiting.remove(tag), reply))
            .collect()
    }
}

struct Slot {
    generation: u32,
    expires: Instant,
    sink: Sink,
}

#[derive(Default)]
struct Slots {
    slab: Slab<Slot>,
    generation: u32,
}

/// One connection's requests.
#[derive(Clone)]
pub struct Requester {
    client: Client,
    inbox: Arc<str>,
    slots: Arc<Mutex<Slots>>,
}

impl std::fmt::Debug for Requester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requester")
            .field("inbox", &self.inbox)
            .finish_non_exhaustive()
    }
}

impl Requester {
    /// Starts the tasks that read answers and give up on those that are late.
    pub(crate) async fn start(
        client: Client,
        tasks: &Tasks,
    ) -> Result<Self, async_nats::SubscribeError> {
        let inbox: Arc<str> = client.new_inbox().into();
        let answers = client.subscribe(format!("{inbox}.*")).await?;
        let requester = Self {
            client,
            inbox,
            slots: Arc::default(),
        };
        tasks.start_below("nats-answers", read(answers, requester.slots.clone()));
        tasks.start_below("nats-timeouts", sweep(requester.slots.clone()));
        Ok(requester)
    }

    /// Whether the connection is up.
    pub fn connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// The id of the server that requests go to.
    pub(crate) fn server_id(&self) -> String {
        self.client.server_info().server_id
    }

    /// Whether that server is one of a cluster.
    pub(crate) fn in_cluster(&self) -> bool {
        self.client.server_info().cluster.is_some()
    }

    /// Sends a request; its answer comes through the ticket's [`Completions`].
    pub(crate) fn send(
        &self,
        ticket: Ticket,
        subject: String,
        headers: Option<HeaderMap>,
        payload: Bytes,
        within: Duration,
    ) {
        self.dispatch(Sink::Many(ticket), subject, headers, payload, within);
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn request(
        &self,
        subject: String,
        headers: Option<HeaderMap>,
        payload: Bytes,
        within: Duration,
    ) -> Reply {
        let (tx, rx) = oneshot::channel();
        self.dispatch(Sink::One(tx), subject, headers, payload, within);
        rx.await.unwrap_or(Reply(Err(Failure::TimedOut)))
    }

    fn dispatch(
        &self,
        sink: Sink,
        subject: String,
        headers: Option<HeaderMap>,
        payload: Bytes,
        within: Duration,
    ) {
        if !self.connected() {
            return sink.fill(Reply(Err(Failure::NotSent)));
        }
        let (index, generation) = match self.take_slot(sink, within) {
            Ok(slot) => slot,
            Err(sink) => return sink.fill(Reply(Err(Failure::NotSent))),
        };
        let reply = self.reply_subject(index, generation);
        if !self.write(subject, reply, headers, payload) {
            let sink = self.slots.lock().take(index, generation);
            if let Some(sink) = sink {
                sink.fill(Reply(Err(Failure::NotSent)));
            }
        }
    }

    /// Names the slot below the inbox: `<index>-<generation>`.
    fn reply_subject(&self, index: usize, generation: u32) -> String {
        let mut subject = String::with_capacity(self.inbox.len() + 24);
        subject.push_str(&self.inbox);
        subject.push('.');
        digits::push(&mut subject, index as u64);
        subject.push('-');
        digits::push(&mut subject, generation.into());
        subject
    }

    /// The sink comes back where too many requests wait.
    fn take_slot(&self, sink: Sink, within: Duration) -> Result<(usize, u32), Sink> {
        let expires = Instant::now() + within;
        let mut slots = self.slots.lock();
        if slots.slab.len() >= IN_FLIGHT {
            return Err(sink);
        }
        slots.generation = slots.generation.wrapping_add(1);
        let generation = slots.generation;
        let slot = Slot {
            generation,
            expires,
            sink,
        };
        Ok((slots.slab.insert(slot), generation))
    }

    /// Hands a request to the connection, which has room for all that wait for answers and more. Answers
    /// whether it did; where there is no room nothing was sent. A caller's budget has nothing to do with it.
    fn write(
        &self,
        subject: String,
        reply: String,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> bool {
        let client = &self.client;
        let written = match headers {
            Some(headers) => unconstrained(
                client.publish_with_reply_and_headers(subject, reply, headers, payload),
            )
            .now_or_never(),
            None => {
                unconstrained(client.publish_with_reply(subject, reply, payload)).now_or_never()
            }
        };
        match written {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                // Sizes and subjects were checked before.
                tracing::warn!(%error, "failed to write a request to NATS");
                false
            }
            None => false,
        }
    }
}

async fn read(answers: Subscriber, slots: Arc<Mutex<Slots>>) {
    let mut chunks = answers.ready_chunks(CHUNK);
    while let Some(chunk) = chunks.next().await {
        let found: Vec<_> = {
            let mut slots = slots.lock();
            chunk
                .into_iter()
                .filter_map(|m| Some((slots.answered(&m)?, reply(m))))
                .collect()
        };
        for (sink, reply) in found {
            sink.fill(reply);
        }
    }
}

fn reply(message: Message) -> Reply {
    Reply(Failure::of_status(&message).map_or(Ok(message.payload), Err))
}

impl Slots {
    /// The sink that a message answers, or `None` where it comes too late.
    fn answered(&mut self, message: &Message) -> Option<Sink> {
        let mut numbers = message
            .subject
            .as_bytes()
            .rsplitn(2, |byte| !byte.is_ascii_digit());
        let generation = digits::parse(numbers.next()?)?;
        let index = digits::parse(numbers.next()?.rsplit(|byte| *byte == b'.').next()?)?;
        self.take(index.try_into().ok()?, generation.try_into().ok()?)
    }

    fn take(&mut self, index: usize, generation: u32) -> Option<Sink> {
        let current = self.slab.get(index)?;
        (current.generation == generation).then(|| self.slab.remove(index).sink)
    }

    fn take_expired(&mut self, now: Instant) -> Vec<Sink> {
        let late = |(index, slot): (usize, &Slot)| (slot.expires <= now).then_some(index);
        let late: Vec<_> = self.slab.iter().filter_map(late).collect();
        late.into_iter()
            .map(|index| self.slab.remove(index).sink)
            .collect()
    }
}

async fn sweep(slots: Arc<Mutex<Slots>>) {
    let mut ticks = interval(SWEEP_EVERY);
    loop {
        let now = ticks.tick().await;
        let late = slots.lock().take_expired(now);
        for sink in late {
            sink.fill(Reply(Err(Failure::TimedOut)));
        }
    }
}
