//! The settings of `keywork serve`: read loosely, checked together, so that all mistakes are reported at
//! once and before a port is bound.

use std::{
    env,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use keywork_jetstream::{Names, NatsOptions};

use crate::embedded;

const NAME_IT: &str = "name it with --nats-url; the embedded one is a single node";

/// The settings of `keywork serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Address and port to listen on.
    #[arg(
        long,
        env = "KEYWORK_LISTEN",
        default_value = "127.0.0.1:50051",
        value_name = "ADDRESS:PORT"
    )]
    pub listen: String,

    /// URLs of your NATS, one a node, separated by commas. Without it a nats-server is run for you.
    #[arg(
        long,
        env = "KEYWORK_NATS_URL",
        value_delimiter = ',',
        value_name = "URL"
    )]
    pub nats_url: Vec<String>,

    /// Credentials file for NATS.
    #[arg(long, env = "KEYWORK_NATS_CREDENTIALS", value_name = "FILE")]
    pub nats_credentials: Option<PathBuf>,

    /// User for NATS, together with the password.
    #[arg(long, env = "KEYWORK_NATS_USER", value_name = "NAME")]
    pub nats_user: Option<String>,

    /// Password for NATS.
    #[arg(
        long,
        env = "KEYWORK_NATS_PASSWORD",
        value_name = "PASSWORD",
        hide_env_values = true
    )]
    pub nats_password: Option<String>,

    /// Token for NATS.
    #[arg(
        long,
        env = "KEYWORK_NATS_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub nats_token: Option<String>,

    /// File with the nkey seed for NATS.
    #[arg(long, env = "KEYWORK_NATS_NKEY", value_name = "FILE")]
    pub nats_nkey: Option<PathBuf>,

    /// Certificates to trust for NATS, PEM. Asks for TLS.
    #[arg(long, env = "KEYWORK_NATS_TLS_CA", value_name = "FILE")]
    pub nats_tls_ca: Option<PathBuf>,

    /// Our certificate for NATS, PEM, together with its key. Asks for TLS.
    #[arg(long, env = "KEYWORK_NATS_TLS_CERT", value_name = "FILE")]
    pub nats_tls_cert: Option<PathBuf>,

    /// The key of our certificate, PEM.
    #[arg(long, env = "KEYWORK_NATS_TLS_KEY", value_name = "FILE")]
    pub nats_tls_key: Option<PathBuf>,

    /// How long to try to reach NATS at the start: 0s to 10m.
    #[arg(
        long,
        env = "KEYWORK_NATS_CONNECT_WITHIN",
        default_value = "5s",
        allow_hyphen_values = true,
        value_name = "TIME"
    )]
    pub nats_connect_within: String,

    /// Where the embedded NATS keeps its data. Default: keywork in the user's state folder.
    #[arg(long, env = "KEYWORK_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// The nats-server to embed. Default: beside keywork, in .tools/bin, or on PATH.
    #[arg(long, env = "KEYWORK_NATS_SERVER", value_name = "FILE")]
    pub nats_server: Option<PathBuf>,

    /// When the embedded NATS syncs to disk: "1s" (a power cut costs about a second) or "always".
    #[arg(
        long,
        env = "KEYWORK_SYNC",
        default_value = "1s",
        value_name = "1s|always"
    )]
    pub sync: String,

    /// What subjects and streams are named by: [a-z][a-z0-9]{0,15}.
    #[arg(
        long,
        env = "KEYWORK_SUBJECT_PREFIX",
        default_value = "work",
        value_name = "NAME"
    )]
    pub subject_prefix: String,

    /// How many NATS nodes keep a queue that is made here: 1, 3 or 5.
    #[arg(
        long,
        env = "KEYWORK_REPLICAS",
        allow_hyphen_values = true,
        default_value = "1",
        value_name = "N"
    )]
    pub replicas: String,

    /// Whether a queue is made when it is first named: true or false.
    #[arg(
        long,
        env = "KEYWORK_MAKE_QUEUES",
        default_value = "true",
        value_name = "BOOL"
    )]
    pub make_queues: String,

    /// File with the secret of lease tokens, at least 16 bytes. Default: the servers share one through NATS.
    #[arg(long, env = "KEYWORK_TOKEN_SECRET", value_name = "FILE")]
    pub token_secret: Option<PathBuf>,

    /// How long a stop may take: 0s to 10m.
    #[arg(
        long,
        env = "KEYWORK_STOP_GRACE",
        default_value = "10s",
        allow_hyphen_values = true,
        value_name = "TIME"
    )]
    pub stop_grace: String,

    /// What to log: error, warn, info, debug or trace, or a filter such as "info,keywork_engine=debug".
    #[arg(
        long,
        env = "KEYWORK_LOG",
        default_value = "info",
        value_name = "FILTER"
    )]
    pub log: String,

    /// How to log: text or json.
    #[arg(
        long,
        env = "KEYWORK_LOG_FORMAT",
        default_value = "text",
        value_name = "text|json"
    )]
    pub log_format: String,
}

