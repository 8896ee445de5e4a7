//! Connecting to NATS: three connections, so that a flood of one kind does not hold up another.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_nats::{Client, ConnectOptions};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::{
    api::{ApiError, Failure, code},
    names::Names,
    requester::{self, Requester},
    tasks::Tasks,
};

/// The oldest nats-server that has what Keywork leans on: replacing a message at the per-subject limit.
pub const LEAST_NATS: (u64, u64) = (2, 14);
/// How long an answer may take.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long a call that may be repeated is repeated while no leader answers.
pub const REPEAT_FOR: Duration = Duration::from_secs(6);
/// How long the first try of a call that may be repeated waits for its answer; each further one waits
/// for so much longer.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// What a connection takes in while it cannot write: all that may wait for answers, and some that were given
/// up meanwhile.
const WRITES: usize = requester::IN_FLIGHT + 16_384;

/// How long the making of a stream or a consumer may take before it is asked for again.
const MADE_WITHIN: Duration = Duration::from_secs(2);
/// How long it is asked for.
const MAKE_FOR: Duration = Duration::from_secs(8);

/// How to reach NATS.
#[derive(Clone, Debug, Default)]
pub struct NatsOptions {
    /// One URL a node.
    pub urls: Vec<String>,
    /// A credentials file.
    pub credentials: Option<PathBuf>,
    /// User and password.
    pub user: Option<(String, String)>,
    /// A token.
    pub token: Option<String>,
    /// The seed of an nkey.
    pub nkey: Option<String>,
    /// Certificates to trust, as PEM.
    pub tls_ca: Option<PathBuf>,
    /// Our certificate and its key, as PEM.
    pub tls_cert: Option<(PathBuf, PathBuf)>,
    /// How long to try.
    pub connect_within: Duration,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The credentials file could not be read.
    #[error("failed to read the NATS credentials file: {0}")]
    Credentials(#[source] std::io::Error),
    /// No connection within the time.
    #[error("failed to reach NATS at {urls}: {source}")]
    Unreachable {
        /// Where.
        urls: String,
        /// Why.
        source: Box<async_nats::ConnectError>,
    },
    /// The server is too old.
    #[error(
        "nats-server {found} is too old: Keywork needs 2.14 or later, which can replace a message at the per-subject limit"
    )]
    TooOld {
        /// The server's version.
        found: String,
    },
    /// The server runs without JetStream.
    #[error("the NATS server has JetStream off: start nats-server with -js")]
    NoJetStream,
    /// Subscribing failed.
    #[error("failed to subscribe to answers from NATS: {0}")]
    Subscribe(#[from] async_nats::SubscribeError),
}

/// The connections to NATS, and the names that everything is stored under.
#[derive(Clone, Debug)]
pub struct Nats {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    names: Names,
    publishing: Requester,
    settling: Requester,
    pulling: Client,
    max_payload: usize,
}

