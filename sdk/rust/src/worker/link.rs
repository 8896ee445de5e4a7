//! The stream to a server: waiting to connect, connecting, opening, open.
//!
//! This module owns the connection and its silence; it neither reads nor makes what goes over it.

use std::{
    future::pending,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::{
    client::{self, Options, Transport},
    raw::{LeaseRequest, LeaseResponse, work_queue_client::WorkQueueClient},
};

/// How long a server may take from the first packet to its Welcome.
pub(crate) const WELCOME_WITHIN: Duration = Duration::from_secs(10);
/// How long the server may take to end a stream that we have ended.
const CLOSE_WITHIN: Duration = Duration::from_millis(500);
/// Messages that HTTP/2 has not taken yet: room for the heartbeats of the largest session, which come in parts.
const OUTBOUND: usize = 16;

type Client = WorkQueueClient<Transport>;
type Inbound = Streaming<LeaseResponse>;

enum State {
    Down {
        until: Instant,
    },
    Connecting(BoxFuture<'static, Result<Client, Status>>),
    Connected(Box<Client>),
    Opening(
        BoxFuture<'static, Result<Inbound, Status>>,
        mpsc::Sender<LeaseRequest>,
    ),
    Open(Box<Inbound>, mpsc::Sender<LeaseRequest>),
    Closed,
}

/// What happened on the link.
pub(crate) enum LinkEvent {
    /// Connected: the driver is to open the stream with its Hello.
    Connected,
    /// The server said something.
    Message(LeaseResponse),
    /// There is room for another message.
    Room,
    /// The stream, or the try to open one, ended. None: with the status OK.
    Ended(Option<Status>),
}

pub(crate) struct Link {
    state: State,
    options: Options,
    /// Which server: grows with every try.
    number: usize,
    /// When the silence of the server becomes the end of the stream.
    deadline: Instant,
}

impl Link {
    pub(crate) fn new(options: Options, now: Instant) -> Self {
        // Workers of one fleet start at different servers.
        let number = rand::random_range(0..options.endpoints.len());
        Self {
            state: State::Down { until: now },
            options,
            number,
            deadline: now,
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        let endpoints = &self.options.endpoints;
        client::server_name(&endpoints[self.number % endpoints.len()])
    }

    /// When the driver has to look at the link, whatever happens on it.
    pub(crate) fn wake(&self) -> Option<Instant> {
        match self.state {
            State::Down { until } => Some(until),
            State::Closed => None,
            State::Connecting(_) | State::Connected(_) | State::Opening(..) | State::Open(..) => {
                Some(self.deadline)
            }
        }
    }

    pub(crate) fn is_due_to_connect(&self, now: Instant) -> bool {
        matches!(self.state, State::Down { until } if until <= now)
    }

    pub(crate) fn is_too_silent(&self, now: Instant) -> bool {
        !matches!(self.state, State::Down { .. } | State::Closed) && self.deadline <= now
    }

    /// Connects to the server in turn, over a connection of its own.
    pub(crate) fn connect(&mut self, now: Instant) {
        let (options, number) = (self.options.clone(), self.number);
        let connecting = async move { client::connect(&options, number).await };
        self.state = State::Connecting(connecting.boxed());
        self.deadline = now + WELCOME_WITHIN;
    }

    /// Opens the stream; `hello` is its first message.
    pub(crate) fn open(&mut self, hello: LeaseRequest) {
        let State::Connected(client) = &self.state else {
            return;
        };
        let (sender, receiver) = mpsc::channel(OUTBOUND);
        // There is room: nothing was sent before.
        let _ = sender.try_send(hello);
        let mut client = client.clone();
        let opening = async move {
            let response = client.lease(ReceiverStream::new(receiver)).await?;
            Ok(response.into_inner())
        };
        self.state = State::Opening(opening.boxed(), sender);
    }

    /// The server was heard; it may be silent for this long from now on.
    pub(crate) fn heard(&mut self, now: Instant, liveness: Duration) {
        self.deadline = now + liveness;
    }

    /// A session has been asked for, and may hold leases that have not arrived here.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.state, State::Opening(..) | State::Open(..))
    }

    /// Waits for the server no longer than until then.
    pub(crate) fn hurry(&mut self, until: Instant) {
        self.deadline = self.deadline.min(until);
    }

    /// Sends a message if there is room.
    pub(crate) fn send(&self, message: LeaseRequest) -> bool {
        self.open_sender()
            .is_some_and(|sender| sender.try_send(message).is_ok())
    }

    pub(crate) fn has_room(&self) -> bool {
        self.open_sender()
            .is_some_and(|sender| sender.capacity() > 0)
    }

    fn open_sender(&self) -> Option<&mpsc::Sender<LeaseRequest>> {
        if let State::Open(_, sender) = &self.state {
            Some(sender)
        } else {
            None
        }
    }

    /// Drops the connection; the next server's turn comes at `until`.
    pub(crate) fn down(&mut self, until: Instant) {
        self.number = self.number.wrapping_add(1);
        self.state = State::Down { until };
    }

    /// Ends our half of the stream, waits a moment for the server's, and never connects again.
    pub(crate) async fn close(&mut self) {
        if let State::Open(mut inbound, sender) = std::mem::replace(&mut self.state, State::Closed)
        {
            drop(sender);
            let rest = async { while let Ok(Some(_)) = inbound.message().await {} };
            let _ = timeout(CLOSE_WITHIN, rest).await;
        }
    }

    /// Drops the connection and never connects again.
    pub(crate) fn close_now(&mut self) {
        self.state = State::Closed;
    }

    /// Waits for the next event. Dropping the future loses nothing. `want_room` asks for [`LinkEvent::Room`].
    pub(crate) async fn next(&mut self, want_room: bool) -> LinkEvent {
        match &mut self.state {
            State::Down { .. } | State::Connected(_) | State::Closed => pending().await,
            State::Connecting(connecting) => match connecting.await {
                Ok(client) => {
                    self.state = State::Connected(Box::new(client));
                    LinkEvent::Connected
                }
                Err(status) => LinkEvent::Ended(Some(status)),
            },
            State::Opening(opening, sender) => match opening.await {
                Ok(inbound) => {
                    self.state = State::Open(Box::new(inbound), sender.clone());
                    LinkEvent::Room
                }
                Err(status) => LinkEvent::Ended(Some(status)),
            },
            State::Open(inbound, sender) => tokio::select! {
                biased;
                message = inbound.message() => match message {
                    Ok(Some(message)) => LinkEvent::Message(message),
                    Ok(None) => LinkEvent::Ended(None),
                    Err(status) => LinkEvent::Ended(Some(status)),
                },
                // An error means that the outbound half is gone; the inbound one will say why.
                Ok(_) = sender.reserve(), if want_room => LinkEvent::Room,
            },
        }
    }
}
