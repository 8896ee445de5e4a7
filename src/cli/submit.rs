//! `keywork submit`: offers one job; many of them in `jsonl.rs`.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::{ValueEnum, builder::RangedI64ValueParser};
use keywork_model::limits;
use keywork_sdk::{Client, Error, Submit, SubmitOutcome, Uuid, client::OnConflict};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::{
    connection::Connection,
    describe::{job_json, outcome, state},
    duration::{self, show},
    failure::{Doing, Failure, Kind},
    jsonl,
    output::{Output, shown},
};

/// Arguments of `keywork submit`.
#[derive(clap::Args, Debug)]
#[command(override_usage = "\
keywork submit [OPTIONS] <QUEUE> <KEY> [--payload <TEXT> | --file <PATH> | -]
       keywork submit [OPTIONS] <QUEUE> --jsonl <PATH>")]
pub struct Args {
    /// The queue
    pub(super) queue: String,
    /// The key: at most one job of a key is outstanding in a queue
    #[arg(required_unless_present = "jsonl", conflicts_with = "jsonl")]
    key: Option<String>,
    /// A dash reads the payload from stdin
    #[arg(value_name = "-", value_parser = ["-"], conflicts_with_all = ["payload", "file", "jsonl"])]
    stdin: Option<String>,
    /// The payload
    #[arg(long, env = "KEYWORK_SUBMIT_PAYLOAD", value_name = "TEXT", conflicts_with_all = ["file", "jsonl"])]
    payload: Option<String>,
    /// Read the payload from a file
    #[arg(
        long,
        env = "KEYWORK_SUBMIT_FILE",
        value_name = "PATH",
        conflicts_with = "jsonl"
    )]
    file: Option<PathBuf>,
    /// Offer many jobs: one JSON object a line, with key, payload or payload_base64, attributes,
    /// content_type, request_id, delay, start_at, expires_at, max_attempts, on_conflict. A dash is stdin
    #[arg(
        long,
        env = "KEYWORK_SUBMIT_JSONL",
        value_name = "PATH",
        conflicts_with = "request_id"
    )]
    pub(super) jsonl: Option<PathBuf>,
    #[command(flatten)]
    pub(super) options: Options,
    /// A UUID that names this submit: repeating it finds the same job
    #[arg(long, env = "KEYWORK_SUBMIT_REQUEST_ID", value_name = "UUID", value_parser = request_id)]
    request_id: Option<Uuid>,
}

/// Options of one job; with `--jsonl`, what holds for lines that do not say otherwise.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Options {
    /// An attribute; may be given several times
    #[arg(long = "attribute", env = "KEYWORK_SUBMIT_ATTRIBUTE", value_name = "NAME=VALUE", value_parser = pair)]
    attributes: Vec<(String, String)>,
    /// Media type of the payload
    #[arg(long, env = "KEYWORK_SUBMIT_CONTENT_TYPE", value_name = "TYPE")]
    content_type: Option<String>,
    /// Start no sooner than this long from now; the key is taken at once
    #[arg(long, env = "KEYWORK_SUBMIT_DELAY", value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true, conflicts_with = "start_at")]
    delay: Option<Duration>,
    /// Start no sooner than at this time, such as 2030-01-31T08:00:00Z
    #[arg(long, env = "KEYWORK_SUBMIT_START_AT", value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    start_at: Option<SystemTime>,
    /// Make it a dead letter when it has not started by then
    #[arg(long, env = "KEYWORK_SUBMIT_EXPIRES_AT", value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    expires_at: Option<SystemTime>,
    /// Attempts before it becomes a dead letter: 1 to 1,000 [default: the queue's]
    #[arg(long, env = "KEYWORK_SUBMIT_MAX_ATTEMPTS", value_name = "N", value_parser = attempts(), allow_hyphen_values = true)]
    max_attempts: Option<u32>,
    /// What to do when the key is busy [default: reject]
    #[arg(long, env = "KEYWORK_SUBMIT_ON_CONFLICT", value_enum)]
    on_conflict: Option<Conflict>,
}

/// What to do when the key is busy.
#[derive(Clone, Copy, Debug, serde::Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum Conflict {
    /// Say which job holds it
    Reject,
    /// Run the key once more after that job
    Rerun,
    /// Take the place of a job that has not started
    Replace,
    /// Fail
    Fail,
}

impl From<Conflict> for OnConflict {
    fn from(conflict: Conflict) -> Self {
        match conflict {
            Conflict::Reject => Self::Reject,
            Conflict::Rerun => Self::Rerun,
            Conflict::Replace => Self::Replace,
            Conflict::Fail => Self::Fail,
        }
    }
}

impl Options {
    /// The same, for a line that says itself when its job starts.
    pub(super) fn without_start(&self) -> Self {
        Self {
            delay: None,
            start_at: None,
            ..self.clone()
        }
    }

