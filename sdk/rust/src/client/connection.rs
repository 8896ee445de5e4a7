//! How a client reaches servers: lazily, one channel each, all settings of HTTP/2 in one place.

use std::{
    fmt::Display,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint, Uri},
};

use super::{Client, Options, SubmitInterceptor, intercept::Interceptors};
use crate::{Error, raw::work_queue_client::WorkQueueClient};

/// A stream's window: what a server may send ahead of our reading it.
const STREAM_WINDOW: u32 = 4 << 20;
/// The connection's window. A small one, with many unread streams, kills the connection.
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Largest message taken: a delivery of a thousand jobs with payloads is large.
const MESSAGE_BYTES: usize = 256 << 20;
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
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            metadata: Vec::new(),
            submit_deadline: Duration::from_secs(30),
            call_timeout: Duration::from_secs(10),
            interceptors: Vec::new(),
        }
    }
}

impl ClientBuilder {
    /// Adds a server, such as `http://127.0.0.1:50051`; `https://` needs the feature `tls`. With several,
    /// an outage of one turns to the next. Default: `http://127.0.0.1:50051`.
    #[must_use]
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoints.push(endpoint.into());
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
    /// An endpoint is not a URI, or a header is not one.
    pub fn build(mut self) -> Result<Client, Error> {
        if self.endpoints.is_empty() {
            self.endpoints.push("http://127.0.0.1:50051".to_owned());
        }
        let endpoints = self
            .endpoints
            .iter()
            .map(|uri| endpoint(uri))
            .collect::<Result<_, _>>()?;
        let options = Options {
            endpoints,
            metadata: metadata(&self.metadata)?,
            submit_deadline: self.submit_deadline,
            call_timeout: self.call_timeout,
            interceptors: Interceptors::new(self.interceptors),
        };
        Ok(Client {
            channels: Channels::new(options).into(),
        })
    }
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

fn metadata(pairs: &[(String, String)]) -> Result<MetadataMap, Error> {
    let mut map = MetadataMap::new();
    for (name, value) in pairs {
        let bad = |_| {
            Error::local(
                Code::InvalidArgument,
                format!("failed to read the header {name}"),
            )
        };
        let key = MetadataKey::<Ascii>::from_bytes(name.as_bytes()).map_err(|_| bad(()))?;
        let value = MetadataValue::try_from(value.as_str()).map_err(|_| bad(()))?;
        map.append(key, value);
    }
    Ok(map)
}

fn endpoint(uri: &str) -> Result<Endpoint, Error> {
    let bad = |cause: &dyn Display| {
        let like = "write such as http://127.0.0.1:50051";
        Error::local(
            Code::InvalidArgument,
            format!("failed to read the endpoint {uri:?}: {cause}; {like}"),
        )
    };
    let endpoint = Endpoint::from_shared(uri.to_owned()).map_err(|_| bad(&"it is no URI"))?;
    match endpoint.uri().scheme_str() {
        Some("http") => {}
        Some("https") if cfg!(feature = "tls") => {}
        Some("https") => return Err(bad(&"this build has no TLS")),
        Some(_) | None => return Err(bad(&"it does not begin with http://")),
    }
    if has_odd_port(endpoint.uri()) {
        return Err(bad(&"its port is none from 0 to 65535"));
    }
    Ok(with_tls(endpoint)
        .map_err(|cause| bad(&cause))?
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// A port that is no port: it would be passed over, and the scheme's own be used.
fn has_odd_port(uri: &Uri) -> bool {
    let written = uri.authority().is_some_and(|authority| {
        let after_user = authority.as_str().rsplit('@').next();
        after_user.is_some_and(|text| text.len() > authority.host().len())
    });
    written && uri.port().is_none()
}

#[cfg(feature = "tls")]
fn with_tls(endpoint: Endpoint) -> Result<Endpoint, tonic::transport::Error> {
    if endpoint.uri().scheme_str() != Some("https") {
        return Ok(endpoint);
    }
    endpoint.tls_config(tonic::transport::ClientTlsConfig::new().with_native_roots())
}

#[cfg(not(feature = "tls"))]
fn with_tls(endpoint: Endpoint) -> Result<Endpoint, tonic::transport::Error> {
    Ok(endpoint)
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
}

impl Channels {
    fn new(options: Options) -> Self {
        let made = options.endpoints.iter().map(|_| OnceLock::new()).collect();
        Self {
            options,
            made,
            current: AtomicUsize::new(0),
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
