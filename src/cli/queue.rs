//! `keywork queue`: making, changing and looking at queues.

use std::{process::ExitCode, time::Duration};

use clap::{Subcommand, builder::RangedI64ValueParser};
use keywork_model::limits;
use keywork_sdk::{
    Client,
    client::{Page, Queue, QueueConfig},
};
use serde_json::json;

use super::{
    connection::Connection,
    describe::{queue_json, queue_text},
    duration,
    failure::{Doing, Failure},
    output::{Output, counted, thousands},
    submit::attempts,
};

/// How many queues are asked for at once.
const PAGE: u32 = 500;

/// Arguments of `keywork queue`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a queue; what is not given takes its default
    Create {
        /// The name: [a-z0-9][a-z0-9_-]{0,63}
        name: String,
        #[command(flatten)]
        config: Config,
    },
    /// Change what is given, and nothing else
    Update {
        /// The name
        name: String,
        #[command(flatten)]
        config: Config,
    },
    /// Show a queue with its counts
    Get {
        /// The name
        name: String,
    },
    /// List all queues
    List,
    /// Delete a queue with its jobs and dead letters
    Delete {
        /// The name
        name: String,
        /// Also when it holds jobs or dead letters
        #[arg(long, env = "KEYWORK_QUEUE_FORCE")]
        force: bool,
    },
    /// Stop deliveries; leases that are out go on, submits are accepted
    Pause {
        /// The name
        name: String,
    },
    /// Go on with deliveries
    Resume {
        /// The name
        name: String,
    },
    /// End all outstanding jobs without running them
    Purge {
        /// The name
        name: String,
    },
}

#[derive(clap::Args, Debug)]
struct Config {
    /// How long a lease lasts from its last extension: 2s to 12h [default: 15s]
    #[arg(long, env = "KEYWORK_QUEUE_LEASE_DURATION", value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    lease_duration: Option<Duration>,
    /// The longest that one attempt may run; 0 for no limit [default: 1h]
    #[arg(long, env = "KEYWORK_QUEUE_MAX_RUN_TIME", value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    max_run_time: Option<Duration>,
    /// Attempts before a job becomes a dead letter: 1 to 1,000 [default: 10]
    #[arg(long, env = "KEYWORK_QUEUE_MAX_ATTEMPTS", value_name = "N", value_parser = attempts(), allow_hyphen_values = true)]
    max_attempts: Option<u32>,
    /// The wait after the first attempt [default: 1s]
    #[arg(long, env = "KEYWORK_QUEUE_BACKOFF_INITIAL", value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true, requires = "backoff_max")]
    backoff_initial: Option<Duration>,
    /// The longest wait between attempts [default: 10m]
    #[arg(long, env = "KEYWORK_QUEUE_BACKOFF_MAX", value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true, requires = "backoff_initial")]
    backoff_max: Option<Duration>,
    /// The most outstanding jobs: 1 to 1,000,000,000 [default: 10000000]
    #[arg(long, env = "KEYWORK_QUEUE_MAX_DEPTH", value_name = "N", value_parser = depth(), allow_hyphen_values = true)]
    max_depth: Option<u64>,
    /// The largest payload [default: 524288]
    #[arg(long, env = "KEYWORK_QUEUE_MAX_PAYLOAD_BYTES", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..), allow_hyphen_values = true)]
    max_payload_bytes: Option<u32>,
    /// After a worker's stream broke, its leases go to others after this long [default: at their deadline]
    #[arg(long, env = "KEYWORK_QUEUE_DISCONNECT_GRACE", value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    disconnect_grace: Option<Duration>,
    /// How long dead letters are kept [default: 14d]
    #[arg(long, env = "KEYWORK_QUEUE_DEAD_LETTER_RETENTION", value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    dead_letter_retention: Option<Duration>,
    /// How long a request id is remembered [default: 2m]
    #[arg(long, env = "KEYWORK_QUEUE_DEDUPE_WINDOW", value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    dedupe_window: Option<Duration>,
}

fn depth() -> RangedI64ValueParser<u64> {
    RangedI64ValueParser::new().range(1..=limits::MAX_DEPTH.cast_signed())
}

impl From<Config> for QueueConfig {
    fn from(config: Config) -> Self {
        Self {
            lease_duration: config.lease_duration,
            max_run_time: config.max_run_time,
            max_attempts: config.max_attempts,
            backoff: config.backoff_initial.zip(config.backoff_max),
            max_depth: config.max_depth,
            max_payload_bytes: config.max_payload_bytes,
            disconnect_grace: config.disconnect_grace,
            dead_letter_retention: config.dead_letter_retention,
            dedupe_window: config.dedupe_window,
        }
    }
}

pub(super) async fn run(args: Args, connection: &Connection) -> Result<ExitCode, Failure> {
    let client = connection.client()?;
    act(args.action, &client, connection.output()).await?;
    Ok(ExitCode::SUCCESS)
}

async fn act(action: Action, client: &Client, output: Output) -> Result<(), Failure> {
    let queue = match action {
        Action::Create { name, config } => client
            .create_queue(&name, config.into())
            .await
            .doing(format_args!("create the queue {name}"))?,
        Action::Update { name, config } => client
            .update_queue(&name, config.into())
            .await
            .doing(format_args!("update the queue {name}"))?,
        Action::Get { name } => client
            .get_queue(&name)
            .await
            .doing(format_args!("get the queue {name}"))?,
        Action::Pause { name } => client
            .pause_queue(&name)
            .await
            .doing(format_args!("pause the queue {name}"))?,
        Action::Resume { name } => client
            .resume_queue(&name)
            .await
            .doing(format_args!("resume the queue {name}"))?,
        Action::List => return list(client, output).await,
        Action::Delete { name, force } => {
            client
                .delete_queue(&name, force)
                .await
                .doing(format_args!("delete the queue {name}"))?;
            return output.result(
                format_args!("deleted {name}"),
                &json!({"name": name, "deleted": true}),
            );
        }
        Action::Purge { name } => {
            let purged = client
                .purge_queue(&name)
                .await
                .doing(format_args!("purge the queue {name}"))?;
            let text = format!("ended {} of {name}", counted(purged, "job"));
            return output.result(text, &json!({"name": name, "purged": purged}));
        }
    };
    output.result(queue_text(&queue), &queue_json(&queue))
}

async fn list(client: &Client, output: Output) -> Result<(), Failure> {
    let mut queues: Vec<Queue> = Vec::new();
    let mut next = Some(Page::of(PAGE));
    while let Some(page) = next {
        let (found, after) = client.list_queues(page).await.doing("list the queues")?;
        queues.extend(found);
        next = after;
    }
    let rows: Vec<Vec<String>> = queues.iter().map(row).collect();
    let head = [
        "QUEUE",
        "OUTSTANDING",
        "READY",
        "IN FLIGHT",
        "DEAD",
        "SESSIONS",
        "",
    ];
    output.table(
        &head,
        &rows,
        queues.iter().map(queue_json),
        "there is no queue",
    )
}

fn row(queue: &Queue) -> Vec<String> {
    let stats = &queue.stats;
    let counts = [
        stats.outstanding,
        stats.ready,
        stats.in_flight,
        stats.dead,
        stats.sessions.into(),
    ];
    let mut row = vec![queue.name.clone()];
    row.extend(counts.map(thousands));
    row.push(if queue.paused { "paused" } else { "" }.to_owned());
    row
}