    /// Sets what was given.
    pub(super) fn apply(&self, mut submit: Submit) -> Submit {
        for (name, value) in &self.attributes {
            submit = submit.attribute(name, value);
        }
        if let Some(content_type) = &self.content_type {
            submit = submit.content_type(content_type);
        }
        if let Some(delay) = self.delay {
            submit = submit.delay(delay);
        }
        if let Some(at) = self.start_at {
            submit = submit.start_at(at);
        }
        if let Some(at) = self.expires_at {
            submit = submit.expires_at(at);
        }
        if let Some(attempts) = self.max_attempts {
            submit = submit.max_attempts(attempts);
        }
        match self.on_conflict {
            Some(conflict) => submit.on_conflict(conflict.into()),
            None => submit,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Reads a time as RFC 3339.
pub(super) fn time(text: &str) -> Result<SystemTime, String> {
    let time = text.parse::<prost_types::Timestamp>().ok();
    time.and_then(|time| time.try_into().ok())
        .ok_or_else(|| format!("{text:?} is no time: write such as 2030-01-31T08:00:00Z"))
}

/// Reads a request id.
pub(super) fn request_id(text: &str) -> Result<Uuid, String> {
    match Uuid::parse_str(text) {
        Ok(id) if id.is_nil() => Err("must not be all zeros: it would name any submit".to_owned()),
        Ok(id) => Ok(id),
        Err(_) => Err(format!(
            "{text:?} is no UUID: write such as 0190b0a4-66f0-7b8e-9d3a-5c1f0a2e4d68"
        )),
    }
}

/// Reads how many attempts there may be.
pub(super) fn attempts() -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(1..=i64::from(limits::MAX_ATTEMPTS))
}

pub(super) async fn run(args: Args, connection: &Connection) -> Result<ExitCode, Failure> {
    let client = connection.client()?;
    match args.key.clone() {
        Some(key) => one(args, &client, connection.output(), key).await,
        None => jsonl::run(args, &client, connection.output()).await,
    }
}

async fn one(
    args: Args,
    client: &Client,
    output: Output,
    key: String,
) -> Result<ExitCode, Failure> {
    let mut submit = args
        .options
        .apply(Submit::new(&args.queue, &key).payload(payload(&args).await?));
    if let Some(id) = args.request_id {
        submit = submit.request_id(id);
    }
    let answer =
        client
            .submit(submit)
            .await
            .doing(format_args!("submit {}/{}", args.queue, shown(&key)))?;
    tell(output, &answer)?;
    Ok(if answer.is_accepted() {
        ExitCode::SUCCESS
    } else {
        Kind::Busy.into()
    })
}

async fn payload(args: &Args) -> Result<Vec<u8>, Failure> {
    if args.stdin.is_some() {
        let mut payload = Vec::new();
        tokio::io::stdin()
            .read_to_end(&mut payload)
            .await
            .doing("read the payload from stdin")?;
        return Ok(payload);
    }
    match &args.file {
        Some(path) => tokio::fs::read(path)
            .await
            .doing(format_args!("read {}", path.display())),
        None => Ok(args.payload.clone().unwrap_or_default().into_bytes()),
    }
}

fn tell(output: Output, answer: &SubmitOutcome) -> Result<(), Failure> {
    output.result(outcome_text(answer), &outcome_json(answer))
}

/// An outcome for people.
fn outcome_text(answer: &SubmitOutcome) -> String {
    let job = answer.job();
    let named = format!("{}/{} as {}", job.queue, shown(&job.key), job.id);
    match answer {
        SubmitOutcome::Created(_) => format!("created {named}"),
        SubmitOutcome::Duplicate(_) => format!(
            "accepted before: {named}, {}",
            state(job.state).to_lowercase()
        ),
        SubmitOutcome::RerunScheduled(_) => format!("will run once more after {named}"),
        SubmitOutcome::Replaced(_) => format!("replaced {named}"),
        SubmitOutcome::AlreadyOutstanding(_) | _ => {
            let age = job
                .age
                .map(|age| format!(", {} old", show(age)))
                .unwrap_or_default();
            let state = state(job.state).to_lowercase();
            format!(
                "busy: {named}, {state}, attempt {} of {}{age}",
                job.attempt, job.max_attempts
            )
        }
    }
}

/// An outcome as JSON.
pub(super) fn outcome_json(answer: &SubmitOutcome) -> Value {
    json!({"outcome": outcome(answer), "job": job_json(answer.job())})
}

/// An error as JSON, with the names of `ItemError`.
pub(super) fn error_json(error: &Error) -> Value {
    json!({
        "code": error.code() as i32,
        "message": error.message(),
        "reason": error.reason(),
        "field": error.violations().first().map(|violation| violation.field.as_str()),
        "side_effects_unknown": !error.has_no_side_effects(),
    })
}
