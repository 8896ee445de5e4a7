//! A network that can fail: a TCP proxy whose behaviour is switched while it runs.
//!
//! It owns the connections through it; what it holds back is delivered when the mode allows it again,
//! as a network does after an outage. It knows TCP, and enough of HTTP/2 to answer PINGs.

mod frames;
mod pump;

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use frames::Framing;

/// What the proxy does with the bytes that pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It passes them.
    Pass,
    /// It passes them this much later, both ways.
    Delay(Duration),
    /// It passes nothing, either way, and closes nothing: a cable was pulled.
    BlackHole,
    /// It passes what the client sends, and holds what the server sends.
    HoldFromServer,
    /// It passes nothing, but answers the HTTP/2 PINGs of both sides: a middle box that has lost its way.
    /// Only for a proxy made by [`FaultProxy::start_http2`]; as [`Mode::BlackHole`] on another.
    AnswerPings,
    /// It resets the connections that there are, and each new one.
    Reset,
}

/// A TCP proxy on a loopback port of its own; dropping it closes the connections through it.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    // Dropping the set aborts the accepting task, and with it those of the connections.
    _tasks: JoinSet<()>,
}

impl FaultProxy {
    /// A proxy in front of `upstream` (`127.0.0.1:4222`), passing everything.
    ///
    /// # Panics
    ///
    /// When it cannot listen.
    pub async fn start(upstream: impl Into<String>) -> Self {
        Self::start_framed(upstream.into(), Framing::Bytes).await
    }

    /// As [`FaultProxy::start`], for HTTP/2 without TLS: it knows [`Mode::AnswerPings`].
    ///
    /// # Panics
    ///
    /// When it cannot listen.
    pub async fn start_http2(upstream: impl Into<String>) -> Self {
        Self::start_framed(upstream.into(), Framing::Http2).await
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Switches the mode, for the connections that there are and for new ones.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    async fn start_framed(upstream: String, framing: Framing) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let (address, listener) = listener
            .and_then(|listener| Ok((listener.local_addr()?, listener)))
            .unwrap_or_else(|error| panic!("the proxy failed to listen: {error}"));
        let (mode, watched) = watch::channel(Mode::Pass);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, upstream, framing, watched));
        Self {
            address,
            mode,
            _tasks: tasks,
        }
    }
}

async fn accept(
    listener: TcpListener,
    upstream: String,
    framing: Framing,
    mode: watch::Receiver<Mode>,
) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(serve(client, upstream.clone(), framing, mode.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// One connection, from its first byte to its end, or to its reset.
async fn serve(
    mut client: TcpStream,
    upstream: String,
    framing: Framing,
    mode: watch::Receiver<Mode>,
) {
    let mut server = None;
    let was_reset = tokio::select! {
        // An error on either side ends both, as it does without a proxy.
        _ = relay(&mut client, &mut server, &upstream, framing, mode.clone()) => false,
        () = reset(mode) => true,
    };
    if was_reset {
        // Dropped so, a socket sends RST and not FIN. It fails only on a socket that is closed.
        for socket in server.iter().chain([&client]) {
            let _ = socket.set_zero_linger();
        }
    }
}

async fn relay(
    client: &mut TcpStream,
    server: &mut Option<TcpStream>,
    upstream: &str,
    framing: Framing,
    mut mode: watch::Receiver<Mode>,
) -> io::Result<()> {
    // Where nothing passes, the server does not hear of a new connection either.
    let _ = mode
        .wait_for(|mode| !matches!(mode, Mode::BlackHole | Mode::AnswerPings))
        .await;
    let server = server.insert(TcpStream::connect(upstream).await?);
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    pump::both_ways(client, server, framing, mode).await
}

async fn reset(mut mode: watch::Receiver<Mode>) {
    // The error says that the proxy is being dropped, which resets nothing.
    if mode.wait_for(|mode| *mode == Mode::Reset).await.is_err() {
        std::future::pending::<()>().await;
    }
}
