//! `Lease`: a worker session. Two loops in one task: one reads what the worker sends and never waits for
//! NATS, the other sends what the session says.

use std::time::Duration;

use futures::{StreamExt, future::ready, stream};
use keywork_engine::{Hello, Input, OpenedSession, Output, Welcome};
use keywork_jetstream::{clock, tasks::Fate};
use keywork_model::{QueueName, Violation, limits};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::{
    convert,
    errors::{self, Problem, Reason},
    proto::{self, lease_request::Message as Up, lease_response::Message as Down},
    rpc::{Answers, Service},
};

type Sender = mpsc::Sender<Result<proto::LeaseResponse, Status>>;

/// How long a worker has to take what its session said before it ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Service {
    pub(super) fn lease_streaming(
        &self,
        inbound: Streaming<proto::LeaseRequest>,
    ) -> Answers<proto::LeaseResponse> {
        let (tx, rx) = mpsc::channel(2);
        // The last word goes beside the channel: a worker that does not read leaves no room in it.
        let (last, end) = oneshot::channel();
        self.tasks.start(
            "lease-stream",
            Fate::OneCaller,
            run(self.clone(), inbound, tx, last),
        );
        let end = stream::once(end).filter_map(|last| ready(last.ok().map(Err)));
        ReceiverStream::new(rx).chain(end).boxed()
    }
}

async fn run(
    service: Service,
    mut inbound: Streaming<proto::LeaseRequest>,
    tx: Sender,
    last: oneshot::Sender<Status>,
) {
    let ended = match open(&service, &mut inbound).await {
        Ok(session) => converse(session, inbound, &tx).await,
        Err(problem) => Some(problem),
    };
    if let Some(problem) = ended {
        // Whoever hung up does not hear it.
        drop(last.send(problem.into()));
    }
}

async fn open(
    service: &Service,
    inbound: &mut Streaming<proto::LeaseRequest>,
) -> Result<OpenedSession, Problem> {
    let first = timeout(limits::HELLO_WITHIN, inbound.message()).await;
    let hello = match first {
        Ok(Ok(Some(proto::LeaseRequest {
            message: Some(Up::Hello(hello)),
        }))) => hello,
        Ok(Ok(_)) => {
            return Err(Problem::new(
                Reason::HelloMissing,
                "the stream must begin with Hello",
            ));
        }
        Ok(Err(_)) => return Err(Problem::new(Reason::HelloLate, "the stream broke")),
        Err(_) => return Err(Problem::new(Reason::HelloLate, "no Hello within 10 s")),
    };
    service.open()?;
    let (name, version) = (hello.sdk_name.clone(), hello.sdk_version.clone());
    let session = service.engine.lease(to_hello(hello)?).await?;
    tracing::debug!(worker = %session.welcome.worker, sdk = name, version, "a session opened");
    Ok(session)
}

fn to_hello(hello: proto::Hello) -> Result<Hello, Violation> {
    if hello.protocol_version > 1 {
        return Err(Violation::new("protocol_version", "must be 1"));
    }
    for (field, text) in [
        ("sdk_name", &hello.sdk_name),
        ("sdk_version", &hello.sdk_version),
    ] {
        let limit = limits::SDK_BYTES;
        if text.len() > limit {
            let problem = format!("has {} bytes; the limit is {limit}", text.len());
            return Err(Violation::new(field, problem));
        }
    }
    let (has, limit) = (hello.queues.len(), limits::SESSION_QUEUES);
    if !(1..=limit).contains(&has) {
        let problem = format!("has {has} entries; the limits are 1 and {limit}");
        return Err(Violation::new("queues", problem));
    }
    let limit = limits::SESSION_CAPACITY as usize;
    if hello.held_leases.len() > limit {
        return Err(Violation::new(
            "held_leases",
            format!("must have at most {limit} entries"),
        ));
    }
    let mut queues = Vec::with_capacity(has);
    for (at, subscription) in hello.queues.iter().enumerate() {
        let within = |violation: Violation| violation.within(&format!("queues[{at}]"));
        let name = QueueName::parse(&subscription.queue).map_err(within)?;
        if queues.iter().any(|(other, _)| *other == name) {
            let twice = Violation::new("queue", format!("names {name} a second time"));
            return Err(within(twice));
        }
        queues.push((name, to_weight(subscription.weight).map_err(within)?));
    }
    Ok(Hello {
        worker: convert::to_worker(&hello.worker_id)?,
        queues,
        capacity: to_capacity(hello.capacity)?,
        held: hello.held_leases,
        ticket: hello.session_ticket,
    })
}

fn to_weight(weight: u32) -> Result<u32, Violation> {
    if weight > limits::QUEUE_WEIGHT {
        let limit = limits::QUEUE_WEIGHT;
        return Err(Violation::new("weight", format!("must be at most {limit}")));
    }
    Ok(weight.max(1))
}

fn to_capacity(capacity: u32) -> Result<u32, Violation> {
    if capacity > limits::SESSION_CAPACITY {
        let limit = limits::SESSION_CAPACITY;
        return Err(Violation::new(
            "capacity",
            format!("must be at most {limit}"),
        ));
    }
    Ok(capacity)
}

