//! What servers tell and ask each other. Nothing that matters depends on a message arriving: what is not
//! heard is found out by deadlines, or by the next look.

use std::time::Duration;

use keywork_jetstream::peers::{PeerCall, PeerInbox};
use keywork_jetstream::tasks::Fate;
use keywork_model::{QueueName, UnixMillis, WorkerId, decide::Settlement};
use serde::{Deserialize, Serialize};

use crate::{
    claim::Transferred,
    engine::Engine,
    lease::LostReason,
    session::{Asked as AskedOf, SettleItem},
    settle::Outcome,
    upkeep,
};

/// How long an answer of a peer is waited for.
const ASK_WITHIN: Duration = Duration::from_millis(1_000);
/// How long anybody at all has to say something.
const ANYBODY_WITHIN: Duration = Duration::from_millis(250);

/// One message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PeerMessage {
    /// A session opened: older ones of its worker are superseded.
    Opened {
        server: u64,
        worker: String,
        session: u64,
        opened_at: UnixMillis,
        held: Vec<(String, u64)>,
    },
    /// Let go of these leases; answered with [`Transferred`].
    LetGo { queue: String, sequences: Vec<u64> },
    /// Extend a lease of yours; answered with the new time, or nothing.
    Extend { queue: String, sequence: u64 },
    /// Settle a lease of yours; answered with an [`Outcome`].
    Settle {
        token: Vec<u8>,
        settlement: Settlement,
    },
    /// Who holds this lease? Answered with [`Holder`] by the one who knows.
    WhoHolds {
        server: u64,
        queue: String,
        sequence: u64,
    },
    /// A lease of yours was settled elsewhere.
    Ended { queue: String, sequence: u64 },
    /// A queue's configuration changed, or it was deleted.
    Changed { queue: String },
    /// Jobs up to a sequence were purged.
    Purged { queue: String, up_to: u64 },
    /// Is anybody there? Answered by all but the one who asks.
    Anybody { server: u64 },
}

/// Who holds a lease, and until when.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) worker: String,
    pub(crate) deadline: UnixMillis,
}

fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}

pub(crate) async fn tell_all(engine: &Engine, message: &PeerMessage) {
    engine.nats().tell_all(encode(message)).await;
}

/// Asks a server to let go of leases. Nothing where it is gone.
pub(crate) async fn transfer(
    engine: &Engine,
    server: u64,
    queue: &QueueName,
    sequences: Vec<u64>,
) -> Transferred {
    let message = PeerMessage::LetGo {
        queue: queue.to_string(),
        sequences,
    };
    let answer = engine
        .nats()
        .ask(server, encode(&message), ASK_WITHIN)
        .await;
    answer
        .ok()
        .and_then(|body| serde_json::from_slice(&body).ok())
        .unwrap_or_default()
}

/// What a server answers that is asked to extend a lease.
pub(crate) enum Asked {
    /// Extended until then; `None`: it does not hold it.
    Answered(Option<UnixMillis>),
    /// There is no such server.
    Gone,
}

/// Asks a server to extend a lease of its own.
pub(crate) async fn extend(
    engine: &Engine,
    server: u64,
    queue: &QueueName,
    sequence: u64,
) -> Asked {
    let message = PeerMessage::Extend {
        queue: queue.to_string(),
        sequence,
    };
    match engine
        .nats()
        .ask(server, encode(&message), ASK_WITHIN * 3)
        .await
    {
        Ok(body) => Asked::Answered(serde_json::from_slice(&body).ok().flatten()),
        Err(_) => Asked::Gone,
    }
}

/// Asks a server to settle a lease of its own. `None`: it is gone, or does not answer.
pub(crate) async fn settle(
    engine: &Engine,
    server: u64,
    token: &[u8],
    settlement: &Settlement,
) -> Option<Outcome> {
    let message = PeerMessage::Settle {
        token: token.to_vec(),
        settlement: settlement.clone(),
    };
    let asked = engine
        .nats()
        .ask(server, encode(&message), ASK_WITHIN * 3)
        .await;
    serde_json::from_slice(&asked.ok()?).ok()
}

/// Asks all other servers who holds a lease.
pub(crate) async fn who_holds(engine: &Engine, queue: &QueueName, sequence: u64) -> Option<Holder> {
    let server = engine.server();
    let message = PeerMessage::WhoHolds {
        server,
        queue: queue.to_string(),
        sequence,
    };
    let answer = engine
        .nats()
        .ask_all(encode(&message), ANYBODY_WITHIN)
        .await
        .ok()?;
    serde_json::from_slice(&answer).ok()
}