/// Where the jobs are kept.
#[derive(Clone, Debug)]
pub enum Storage {
    /// A nats-server that is run for this server.
    Embedded(embedded::Settings),
    /// One that runs already.
    Nats(NatsOptions),
}

/// Checked settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where the jobs are kept.
    pub storage: Storage,
    /// How long to try to reach NATS.
    pub connect_within: Duration,
    /// What everything is named by.
    pub names: Names,
    /// How many nodes keep a queue.
    pub replicas: usize,
    /// Whether a queue is made when it is first named.
    pub make_queues: bool,
    /// The secret of lease tokens.
    pub token_secret: Option<Vec<u8>>,
    /// How long a stop may take.
    pub stop_grace: Duration,
    /// What to log.
    pub log: String,
    /// Whether to log JSON.
    pub log_json: bool,
}

/// Everything that is wrong with the settings.
#[derive(Debug, Default)]
pub struct Mistakes(Vec<String>);

impl std::fmt::Display for Mistakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Mistakes {
    fn note<T>(&mut self, flag: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|problem| self.0.push(format!("--{flag}: {problem}")))
            .ok()
    }
}

impl ServeArgs {
    /// Checks all settings.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn check(self) -> Result<Config, Mistakes> {
        let mut bad = Mistakes::default();
        let listen = bad.note("listen", to_address(&self.listen));
        let storage = self.storage(&mut bad);
        if self.nats_url.is_empty() {
            self.refuse_what_needs_nats(&mut bad);
        }
        let within = bad.note("nats-connect-within", to_time(&self.nats_connect_within));
        let names = Names::new(&self.subject_prefix).map_err(|v| v.problem);
        let names = bad.note("subject-prefix", names);
        let replicas = to_replicas(&self.replicas).and_then(|n| match n {
            2.. if self.nats_url.is_empty() => Err(format!("{n} need a NATS cluster: {NAME_IT}")),
            _ => Ok(n),
        });
        let replicas = bad.note("replicas", replicas);
        let make_queues = self
            .make_queues
            .parse()
            .map_err(|_| "must be true or false".into());
        let make_queues = bad.note("make-queues", make_queues);
        let secret = self.token_secret.map(|path| to_secret(&path)).transpose();
        let token_secret = bad.note("token-secret", secret);
        let stop_grace = bad.note("stop-grace", to_time(&self.stop_grace));
        let filter = tracing_subscriber::EnvFilter::try_new(&self.log);
        let log = bad.note("log", filter.map(|_| self.log).map_err(|e| e.to_string()));
        let log_json = bad.note("log-format", to_format(&self.log_format));
        let config = || {
            Some(Config {
                listen: listen?,
                storage: storage?,
                connect_within: within?,
                names: names?,
                replicas: replicas?,
                make_queues: make_queues?,
                token_secret: token_secret?,
                stop_grace: stop_grace?,
                log: log?,
                log_json: log_json?,
            })
        };
        config().filter(|_| bad.0.is_empty()).ok_or(bad)
    }

    fn storage(&self, bad: &mut Mistakes) -> Option<Storage> {
        let sync = bad.note("sync", to_sync(&self.sync));
        if !self.nats_url.is_empty() {
            return self.nats(bad).map(Storage::Nats);
        }
        let data_dir = self.data_dir.clone().or_else(state_dir);
        let missing = || "must be given: there is no home folder".to_owned();
        let data_dir = bad.note("data-dir", data_dir.ok_or_else(missing))?;
        let settings = embedded::Settings::new(data_dir);
        let nats_server = self.nats_server.clone();
        Some(Storage::Embedded(embedded::Settings {
            nats_server,
            sync: sync?,
            ..settings
        }))
    }

    /// What is for a NATS that runs already would say nothing to the embedded one.
    fn refuse_what_needs_nats(&self, bad: &mut Mistakes) {
        let given = [
            ("nats-credentials", self.nats_credentials.is_some()),
            ("nats-user", self.nats_user.is_some()),
            ("nats-password", self.nats_password.is_some()),
            ("nats-token", self.nats_token.is_some()),
            ("nats-nkey", self.nats_nkey.is_some()),
            ("nats-tls-ca", self.nats_tls_ca.is_some()),
            ("nats-tls-cert", self.nats_tls_cert.is_some()),
            ("nats-tls-key", self.nats_tls_key.is_some()),
        ];
        for (flag, _) in given.into_iter().filter(|(_, given)| *given) {
            bad.note::<()>(flag, Err(format!("is for a NATS of yours: {NAME_IT}")));
        }
    }

    fn nats(&self, bad: &mut Mistakes) -> Option<NatsOptions> {
        for url in &self.nats_url {
            bad.note("nats-url", is_nats_url(url));
        }
        let user = bad.note(
            "nats-user",
            both(
                self.nats_user.clone(),
                self.nats_password.clone(),
                "--nats-password",
            ),
        );
        let tls_cert = bad.note(
            "nats-tls-cert",
            both(
                self.nats_tls_cert.clone(),
                self.nats_tls_key.clone(),
                "--nats-tls-key",
            ),
        );
        let nkey = self.nats_nkey.as_ref().map(|path| {
            std::fs::read_to_string(path)
                .map_err(|e| format!("failed to read {}: {e}", path.display()))
        });
        let nkey = bad.note("nats-nkey", nkey.transpose());
        Some(NatsOptions {
            urls: self.nats_url.clone(),
            credentials: self.nats_credentials.clone(),
            user: user?,
            token: self.nats_token.clone(),
            nkey: nkey?.map(|seed| seed.trim().to_owned()),
            tls_ca: self.nats_tls_ca.clone(),
            tls_cert: tls_cert?,
            connect_within: Duration::ZERO,
        })
    }
}

