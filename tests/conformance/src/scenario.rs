//! A scenario: data, read from `scenarios/*.toml`.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value};

/// How long something that is expected may take, where a step does not say.
const SOON_MS: u64 = 10_000;

/// What was wrong with the scenarios.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScenarioError {
    #[error("failed to read {file}: {source}")]
    Unreadable { file: String, source: io::Error },
    #[error("failed to understand {file}: {source}")]
    Malformed {
        file: String,
        source: Box<toml::de::Error>,
    },
}

/// One scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) id: String,
    /// What must hold.
    pub(crate) title: String,
    /// Along which path it is played in a quick run; none: not at all.
    pub(crate) quick: Option<Route>,
    /// What an SDK must be able to do for it.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// Along which paths it is played.
    pub(crate) paths: Vec<Route>,
    /// About how long it takes: the long ones begin first.
    #[serde(default)]
    pub(crate) seconds: u64,
    #[serde(default)]
    pub(crate) queue: QueueSettings,
    pub(crate) steps: Vec<Step>,
}

/// How workers come to the server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Route {
    /// Straight to the real server.
    Direct,
    /// Through the fault proxy.
    Proxied,
    /// To a server that misbehaves on purpose.
    Scripted,
}

impl Route {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Proxied => "proxied",
            Self::Scripted => "scripted",
        }
    }
}

/// The scenario's own queue.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueSettings {
    pub(crate) lease_ms: Option<u64>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) backoff_ms: Option<u64>,
    pub(crate) max_depth: Option<u64>,
    pub(crate) max_payload_bytes: Option<u32>,
    pub(crate) max_run_ms: Option<u64>,
    pub(crate) disconnect_grace_ms: Option<u64>,
    /// The scenario makes its queue itself, or none.
    #[serde(default)]
    pub(crate) unmade: bool,
}

