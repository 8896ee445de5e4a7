//! Requests to NATS, pipelined over one inbox.
//!
//! Sending never waits: a request takes a slot, is written by one task, and its answer comes back
//! through the slot, as one future or as one entry of a caller's [`Completions`]. Slots carry a
//! generation, so an answer that comes after its time is recognised and dropped; time-outs are one
//! sweep, not a timer a request.

use std::{sync::Arc, time::Duration};

use async_nats::{Client, HeaderMap, Message, Subscriber, connection::State};
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use slab::Slab;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, interval},
};

use crate::{
    api::Failure,
    tasks::{Fate, Tasks},
};

/// Most requests of one connection that wait for their answers.
const IN_FLIGHT: usize = 65_536;
const SWEEP_EVERY: Duration = Duration::from_millis(200);
const CHUNK: usize = 512;

/// An answer, or why there is none.
#[derive(Debug)]
pub struct Reply(pub(crate) Result<Message, Failure>);

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
        Ticket {
            tx: self.tx.clone(),
            tag: self.waiting.insert(what),
        }
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

struct Outgoing {
    subject: String,
    reply: String,
    headers: Option<HeaderMap>,
    payload: Bytes,
}

/// One connection's requests.
#[derive(Clone)]
pub struct Requester {
    client: Client,
    inbox: Arc<str>,
    slots: Arc<Mutex<Slots>>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
}

impl std::fmt::Debug for Requester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requester")
            .field("inbox", &self.inbox)
            .finish_non_exhaustive()
    }
}

impl Requester {
    /// Starts the tasks that write requests and read answers.
    pub(crate) async fn start(
        client: Client,
        tasks: &Tasks,
    ) -> Result<Self, async_nats::SubscribeError> {
        let inbox: Arc<str> = client.new_inbox().into();
        let answers = client.subscribe(format!("{inbox}.*")).await?;
        // Unbounded because every entry holds a slot, and those are bounded.
        let (outgoing, to_write) = mpsc::unbounded_channel();
        let requester = Self {
            client: client.clone(),
            inbox,
            slots: Arc::default(),
            outgoing,
        };
        tasks.start("nats-writer", Fate::Vital, write(client, to_write));
        tasks.start(
            "nats-answers",
            Fate::Vital,
            read(answers, requester.slots.clone()),
        );
        tasks.start(
            "nats-timeouts",
            Fate::Vital,
            sweep(requester.slots.clone(), tasks.clone()),
        );
        Ok(requester)
    }

    /// Whether the connection is up.
    pub fn connected(&self) -> bool {
        self.client.connection_state() == State::Connected
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
        let reply = {
            let mut slots = self.slots.lock();
            if slots.slab.len() >= IN_FLIGHT {
                drop(slots);
                return sink.fill(Reply(Err(Failure::NotSent)));
            }
            slots.generation = slots.generation.wrapping_add(1);
            let generation = slots.generation;
            let expires = Instant::now() + within;
            let index = slots.slab.insert(Slot {
                generation,
                expires,
                sink,
            });
            format!("{}.{index}-{generation}", self.inbox)
        };
        let sent = self.outgoing.send(Outgoing {
            subject,
            reply,
            headers,
            payload,
        });
        debug_assert!(sent.is_ok(), "the writer lives as long as the process");
    }
}

async fn write(client: Client, mut to_write: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some(Outgoing {
        subject,
        reply,
        headers,
        payload,
    }) = to_write.recv().await
    {
        let written = match headers {
            Some(headers) => {
                client
                    .publish_with_reply_and_headers(subject, reply, headers, payload)
                    .await
            }
            None => client.publish_with_reply(subject, reply, payload).await,
        };
        if let Err(error) = written {
            // The slot's time-out tells whoever asked; sizes and subjects were checked before.
            tracing::warn!(%error, "failed to write a request to NATS");
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
                .filter_map(|m| slots.take(&m).map(|sink| (sink, m)))
                .collect()
        };
        for (sink, message) in found {
            sink.fill(Reply(Failure::of_status(&message).map_or(Ok(message), Err)));
        }
    }
}

impl Slots {
    /// The sink that a message answers, or `None` where it comes too late.
    fn take(&mut self, message: &Message) -> Option<Sink> {
        let token = message.subject.rsplit('.').next()?;
        let (index, generation) = token.split_once('-')?;
        let (index, generation) = (index.parse().ok()?, generation.parse::<u32>().ok()?);
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

async fn sweep(slots: Arc<Mutex<Slots>>, tasks: Tasks) {
    let mut ticks = interval(SWEEP_EVERY);
    loop {
        tokio::select! {
            () = tasks.stopping().cancelled() => return,
            now = ticks.tick() => {
                let late = slots.lock().take_expired(now);
                for sink in late {
                    sink.fill(Reply(Err(Failure::TimedOut)));
                }
            }
        }
    }
}