/// Whether no other server answers.
pub(crate) async fn alone(engine: &Engine) -> bool {
    let message = PeerMessage::Anybody {
        server: engine.server(),
    };
    engine.nats().connected()
        && engine
            .nats()
            .ask_all(encode(&message), ANYBODY_WITHIN)
            .await
            .is_err()
}

/// Starts to listen.
pub(crate) async fn listen(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    let inbox = engine.nats().peer_inbox(engine.server()).await?;
    engine
        .tasks()
        .start("peers", Fate::Vital, hear(engine.clone(), inbox));
    Ok(())
}

async fn hear(engine: Engine, mut inbox: PeerInbox) {
    let stop = engine.tasks().stopping().clone();
    loop {
        let call = tokio::select! {
            () = stop.cancelled() => return,
            call = inbox.next() => call,
        };
        let Some(call) = call else { return };
        match serde_json::from_slice::<PeerMessage>(&call.body) {
            Ok(message) => deal_with(&engine, message, call).await,
            Err(error) => tracing::warn!(%error, "a peer said something that makes no sense"),
        }
    }
}

async fn deal_with(engine: &Engine, message: PeerMessage, call: PeerCall) {
    let me = engine.server();
    match message {
        PeerMessage::Opened {
            server,
            worker,
            session,
            opened_at,
            held,
        } => {
            if let Some(worker) = WorkerId::parse(&worker).ok().filter(|_| server != me) {
                engine.supersede(&worker, session, opened_at, &held);
            }
        }
        PeerMessage::LetGo { queue, sequences } => {
            if let Ok(queue) = QueueName::parse(&queue) {
                call.answer(encode(&engine.let_go(&queue, &sequences)))
                    .await;
            }
        }
        PeerMessage::Extend { queue, sequence } => {
            // Waits for JetStream, so it does not hold up what comes after it.
            let asked = engine.clone();
            engine
                .tasks()
                .start("extend-for-peer", Fate::OneCaller, async move {
                    let extended = asked.extend_own(&queue, sequence).await;
                    call.answer(encode(&extended)).await;
                });
        }
        PeerMessage::Settle { token, settlement } => {
            let asked = engine.clone();
            let item = SettleItem {
                token: token.into(),
                asked: AskedOf::Settle(settlement),
            };
            engine
                .tasks()
                .start("settle-for-peer", Fate::OneCaller, async move {
                    let results = asked.ack(vec![item]).await;
                    call.answer(encode(&results[0].outcome)).await;
                });
        }
        PeerMessage::WhoHolds {
            server,
            queue,
            sequence,
        } => {
            if server != me
                && let Some(holder) = engine.holder(&queue, sequence)
            {
                call.answer(encode(&holder)).await;
            }
        }
        PeerMessage::Ended { queue, sequence } => {
            if let Ok(queue) = QueueName::parse(&queue) {
                engine.ended_elsewhere(&queue, sequence);
            }
        }
        PeerMessage::Changed { queue } => with_queue(engine, &queue, |queue| {
            let refreshing = upkeep::refresh(engine.clone(), queue);
            engine.tasks().start("refresh", Fate::OneCaller, refreshing);
        }),
        PeerMessage::Purged { queue, up_to } => with_queue(engine, &queue, |queue| {
            let lost = queue
                .state
                .lock()
                .leases
                .lose_all(up_to, LostReason::Cancelled);
            queue.tell_lost(engine, &lost, LostReason::Cancelled);
        }),
        PeerMessage::Anybody { server } => {
            if server != me {
                call.answer(encode(&true)).await;
            }
        }
    }
}

fn with_queue(engine: &Engine, name: &str, act: impl FnOnce(std::sync::Arc<crate::queue::Queue>)) {
    if let Some(queue) = QueueName::parse(name)
        .ok()
        .and_then(|name| engine.open_already(&name))
    {
        act(queue);
    }
}

impl Engine {
    /// Tells the server that gave a lease that it ended.
    pub(crate) async fn tell_ended(
        &self,
        server: u64,
        queue: &QueueName,
        sequence: u64,
        _session: u64,
    ) {
        let message = PeerMessage::Ended {
            queue: queue.to_string(),
            sequence,
        };
        self.nats().tell(server, encode(&message)).await;
    }
}