/// Runs until the session or the stream ends. Answers what the worker must hear of it.
async fn converse(
    session: OpenedSession,
    inbound: Streaming<proto::LeaseRequest>,
    tx: &Sender,
) -> Option<Problem> {
    let OpenedSession {
        welcome,
        inputs,
        outputs,
        end,
    } = session;
    let reading = read(inbound, inputs);
    let writing = write(welcome, outputs, tx);
    tokio::pin!(reading, writing, end);
    let (mut wrong, mut said_all, mut unheard) = (None, false, false);
    let ended = loop {
        tokio::select! {
            ended = &mut end => break ended.ok(),
            // The worker has said all: the session ends once it has answered that.
            violation = &mut reading, if !said_all => (wrong, said_all) = (violation, true),
            () = &mut writing, if !unheard => unheard = true,
        }
    };
    if !unheard {
        // What the session said last: a worker that reads takes it at once.
        drop(timeout(LAST_WORDS, writing).await);
    }
    match wrong {
        Some(violation) => Some(violation.into()),
        None => ended.and_then(errors::of_session_end),
    }
}

/// Hands over what the worker sends, until it has said all. Answers what is wrong with it, if anything.
async fn read(
    mut inbound: Streaming<proto::LeaseRequest>,
    inputs: mpsc::Sender<Input>,
) -> Option<Violation> {
    while let Ok(Some(message)) = inbound.message().await {
        match to_input(message) {
            Ok(input) => inputs.send(input).await.ok()?,
            Err(violation) => return Some(violation),
        }
    }
    None
}

fn to_input(request: proto::LeaseRequest) -> Result<Input, Violation> {
    match request.message {
        Some(Up::Capacity(level)) => to_capacity(level.capacity).map(Input::Capacity),
        Some(Up::Heartbeat(beat)) => {
            let limit = limits::SESSION_CAPACITY as usize;
            if beat.lease_tokens.len() > limit {
                let problem = format!("must have at most {limit} entries");
                return Err(Violation::new("heartbeat.lease_tokens", problem));
            }
            Ok(Input::Heartbeat {
                sequence: beat.sequence,
                tokens: beat.lease_tokens,
            })
        }
        Some(Up::Settlements(list)) => {
            convert::check_list("settlements", list.settlements.len())?;
            let items = list.settlements.into_iter().map(convert::to_settle_item);
            Ok(Input::Settle(items.collect()))
        }
        Some(Up::Drain(_)) => Ok(Input::Drain),
        Some(Up::Hello(_)) => Err(Violation::new("hello", "must come once, first")),
        None => Err(Violation::new("message", "must be set")),
    }
}

/// Sends what the session says, until it ends or the worker is gone.
async fn write(welcome: Welcome, mut outputs: mpsc::Receiver<Output>, tx: &Sender) {
    let mut next = Some(Down::Welcome(to_welcome(welcome)));
    while let Some(message) = next {
        if tx
            .send(Ok(proto::LeaseResponse {
                message: Some(message),
            }))
            .await
            .is_err()
        {
            return;
        }
        next = outputs.recv().await.map(to_message);
    }
}

fn to_message(output: Output) -> Down {
    match output {
        Output::Deliveries(granted) => {
            let (now, wall) = (Instant::now(), clock::now());
            let deliveries = granted
                .into_iter()
                .map(|g| convert::delivery(g, now, wall))
                .collect();
            Down::Deliveries(proto::Deliveries { deliveries })
        }
        Output::HeartbeatAck {
            sequence,
            lost,
            unconfirmed,
            ticket,
        } => Down::HeartbeatAck(proto::HeartbeatAck {
            sequence,
            lost: lost.into_iter().map(convert::lost).collect(),
            session_ticket: ticket,
            unconfirmed,
        }),
        Output::Results(results) => Down::SettlementResults(proto::SettlementResults {
            results: results.into_iter().map(convert::settle_result).collect(),
        }),
        Output::Lost(lost) => Down::LeasesLost(proto::LeasesLost {
            leases: lost.into_iter().map(convert::lost).collect(),
        }),
        Output::DrainAck => Down::DrainAck(proto::DrainAck {}),
        Output::GoAway(away) => Down::GoAway(proto::GoAway {
            reason: convert::go_away_reason(away.reason).into(),
            grace: Some(convert::duration(away.grace)),
            reconnect_delay: Some(convert::duration(away.reconnect_delay)),
        }),
    }
}

fn to_welcome(welcome: Welcome) -> proto::Welcome {
    let terms = welcome.terms.into_iter().map(|terms| proto::QueueTerms {
        queue: terms.queue.to_string(),
        lease_duration: Some(convert::duration(terms.lease_duration)),
        disconnect_grace: terms.disconnect_grace.map(convert::duration),
    });
    let resumed = welcome
        .resumed
        .into_iter()
        .map(|(token, left)| proto::ResumedLease {
            lease_token: token,
            time_left: Some(convert::duration(left)),
        });
    proto::Welcome {
        session_id: format!("{:016x}", welcome.session),
        worker_id: welcome.worker.to_string(),
        queues: terms.collect(),
        heartbeat_interval: Some(convert::duration(welcome.heartbeat_interval)),
        liveness_timeout: Some(convert::duration(welcome.liveness_timeout)),
        resumed: resumed.collect(),
        lost: welcome.lost.into_iter().map(convert::lost).collect(),
        session_ticket: welcome.ticket,
    }
}
