//! How a client reaches servers: lazily, one channel each, all settings of HTTP/2 in one place.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint, Uri},
};

use parking_lot::Mutex;

use super::{Client, Options, SubmitInterceptor, intercept::Interceptors};
use crate::{
    Error, errors::FieldViolation, outage::Outage, raw::work_queue_client::WorkQueueClient, wire,
};

/// A stream's window: what a server may send ahead of our reading it.
const STREAM_WINDOW: u32 = 4 << 20;
/// The connection's window. A small one, with many unread streams, kills the connection.
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Largest message taken: a delivery of a thousand jobs with payloads is large.
const MESSAGE_BYTES: usize = 256 << 20;
/// Where `keywork serve` listens by itself.
const SERVER: &str = "http://127.0.0.1:50051";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// What calls go through: a channel that adds the client's metadata.
pub type Transport = InterceptedService<Channel, Headers>;

/// Adds the client's metadata to every call.
#[derive(Clone, Debug)]
pub struct Headers(MetadataMap);

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if !self.0.is_empty() {
            request
                .metadata_mut()
                .as_mut()
                .extend(self.0.clone().into_headers());
        }
        Ok(request)
    }
}

/// The options of a [`Client`].
#[derive(Clone)]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    metadata: Vec<(String, String)>,
    submit_deadline: Duration,
    call_timeout: Duration,
    interceptors: Vec<Arc<dyn SubmitInterceptor>>,
    #[cfg(feature = "tls")]
    tls: Option<tonic::transport::ClientTlsConfig>,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            metadata: Vec::new(),
            submit_deadline: Duration::from_secs(30),
            call_timeout: Duration::from_secs(10),
            interceptors: Vec::new(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

impl ClientBuilder {
    /// Adds a server, such as `http://127.0.0.1:50051`; `https://` needs the feature `tls`. With several,
    /// an outage of one turns to the next. At least one is needed.
    #[must_use]
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoints.push(endpoint.into());
        self
    }

    /// Adds the servers that `KEYWORK_SERVER` names, with commas between them; without it, `http://127.0.0.1:50051`,
    /// where `keywork serve` listens by itself.
    #[must_use]
    pub fn endpoints_from_env(self) -> Self {
        let servers = std::env::var("KEYWORK_SERVER").unwrap_or_else(|_| SERVER.to_owned());
        let endpoints = servers.split(',').map(str::trim);
        endpoints.fold(self, Self::endpoint)
    }

    /// How servers are known and this client is known to them, for `https://`. Default: the roots of the operating
    /// system, and no identity.
    ///
    /// ```no_run
    /// use keywork_sdk::client::{Certificate, Client, ClientTlsConfig};
    ///
    /// # fn demo() -> Result<Client, Box<dyn std::error::Error>> {
    /// let ca = Certificate::from_pem(std::fs::read("ca.pem")?);
    /// Ok(Client::builder()
    ///     .endpoint("https://keywork.internal:50051")
    ///     .tls(ClientTlsConfig::new().ca_certificate(ca))
    ///     .build()?)
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: tonic::transport::ClientTlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Adds a header to every call, such as `authorization`.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }

    /// How long a submit is tried, with the same `request_id`, while servers are away. Default: 30 s.
    #[must_use]
    pub fn submit_deadline(mut self, deadline: Duration) -> Self {
        self.submit_deadline = deadline;
        self
    }

    /// How long one try of a call may take before it counts as unanswered. Default: 10 s.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Stands round every job that is offered; the first one added is the outermost.
    #[must_use]
    pub fn interceptor(mut self, interceptor: impl SubmitInterceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Makes the client. Nothing is connected yet.
    ///
    /// # Errors
    /// Options break their limits: all that do are named.
    pub fn build(self) -> Result<Client, Error> {
        let mut faults = Vec::new();
        let options = Options {
            endpoints: self.checked_endpoints(&mut faults),
            metadata: metadata(&self.metadata, &mut faults),
            submit_deadline: positive("submit_deadline", self.submit_deadline, &mut faults),
            call_timeout: positive("call_timeout", self.call_timeout, &mut faults),
            interceptors: Interceptors::new(self.interceptors),
        };
        if !faults.is_empty() {
            return Err(Error::invalid(faults));
        }
        Ok(Client {
            channels: Channels::new(options).into(),
        })
    }
}

impl ClientBuilder {
    fn checked_endpoints(&self, faults: &mut Vec<FieldViolation>) -> Vec<Endpoint> {
        if self.endpoints.is_empty() {
            let text = "must name at least one server, such as http://127.0.0.1:50051";
            faults.push(FieldViolation::new("endpoints", text));
        }
        let mut checked = Vec::new();
        for (number, uri) in self.endpoints.iter().enumerate() {
            match self.endpoint_of(uri) {
                Ok(endpoint) => checked.push(endpoint),
                Err(fault) => {
                    let text =
                        format!("must be such as http://127.0.0.1:50051, and {uri:?} {fault}");
                    faults.push(FieldViolation::new(format!("endpoints[{number}]"), text));
                }
            }
        }
        checked
    }

