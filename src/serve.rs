//! `keywork serve`: the steps of starting and of stopping, in order.

use std::{net::SocketAddr, time::Duration};

use keywork_engine::{Engine, Options, StartError};
use keywork_jetstream::{
    ApiError, ConnectError, Nats, NatsOptions,
    tasks::{Fate, Tasks},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::{Instant, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::TcpIncoming};
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    config::{Config, Storage},
    embedded::{Embedded, EmbeddedError},
    proto::{
        self, queue_admin_server::QueueAdminServer, schedules_server::SchedulesServer,
        work_queue_server::WorkQueueServer,
    },
    rpc::Service,
};

/// The largest message that is read: a batch of jobs.
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AT_HEALTH_EVERY: Duration = Duration::from_millis(250);
/// How long a cluster of NATS that has just started may take to choose its leaders.
const LEADER_WITHIN: Duration = Duration::from_secs(20);
/// How long the tasks have to end once nothing is served any more.
const TASKS_GRACE: Duration = Duration::from_secs(2);

/// Why the server does not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The embedded NATS.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// The connection to NATS.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] StartError),
    /// The port.
    #[error("failed to listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Signals.
    #[error("failed to listen for signals: {0}")]
    Signals(#[source] std::io::Error),
    /// The transport.
    #[error("failed to serve: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// Reflection.
    #[error("failed to describe the services: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// A task that the server cannot do without.
    #[error("a vital task failed; see the log")]
    TaskFailed,
}

/// Serves until a signal comes.
///
/// # Errors
/// Why the server does not start, or ended by itself.
pub async fn serve(config: Config) -> Result<(), ServeError> {
    let signals = signals()?;
    // Bound first, so that a port in use is found before anything is started for it.
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|source| ServeError::Listen {
            address: config.listen,
            source,
        })?;
    // A store of many millions of jobs takes a while to load, and a NATS may be long in coming.
    let started = tokio::select! {
        started = storage(&config) => started?,
        () = signals.cancelled() => return Ok(()),
    };
    let (embedded, options) = started;
    let outcome = serve_on(&config, listener, &options, signals).await;
    if let Some(embedded) = embedded {
        embedded
            .stop(config.stop_grace.max(Duration::from_secs(5)))
            .await;
    }
    outcome
}

async fn storage(config: &Config) -> Result<(Option<Embedded>, NatsOptions), ServeError> {
    let (embedded, options) = match &config.storage {
        Storage::Nats(options) => (None, options.clone()),
        Storage::Embedded(settings) => {
            let embedded = Embedded::start(settings.clone()).await?;
            let credential = embedded.credential();
            let options = NatsOptions {
                urls: vec![embedded.url()],
                user: Some((credential.user.clone(), credential.password.clone())),
                ..NatsOptions::default()
            };
            (Some(embedded), options)
        }
    };
    Ok((
        embedded,
        NatsOptions {
            connect_within: config.connect_within,
            ..options
        },
    ))
}

async fn serve_on(
    config: &Config,
    listener: TcpListener,
    options: &NatsOptions,
    signals: CancellationToken,
) -> Result<(), ServeError> {
    let tasks = Tasks::default();
    let engine = tokio::select! {
        engine = engine_on(config, options, &tasks) => engine?,
        () = signals.cancelled() => return Ok(()),
    };
    let service = Service::new(engine.clone(), tasks.clone());
    let (health, health_service) = tonic_health::server::health_reporter();
    let reporting = report_health(health, engine.clone(), service.clone(), tasks.clone());
    tasks.start("health", Fate::Vital, reporting);

    let address = listener.local_addr().unwrap_or(config.listen);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let close = CancellationToken::new();
    let work_queue = WorkQueueServer::new(service.clone()).max_decoding_message_size(MESSAGE_BYTES);
    let serving = Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PING_WITHIN))
        .add_service(health_service)
        .add_service(reflection()?.build_v1()?)
        .add_service(reflection()?.build_v1alpha()?)
        .add_service(work_queue)
        .add_service(QueueAdminServer::new(service.clone()))
        .add_service(SchedulesServer::new(service.clone()))
        .serve_with_incoming_shutdown(incoming, close.clone().cancelled_owned());
    tokio::pin!(serving);
    tracing::info!(%address, "keywork serves");

    let outcome = tokio::select! {
        ended = &mut serving => ended.map_err(ServeError::from),
        () = tasks.failed().cancelled() => Err(ServeError::TaskFailed),
        () = signals.cancelled() => Ok(()),
    };
    let began = Instant::now();
    tracing::info!("stopping");
    service.drain();
    engine.send_sessions_away(config.stop_grace / 2);
    close.cancel();
    // A health watch, a reflection stream or a silent connection would hold the port for ever: what is
    // left after the sessions went is cut off.
    let left = || config.stop_grace.saturating_sub(began.elapsed());
    tokio::select! {
        _ = &mut serving => {}
        () = sessions_gone(&engine, left()) => drop(timeout(left().min(TASKS_GRACE), &mut serving).await),
    }
    engine.record_clean_stop().await;
    let abandoned = tasks.stop(left().max(TASKS_GRACE)).await;
    tracing::info!(abandoned, sessions = engine.open_sessions(), "stopped");
    outcome
}

async fn engine_on(
    config: &Config,
    options: &NatsOptions,
    tasks: &Tasks,
) -> Result<Engine, ServeError> {
    let nats = Nats::connect(options, config.names.clone(), tasks).await?;
    let engine_options = Options {
        replicas: config.replicas,
        make_queues: config.make_queues,
        token_secret: config.token_secret.clone(),
    };
    let until = Instant::now() + config.connect_within.max(LEADER_WITHIN);
    loop {
        match Engine::start(nats.clone(), engine_options.clone(), tasks.clone()).await {
            Err(StartError::Settings(ApiError::Failed(why))) if Instant::now() < until => {
                tracing::info!(%why, "waiting for a JetStream leader");
                sleep(LOOK_AT_HEALTH_EVERY).await;
            }
            started => return Ok(started?),
        }
    }
}

async fn sessions_gone(engine: &Engine, within: Duration) {
    let until = Instant::now() + within;
    while engine.open_sessions() > 0 && Instant::now() < until {
        sleep(Duration::from_millis(20)).await;
    }
}

fn reflection() -> Result<tonic_reflection::server::Builder<'static>, ServeError> {
    Ok(tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTOR)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET))
}

/// Says that nothing is served while NATS is away or the server stops.
async fn report_health(health: HealthReporter, engine: Engine, service: Service, tasks: Tasks) {
    let names = ["", "keywork.v1.WorkQueue", "keywork.v1.QueueAdmin"];
    let mut ticks = interval(LOOK_AT_HEALTH_EVERY);
    let mut said = None;
    loop {
        let well = engine.nats().connected() && !service.draining();
        if said != Some(well) {
            let status = if well {
                ServingStatus::Serving
            } else {
                ServingStatus::NotServing
            };
            for name in names {
                health.set_service_status(name, status).await;
            }
            said = Some(well);
        }
        tokio::select! {
            () = tasks.stopping().cancelled() => return,
            _ = ticks.tick() => {}
        }
    }
}

/// Raised by SIGTERM or SIGINT.
fn signals() -> Result<CancellationToken, ServeError> {
    let raised = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut stream = signal(kind).map_err(ServeError::Signals)?;
        let raise = raised.clone();
        let waiting = async move {
            stream.recv().await;
            raise.cancel();
        };
        Tasks::default().start("signals", Fate::Vital, waiting);
    }
    Ok(raised)
}