impl Nats {
    /// Connects, and refuses a server that Keywork cannot work with.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(
        options: &NatsOptions,
        names: Names,
        tasks: &Tasks,
    ) -> Result<Self, ConnectError> {
        let publishing = open(options, "keywork-publish").await?;
        let info = publishing.server_info();
        check_version(&info.version)?;
        let settling = open(options, "keywork-settle").await?;
        let pulling = open(options, "keywork-pull").await?;
        let inner = Inner {
            names,
            max_payload: info.max_payload,
            publishing: Requester::start(publishing, tasks).await?,
            settling: Requester::start(settling, tasks).await?,
            pulling,
        };
        let nats = Self {
            inner: Arc::new(inner),
        };
        nats.check_jetstream().await?;
        Ok(nats)
    }

    async fn check_jetstream(&self) -> Result<(), ConnectError> {
        match self
            .read::<serde_json::Value>("INFO".into(), Bytes::new())
            .await
        {
            Err(ApiError::Failed(Failure::NoResponders)) => Err(ConnectError::NoJetStream),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The names that everything is stored under.
    pub fn names(&self) -> &Names {
        &self.inner.names
    }

    /// What NATS takes in one message, in bytes.
    pub fn max_payload(&self) -> usize {
        self.inner.max_payload
    }

    /// Whether all connections are up.
    pub fn connected(&self) -> bool {
        self.inner.publishing.connected() && self.inner.settling.connected()
    }

    /// The id of the NATS server that questions go to: another one after it was restarted. Not that of
    /// the pulls: an answer may come from a new server before they have found it.
    pub fn server_id(&self) -> String {
        self.inner.publishing.server_id()
    }

    /// Whether several NATS nodes may answer.
    pub(crate) fn in_cluster(&self) -> bool {
        self.inner.publishing.in_cluster()
    }

    /// Grows whenever the connection for pulls is made anew.
    pub fn epoch(&self) -> u64 {
        self.inner
            .pulling
            .statistics()
            .connects
            .load(Ordering::Relaxed)
    }

    pub(crate) fn publishing(&self) -> &Requester {
        &self.inner.publishing
    }

    pub(crate) fn settling(&self) -> &Requester {
        &self.inner.settling
    }

    pub(crate) fn pulling(&self) -> &Client {
        &self.inner.pulling
    }

    /// Calls JetStream's API once.
    async fn call<T: DeserializeOwned>(
        &self,
        what: String,
        body: Bytes,
        within: Duration,
    ) -> Result<T, ApiError> {
        let subject = format!("$JS.API.{what}");
        self.inner
            .publishing
            .request(subject, None, body, within)
            .await
            .json()
    }

    /// Makes something that may be there already. While several servers make the same on several nodes,
    /// JetStream leaves some of them without an answer, and while a cluster forms it misses nodes: so it
    /// is asked again soon.
    pub(crate) async fn make<T: DeserializeOwned>(
        &self,
        what: String,
        body: Bytes,
    ) -> Result<T, ApiError> {
        let until = Instant::now() + MAKE_FOR;
        let subject = format!("$JS.API.{what}");
        loop {
            let publishing = &self.inner.publishing;
            let asked = publishing.request(subject.clone(), None, body.clone(), MADE_WITHIN);
            let answer = asked.await.json();
            let again = match &answer {
                Ok(_) => false,
                Err(error) => {
                    matches!(error, ApiError::Failed(_)) || error.code() == Some(code::NO_PEERS)
                }
            };
            if !again || Instant::now() >= until || !publishing.connected() {
                return answer;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Calls JetStream's API for something that changes nothing or may be repeated, and repeats it
    /// while no leader answers. A stream of several replicas that has no leader yet says nothing at all,
    /// so no answer means asking again, each time with more patience.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        what: String,
        body: Bytes,
    ) -> Result<T, ApiError> {
        let until = Instant::now() + REPEAT_FOR;
        let mut within = FIRST_ANSWER_WITHIN;
        loop {
            match self.call(what.clone(), body.clone(), within).await {
                Err(ApiError::Failed(Failure::NoResponders)) if Instant::now() < until => {
                    sleep(Duration::from_millis(100)).await;
                }
                Err(ApiError::Failed(Failure::TimedOut)) if Instant::now() < until => {
                    within += FIRST_ANSWER_WITHIN;
                }
                answer => return answer,
            }
        }
    }

    /// Calls JetStream's API for something that must not happen twice: it is repeated only while it is
    /// certain that nothing happened.
    pub(crate) async fn change<T: DeserializeOwned>(
        &self,
        what: String,
        body: Bytes,
    ) -> Result<T, ApiError> {
        let until = Instant::now() + REPEAT_FOR;
        loop {
            match self.call(what.clone(), body.clone(), ANSWER_WITHIN).await {
                Err(ApiError::Failed(Failure::NoResponders)) if Instant::now() < until => {
                    sleep(Duration::from_millis(100)).await;
                }
                answer => return answer,
            }
        }
    }
}

async fn open(options: &NatsOptions, name: &str) -> Result<Client, ConnectError> {
    let unreachable = |source| ConnectError::Unreachable {
        urls: options.urls.join(", "),
        source: Box::new(source),
    };
    let until = Instant::now() + options.connect_within;
    loop {
        let connect = configured(options, name).await?;
        match connect.connect(options.urls.clone()).await {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() >= until => return Err(unreachable(error)),
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn configured(options: &NatsOptions, name: &str) -> Result<ConnectOptions, ConnectError> {
    let mut connect = ConnectOptions::new()
        .name(name)
        .ping_interval(Duration::from_secs(3))
        .connection_timeout(Duration::from_secs(3))
        .subscription_capacity(262_144)
        .client_capacity(WRITES)
        // Every subject is made here, from checked names and encoded keys.
        .skip_subject_validation(true)
        .max_reconnects(None)
        .reconnect_delay_callback(|attempts| {
            Duration::from_millis(50 * u64::try_from(attempts.min(20)).unwrap_or(20))
        });
    if let Some(path) = &options.credentials {
        connect = connect
            .credentials_file(path)
            .await
            .map_err(ConnectError::Credentials)?;
    }
    if let Some((user, password)) = options.user.clone() {
        connect = connect.user_and_password(user, password);
    }
    if let Some(token) = options.token.clone() {
        connect = connect.token(token);
    }
    if let Some(seed) = options.nkey.clone() {
        connect = connect.nkey(seed);
    }
    if let Some(path) = options.tls_ca.clone() {
        connect = connect.add_root_certificates(path).require_tls(true);
    }
    if let Some((cert, key)) = options.tls_cert.clone() {
        connect = connect.add_client_certificate(cert, key).require_tls(true);
    }
    Ok(connect)
}

fn check_version(version: &str) -> Result<(), ConnectError> {
    let mut parts = version
        .split(['.', '-'])
        .map(|part| part.parse::<u64>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if found < LEAST_NATS {
        return Err(ConnectError::TooOld {
            found: version.into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused_with_the_reason() {
        for old in ["2.12.8", "2.9.0", "1.4.1", "2.13.9-beta.1"] {
            assert!(check_version(old).is_err(), "{old}");
        }
        for new in ["2.14.0", "2.15.1", "2.20.0-rc.1", "3.0.0"] {
            assert!(check_version(new).is_ok(), "{new}");
        }
    }
}
