//! What the scenarios are written with: servers, clients, and a worker that does only what it is told.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

mod calls;
mod ledger;
mod servers;
mod session;
mod working;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_nats::jetstream;
use bytes::Bytes;
use keywork::proto::{
    self, Delivery, LostLease, SettlementOutcome, SubmitOutcome, lease_request::Message as Up,
    lease_response::Message as Down, queue_admin_client::QueueAdminClient, settlement::Outcome,
    work_queue_client::WorkQueueClient,
};
use keywork_sdk::{
    Context, Job, Worker,
    worker::{CancelReason, Event, HandlerResult, WorkerError},
};
use keywork_testkit::{KeyworkServer, NatsCluster, NatsServer, eventually, eventually_some};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming, transport::Channel};
use tonic_types::StatusExt;

pub(crate) use self::{calls::*, ledger::*, servers::*, session::*, working::*};

pub(crate) type Client = WorkQueueClient<Channel>;
pub(crate) type Admin = QueueAdminClient<Channel>;

/// How long anything that should come is waited for.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// The shortest lease that a queue may have.
pub(crate) const SHORT_LEASE: Duration = Duration::from_secs(2);

/// The binary under test.
pub(crate) const KEYWORK: &str = env!("CARGO_BIN_EXE_keywork");
