//! Commands as the runner writes them.

use std::{collections::HashMap, time::Duration};

use keywork_sdk::{Client, Error, otel::TraceContext};
use serde::Deserialize;
use serde_json::Value;

use crate::{emit::refuse, intercept::Noting};

/// A command, and what its answer repeats.
pub(crate) struct Envelope {
    pub(crate) call: String,
    pub(crate) command: Command,
}

impl Envelope {
    /// Reads one line; one that is not understood is answered, and none.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        let call = value["call"].as_str().unwrap_or_default().to_owned();
        match serde_json::from_value(value) {
            Ok(command) => Some(Self { call, command }),
            Err(error) => {
                refuse(&call, "UNSUPPORTED", &error.to_string());
                None
            }
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Command {
    Connect(Connect),
    Start(Start),
    Submit(Submit),
    SubmitMany(SubmitMany),
    Finish(Finish),
    Drain,
    ReleaseAll,
    Healthy,
    Stats,
    Call(Call),
    Throughput(Throughput),
    Exit,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Connect {
    endpoints: Vec<String>,
    submit_deadline_ms: Option<u64>,
    call_timeout_ms: Option<u64>,
    #[serde(default)]
    interceptors: bool,
}

impl Connect {
    pub(crate) fn client(self) -> Result<Client, Error> {
        let mut builder = Client::builder().interceptor(TraceContext::new());
        if self.interceptors {
            builder = builder.interceptor(Noting);
        }
        for endpoint in self.endpoints {
            builder = builder.endpoint(endpoint);
        }
        if let Some(limit) = self.submit_deadline_ms {
            builder = builder.submit_deadline(Duration::from_millis(limit));
        }
        if let Some(limit) = self.call_timeout_ms {
            builder = builder.call_timeout(Duration::from_millis(limit));
        }
        builder.build()
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Start {
    pub(crate) queues: Vec<Subscribed>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) worker_id: Option<String>,
    pub(crate) shutdown_grace_ms: Option<u64>,
    #[serde(default)]
    pub(crate) interceptors: bool,
    #[serde(default)]
    pub(crate) handler: HandlerKind,
}

/// A queue by its name, or with a weight.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Subscribed {
    Name(String),
    Weighted { queue: String, weight: u32 },
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HandlerKind {
    #[default]
    Wait,
    Complete,
    Throw,
    Burn,
    Deaf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Submit {
    pub(crate) queue: String,
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) payload: String,
    #[serde(default)]
    pub(crate) attributes: HashMap<String, String>,
    pub(crate) request_id: Option<String>,
    pub(crate) on_conflict: Option<Conflict>,
    pub(crate) delay_ms: Option<u64>,
    pub(crate) expires_in_ms: Option<u64>,
    pub(crate) max_attempts: Option<u32>,
    /// The context in which it is made.
    pub(crate) traceparent: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Conflict {
    Reject,
    Rerun,
    Replace,
    Fail,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SubmitMany {
    pub(crate) queue: String,
    pub(crate) keys: Vec<String>,
    #[serde(default)]
    pub(crate) payload: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Throughput {
    pub(crate) queue: String,
    pub(crate) jobs: usize,
    pub(crate) prefix: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Finish {
    pub(crate) key: String,
    #[serde(rename = "with")]
    pub(crate) how: FinishWith,
    pub(crate) text: Option<String>,
    pub(crate) delay_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FinishWith {
    Complete,
    Error,
    Retry,
    Fail,
    Release,
    Rerun,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Call {
    pub(crate) rpc: String,
    #[serde(default)]
    pub(crate) args: Value,
}
