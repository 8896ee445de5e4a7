//! What the nats-server is told: its configuration file, port and credential.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

use rand::distr::{Alphanumeric, SampleString};

use super::data_dir::DataDir;

/// When what was stored is synced to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Every second: a power cut costs at most about the last second.
    #[default]
    EverySecond,
    /// Before each answer: a power cut costs nothing that was answered, and everything is slower.
    Always,
}

impl Sync {
    fn interval(self) -> &'static str {
        match self {
            Self::EverySecond => "1s",
            Self::Always => "always",
        }
    }
}

/// A user and a password, made anew for each start.
#[derive(Clone)]
pub struct Credential {
    /// The user.
    pub user: String,
    /// The password; it is in no log and on no command line.
    pub password: String,
}

impl Credential {
    pub(super) fn random() -> Self {
        let password = Alphanumeric.sample_string(&mut rand::rng(), 32);
        Self {
            user: "keywork".into(),
            password,
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A port that nobody listens on.
///
/// It is below those that systems hand out by themselves: while nats-server is away, no outgoing
/// connection takes its port, and no client that dials the port meets itself.
pub(super) fn free_port() -> u16 {
    const TRIES: usize = 1000;
    std::iter::repeat_with(|| rand::random_range(12_000..32_000))
        .take(TRIES)
        .find(|port| is_free((Ipv4Addr::LOCALHOST, *port).into()))
        // With none free, starting fails with the reason.
        .unwrap_or(12_000)
}

/// Whether nobody listens there.
pub(super) fn is_free(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_ok()
}

/// The whole configuration file.
pub(super) fn text(
    dir: &DataDir,
    address: SocketAddr,
    credential: &Credential,
    sync: Sync,
) -> String {
    // nats-server makes the directory `jetstream` in its store directory by itself.
    format!(
        "# Written by keywork at each start.\n\
         server_name: keywork\n\
         listen: {listen}\n\
         log_file: {log}\n\
         logfile_size_limit: 16MB\n\
         logfile_max_num: 4\n\
         max_payload: 8MB\n\
         authorization {{ user: {user}, password: {password} }}\n\
         jetstream {{ store_dir: {store}, sync_interval: {sync} }}\n",
        listen = quoted(&address.to_string()),
        log = quoted(&dir.log_file().to_string_lossy()),
        user = quoted(&credential.user),
        password = quoted(&credential.password),
        store = quoted(&dir.path().to_string_lossy()),
        sync = quoted(sync.interval()),
    )
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}