/// One step. Steps are played in order; none begins before the one before it is done.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Step {
    /// Starts a worker process with its worker, and waits until it is ready.
    Start(Start),
    /// Starts a process with a client alone.
    Connect(Connect),
    /// Sends a command; its answer is not waited for.
    Tell(Tell),
    /// Sends a command and expects its answer.
    Ask(Ask),
    /// Ends waiting handlers.
    Finish(Finish),
    /// Sends a signal to a worker process: TERM, INT, KILL, STOP, CONT.
    Signal {
        #[serde(default = "first")]
        worker: String,
        signal: String,
    },
    /// Waits for an event that has not been taken by an earlier step.
    Expect(Expect),
    /// Waits for one event, before which another must not come.
    Never(Never),
    /// For so long, none of these events comes.
    Quiet { for_ms: u64, never: Vec<Value> },
    /// Names this moment.
    Mark {
        #[serde(rename = "as")]
        label: String,
    },
    /// The runner's own client submits, straight to the server.
    Submit(Submit),
    /// The runner's own client looks after a queue: `create`, `delete`, `pause`, `resume`, `purge`, `update`.
    Admin(Admin),
    /// Until the job of a key is in this state at the server; `""`: the key is free.
    Job {
        key: String,
        state: String,
        attempt: Option<u32>,
        #[serde(default = "soon")]
        within_ms: u64,
    },
    /// Until the queue has so many outstanding jobs and dead letters.
    Left {
        outstanding: Option<u64>,
        dead: Option<u64>,
        #[serde(default = "soon")]
        within_ms: u64,
    },
    /// The real server: `kill`, `terminate`, `begin_to_terminate`, `restart`, `stop`, `continue`.
    Server { what: Power },
    /// The real nats-server: `kill`, `terminate`, `restart`, `stop`, `continue`.
    Nats { what: Power },
    /// The proxy's mode.
    Proxy {
        mode: ProxyMode,
        #[serde(default)]
        ms: u64,
    },
    /// What the scripted server does from now on.
    Script(Script),
    /// Until the scripted server has seen so much of something, or so much more from now on.
    Seen {
        what: SeenWhat,
        #[serde(default)]
        least: usize,
        most: Option<usize>,
        #[serde(default)]
        more: usize,
        #[serde(default = "soon")]
        within_ms: u64,
    },
    /// The scripted server sees at least and at most so much more of something in so long.
    Rate {
        what: SeenWhat,
        least: usize,
        most: usize,
        for_ms: u64,
    },
    /// Steps again and again, once for each of `over`; `$it` is that one.
    Repeat { over: Vec<Value>, steps: Vec<Step> },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    #[serde(default = "first")]
    pub(crate) worker: String,
    /// Otherwise than the scenario's own path.
    pub(crate) via: Option<Route>,
    /// False: it is not waited for.
    #[serde(default = "yes")]
    pub(crate) ready: bool,
    /// Default: the scenario's own queue.
    pub(crate) queues: Option<Value>,
    #[serde(default)]
    pub(crate) client: Map<String, Value>,
    #[serde(default = "four")]
    pub(crate) concurrency: u64,
    pub(crate) worker_id: Option<String>,
    pub(crate) shutdown_grace_ms: Option<u64>,
    pub(crate) handler: Option<String>,
    pub(crate) interceptors: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Connect {
    #[serde(default = "first")]
    pub(crate) worker: String,
    pub(crate) via: Option<Route>,
    #[serde(default)]
    pub(crate) client: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tell {
    #[serde(default = "first")]
    pub(crate) worker: String,
    pub(crate) command: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    #[serde(default = "first")]
    pub(crate) worker: String,
    pub(crate) command: Map<String, Value>,
    pub(crate) see: Value,
    #[serde(default = "soon")]
    pub(crate) within_ms: u64,
    /// Names for parts of the answer, by JSON pointer.
    #[serde(default)]
    pub(crate) save: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finish {
    #[serde(default = "first")]
    pub(crate) worker: String,
    pub(crate) keys: Vec<String>,
    #[serde(default = "complete")]
    pub(crate) with: String,
    pub(crate) delay_ms: Option<u64>,
    pub(crate) text: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    /// Default: whichever.
    pub(crate) worker: Option<String>,
    pub(crate) see: Value,
    #[serde(default = "soon")]
    pub(crate) within_ms: u64,
    /// So many of them.
    #[serde(default = "one")]
    pub(crate) count: usize,
    /// Only what came after the moment of this name.
    pub(crate) after: Option<String>,
    /// Names the moment of the event.
    #[serde(rename = "as")]
    pub(crate) label: Option<String>,
    /// The moment that these two count from.
    pub(crate) since: Option<String>,
    pub(crate) least_ms: Option<u64>,
    pub(crate) most_ms: Option<u64>,
    #[serde(default)]
    pub(crate) save: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Never {
    pub(crate) worker: Option<String>,
    pub(crate) see: Value,
    /// Default: from this step on.
    pub(crate) after: Option<String>,
    pub(crate) until: Expect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Submit {
    /// These keys, or `count` of them from `prefix`.
    #[serde(default)]
    pub(crate) keys: Vec<String>,
    #[serde(default)]
    pub(crate) count: usize,
    #[serde(default = "key")]
    pub(crate) prefix: String,
    #[serde(default)]
    pub(crate) payload: String,
    #[serde(default)]
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) delay_ms: Option<u64>,
    pub(crate) max_attempts: Option<u32>,
    /// Default: CREATED.
    #[serde(default = "created")]
    pub(crate) outcome: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Admin {
    pub(crate) what: AdminWhat,
    pub(crate) lease_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AdminWhat {
    Create,
    Delete,
    Pause,
    Resume,
    Purge,
    Update,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Power {
    Kill,
    Terminate,
    BeginToTerminate,
    Restart,
    Stop,
    Continue,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProxyMode {
    Pass,
    Delay,
    BlackHole,
    HoldFromServer,
    AnswerPings,
    Reset,
}

/// Members that are set change the script; the last ones act at once.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Script {
    pub(crate) unwelcome_sessions: Option<u32>,
    /// gRPC codes, one for each of the next sessions.
    pub(crate) refuse_sessions: Vec<String>,
    /// Every session is refused with this code from now on; `""`: none.
    pub(crate) refuse_all: Option<String>,
    pub(crate) ignore_heartbeats: Option<bool>,
    pub(crate) unconfirmed_heartbeats: Option<bool>,
    pub(crate) silent: Option<bool>,
    pub(crate) beyond_capacity: Option<u32>,
    pub(crate) unanswered_settlements: Option<u32>,
    pub(crate) settlement_answers: Vec<String>,
    /// `unavailable`, `answer_lost`, `broken`, or a gRPC code.
    pub(crate) submit_faults: Vec<String>,
    /// Ends every session with this code; `OK`: without an error.
    pub(crate) end_sessions: Option<String>,
    pub(crate) go_away: Option<String>,
    pub(crate) reconnect_ms: u64,
    pub(crate) lose: Option<Lose>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lose {
    pub(crate) key: String,
    pub(crate) reason: String,
    #[serde(default = "yes")]
    pub(crate) tell: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SeenWhat {
    /// Streams that were asked for, refused ones too.
    Streams,
    Hellos,
    Heartbeats,
    Settlements,
    Delivered,
    Drains,
    Submits,
    Expired,
    Sessions,
}

impl Scenario {
    /// One without steps: what figures are taken in.
    pub(crate) fn blank() -> Self {
        Self {
            id: "figures".to_owned(),
            title: String::new(),
            quick: None,
            needs: Vec::new(),
            paths: Vec::new(),
            seconds: 0,
            queue: QueueSettings::default(),
            steps: Vec::new(),
        }
    }

    /// Reads all scenarios of a folder, ordered by id.
    pub(crate) fn read_all(folder: &Path) -> Result<Vec<Self>, ScenarioError> {
        let unreadable = |source| ScenarioError::Unreadable {
            file: folder.display().to_string(),
            source,
        };
        let mut scenarios = Vec::new();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "toml")
            {
                scenarios.push(Self::read(&path)?);
            }
        }
        scenarios.sort_by_key(|scenario: &Self| natural(&scenario.id));
        Ok(scenarios)
    }

    fn read(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|source| ScenarioError::Unreadable {
            file: file.clone(),
            source,
        })?;
        toml::from_str(&text).map_err(|source| ScenarioError::Malformed {
            file,
            source: source.into(),
        })
    }
}

/// `S10` after `S9`.
fn natural(id: &str) -> (String, u32, String) {
    let letters: String = id.chars().take_while(|c| !c.is_ascii_digit()).collect();
    let digits: String = id[letters.len()..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let rest = id[letters.len() + digits.len()..].to_owned();
    (letters, digits.parse().unwrap_or_default(), rest)
}

fn first() -> String {
    "a".to_owned()
}

fn complete() -> String {
    "complete".to_owned()
}

fn created() -> String {
    "CREATED".to_owned()
}

fn key() -> String {
    "k".to_owned()
}

fn soon() -> u64 {
    SOON_MS
}

fn yes() -> bool {
    true
}

fn four() -> u64 {
    4
}

fn one() -> usize {
    1
}