    /// The server of a URI, or what is wrong with it.
    fn endpoint_of(&self, uri: &str) -> Result<Endpoint, String> {
        let endpoint = Endpoint::from_shared(uri.to_owned()).map_err(|_| "is no URI")?;
        match endpoint.uri().scheme_str() {
            Some("http") | Some("https") => {}
            Some(_) | None => return Err("does not begin with http:// or https://".to_owned()),
        }
        if has_odd_port(endpoint.uri()) {
            return Err("has a port that is none from 0 to 65535".to_owned());
        }
        if endpoint
            .uri()
            .path_and_query()
            .is_some_and(|rest| rest != "/")
        {
            return Err("has a path".to_owned());
        }
        Ok(self
            .with_tls(endpoint)?
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true))
    }

    #[cfg(feature = "tls")]
    fn with_tls(&self, endpoint: Endpoint) -> Result<Endpoint, String> {
        let is_secure = endpoint.uri().scheme_str() == Some("https");
        match &self.tls {
            None if !is_secure => return Ok(endpoint),
            Some(_) if !is_secure => {
                return Err("does not begin with https://, although `tls` is set".to_owned());
            }
            Some(_) | None => {}
        }
        let roots = || tonic::transport::ClientTlsConfig::new().with_native_roots();
        endpoint
            .tls_config(self.tls.clone().unwrap_or_else(roots))
            .map_err(|error| format!("cannot be used with TLS: {}", deepest(&error)))
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    fn with_tls(&self, endpoint: Endpoint) -> Result<Endpoint, String> {
        if endpoint.uri().scheme_str() == Some("https") {
            return Err("needs the feature `tls` of keywork-sdk".to_owned());
        }
        Ok(endpoint)
    }
}

#[cfg(feature = "tls")]
fn deepest<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a dyn std::error::Error {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.last().unwrap_or(error)
}

/// A wait that is none would fail everything at once.
fn positive(option: &str, given: Duration, faults: &mut Vec<FieldViolation>) -> Duration {
    if given.is_zero() {
        let text = "must be longer than 0 s, and is 0 s";
        faults.push(FieldViolation::new(option, text));
    }
    wire::countable(given)
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

fn metadata(pairs: &[(String, String)], faults: &mut Vec<FieldViolation>) -> MetadataMap {
    let mut map = MetadataMap::new();
    for (name, value) in pairs {
        // The value may be a secret, and is not told.
        let mut bad = |text: &str| faults.push(FieldViolation::new("metadata", text));
        let Ok(key) = MetadataKey::<Ascii>::from_bytes(name.as_bytes()) else {
            bad(&format!("must have names of headers, and {name:?} is none"));
            continue;
        };
        match MetadataValue::try_from(value.as_str()) {
            Ok(value) => drop(map.append(key, value)),
            Err(_) => bad(&format!(
                "must be visible ASCII, and that of {name:?} is not"
            )),
        }
    }
    map
}

/// A port that is no port: it would be passed over, and the scheme's own be used.
fn has_odd_port(uri: &Uri) -> bool {
    let written = uri.authority().is_some_and(|authority| {
        let after_user = authority.as_str().rsplit('@').next();
        after_user.is_some_and(|text| text.len() > authority.host().len())
    });
    written && uri.port().is_none()
}

/// A server as people know it.
pub(crate) fn server_name(endpoint: &Endpoint) -> String {
    endpoint.uri().to_string().trim_end_matches('/').to_owned()
}

/// Connects to the server of this number, counted round, with a channel that nobody else uses.
pub(crate) async fn connect(
    options: &Options,
    number: usize,
) -> Result<WorkQueueClient<Transport>, Status> {
    let endpoint = &options.endpoints[number % options.endpoints.len()];
    let channel = endpoint
        .connect()
        .await
        .map_err(|error| Status::from_error(error.into()))?;
    Ok(work_queue(InterceptedService::new(
        channel,
        Headers(options.metadata.clone()),
    )))
}

/// The generated client, with this crate's limits.
pub(crate) fn work_queue(transport: Transport) -> WorkQueueClient<Transport> {
    WorkQueueClient::new(transport)
        .max_decoding_message_size(MESSAGE_BYTES)
        .max_encoding_message_size(MESSAGE_BYTES)
}

/// One lazily made channel for each server, and which of them is in use.
#[derive(Debug)]
pub(crate) struct Channels {
    options: Options,
    made: Vec<OnceLock<Channel>>,
    current: AtomicUsize,
    outage: Mutex<Outage>,
}

impl Channels {
    fn new(options: Options) -> Self {
        let made = options.endpoints.iter().map(|_| OnceLock::new()).collect();
        Self {
            options,
            made,
            current: AtomicUsize::new(0),
            outage: Mutex::default(),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn current(&self) -> Transport {
        let number = self.current.load(Ordering::Relaxed) % self.made.len();
        let channel =
            self.made[number].get_or_init(|| self.options.endpoints[number].connect_lazy());
        InterceptedService::new(channel.clone(), Headers(self.options.metadata.clone()))
    }

    /// What became of a call to the server of this place.
    pub(crate) fn error(&self, place: usize, status: Status) -> Error {
        Error::of_call(status, &self.name(place))
    }

    /// A call to the server of this place that got no answer in time.
    pub(crate) fn unanswered(&self, place: usize) -> Error {
        Error::unanswered(format!("{} did not answer in time", self.name(place)))
    }

    fn name(&self, place: usize) -> String {
        server_name(&self.options.endpoints[place % self.made.len()])
    }

    /// Warns now and then that submits are tried again: they may be for as long as their deadline.
    pub(crate) fn warn_of_outage(&self, place: usize, error: &Error) {
        if self.outage.lock().is_to_be_warned_of(Instant::now()) {
            let (endpoint, within) = (self.name(place), self.options.submit_deadline);
            let text = error.to_string();
            let error = text.strip_prefix(&endpoint).unwrap_or(&text).trim_start();
            tracing::warn!(target: "keywork_sdk::client", %endpoint, %error, ?within, "no answer to a submit: trying again");
        }
    }

    /// The server in use.
    pub(crate) fn place(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Turns to the next server, unless another call has turned away from this one already.
    pub(crate) fn turn_away(&self, place: usize) {
        let next = place.wrapping_add(1);
        let _ = self
            .current
            .compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}