fn both<A, B>(a: Option<A>, b: Option<B>, other: &str) -> Result<Option<(A, B)>, String> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some((a, b))),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err(format!("must be given together with {other}")),
    }
}

/// What is refused for its credentials is not repeated: it would end in a log.
fn is_nats_url(url: &str) -> Result<(), String> {
    let (scheme, place) = url.split_once("://").unwrap_or(("nats", url));
    if !["nats", "tls", "ws", "wss"].contains(&scheme) || place.is_empty() {
        return Err(format!(
            "{url} is no NATS URL, such as nats://127.0.0.1:4222"
        ));
    }
    if place.contains('@') {
        return Err(
            "must hold no credentials: give them by --nats-user and --nats-password, \
                    --nats-token or --nats-credentials"
                .to_owned(),
        );
    }
    Ok(())
}

fn to_address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text
        .to_socket_addrs()
        .map_err(|e| format!("{text} is no address: {e}"))?;
    found.next().ok_or_else(|| format!("{text} is no address"))
}

fn to_time(text: &str) -> Result<Duration, String> {
    let span: Result<jiff::SignedDuration, _> = text.parse();
    let time = span.ok().and_then(|span| Duration::try_from(span).ok());
    time.filter(|t| *t <= Duration::from_secs(600))
        .ok_or_else(|| format!("{text} is no time from 0s to 10m, such as 10s"))
}

fn to_replicas(text: &str) -> Result<usize, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        "5" => Ok(5),
        _ => Err(format!("{text} must be 1, 3 or 5")),
    }
}

fn to_sync(text: &str) -> Result<embedded::Sync, String> {
    match text {
        "1s" => Ok(embedded::Sync::EverySecond),
        "always" => Ok(embedded::Sync::Always),
        _ => Err(format!("{text} must be 1s or always")),
    }
}

fn to_format(text: &str) -> Result<bool, String> {
    match text {
        "text" => Ok(false),
        "json" => Ok(true),
        _ => Err(format!("{text} must be text or json")),
    }
}

fn to_secret(path: &std::path::Path) -> Result<Vec<u8>, String> {
    let secret =
        std::fs::read(path).map_err(|e| format!("failed to read {}: {e}", path.display()))?;
    if secret.len() < 16 {
        return Err(format!(
            "{} has {} bytes; the least is 16",
            path.display(),
            secret.len()
        ));
    }
    Ok(secret)
}

/// `keywork` in the user's state folder.
fn state_dir() -> Option<PathBuf> {
    let given = env::var_os("XDG_STATE_HOME")
        .filter(|d| !d.is_empty())
        .map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".local/state"));
    Some(given.or_else(home)?.join("keywork"))
}
