//! What servers tell and ask each other. Nothing that matters depends on a message arriving: what is not
//! heard is found out by deadlines, or by the next look.

use std::{collections::HashMap, time::Duration};

use keywork_jetstream::{
    Failure,
    peers::{PeerCall, PeerInbox},
    tasks::Fate,
};
use keywork_model::{QueueName, UnixMillis, WorkerId, decide::Settlement};
use serde::{Deserialize, Serialize};

use crate::{
    claim::Transferred,
    engine::Engine,
    extend::Extending,
    lease::LostReason,
    session::{Asked as AskedOf, SettleItem},
    settle::Outcome,
    upkeep,
};

/// How long an answer of a peer is waited for.
const ASK_WITHIN: Duration = Duration::from_millis(1_000);
/// How long anybody at all has to say something.
const ANYBODY_WITHIN: Duration = Duration::from_millis(250);
/// Leases that one question is about.
const LEASES_AT_ONCE: usize = 4_096;

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
    /// Extend a lease that you know, good until then by its token; answered with an [`Extending`].
    Extend {
        queue: String,
        sequence: u64,
        proven: UnixMillis,
    },
    /// Settle a lease of yours; answered with an [`Outcome`].
    Settle {
        token: Vec<u8>,
        settlement: Settlement,
    },
    /// Who holds these leases? Answered with [`Holders`] by whoever knows any.
    WhoHolds {
        server: u64,
        queue: String,
        sequences: Vec<u64>,
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

/// Leases by their sequences, with who holds each.
pub(crate) type Holders = HashMap<u64, Holder>;

/// Who holds a lease, at which server, and until when.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) server: u64,
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

/// Asks a server to extend a lease. One that is gone or does not answer knows none.
pub(crate) async fn extend(
    engine: &Engine,
    server: u64,
    queue: &QueueName,
    sequence: u64,
    proven: UnixMillis,
) -> Extending {
    let message = PeerMessage::Extend {
        queue: queue.to_string(),
        sequence,
        proven,
    };
    let nats = engine.nats();
    match nats.ask(server, encode(&message), ASK_WITHIN * 3).await {
        Ok(body) => serde_json::from_slice(&body).unwrap_or(Extending::TryAgain),
        Err(Failure::NotSent) => Extending::TryAgain,
        Err(Failure::NoResponders | Failure::TimedOut) => Extending::NotHere,
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
    holders(engine, queue, vec![sequence])
        .await
        .remove(&sequence)
}

/// Asks all other servers who holds these leases, until nobody knows more.
pub(crate) async fn holders(engine: &Engine, queue: &QueueName, mut ask: Vec<u64>) -> Holders {
    let mut found = Holders::new();
    while !ask.is_empty() {
        let later = ask.split_off(ask.len().min(LEASES_AT_ONCE));
        let answer = ask_holders(engine, queue, &ask).await;
        if answer.is_empty() {
            ask = later;
            continue;
        }
        ask.retain(|n| !answer.contains_key(n));
        ask.extend(later);
        found.extend(answer);
    }
    found
}

/// The first answer.
async fn ask_holders(engine: &Engine, queue: &QueueName, sequences: &[u64]) -> Holders {
    let message = PeerMessage::WhoHolds {
        server: engine.server(),
        queue: queue.to_string(),
        sequences: sequences.to_vec(),
    };
    let nats = engine.nats();
    let answer = nats.ask_all(encode(&message), ANYBODY_WITHIN).await;
    let holders: Option<Holders> = answer.ok().and_then(|a| serde_json::from_slice(&a).ok());
    let mut holders = holders.unwrap_or_default();
    holders.retain(|n, _| sequences.contains(n));
    holders
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
        PeerMessage::Extend {
            queue,
            sequence,
            proven,
        } => {
            // Waits for JetStream, so it does not hold up what comes after it.
            let asked = engine.clone();
            engine
                .tasks()
                .start("extend-for-peer", Fate::OneCaller, async move {
                    let extended = asked.extend_own(&queue, sequence, proven).await;
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
            sequences,
        } => {
            let held = || engine.held_here(&queue, &sequences);
            if let Some(held) = (server != me).then(held).filter(|h| !h.is_empty()) {
                call.answer(encode(&held)).await;
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
