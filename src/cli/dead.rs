//! `keywork dead`: dead letters.

use std::process::ExitCode;

use clap::Subcommand;
use keywork_sdk::{
    Client,
    client::{Page, Redriven, Which},
    job::DeadJob,
};
use serde_json::{Value, json};

use super::{
    connection::Connection,
    describe::{dead_json, dead_reason, job_json, outcome, time},
    failure::{Doing, Failure, Kind},
    output::{Output, counted, shown},
};

/// How many dead letters are asked for, or redriven, at once.
const PAGE: u32 = 500;
/// How much of an error a table shows.
const SHOWN_ERROR: usize = 60;

/// Arguments of `keywork dead`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List dead letters, oldest first
    List {
        /// The queue
        queue: String,
        /// Only this key
        #[arg(long, env = "KEYWORK_DEAD_KEY")]
        key: Option<String>,
        /// At most this many
        #[arg(
            long,
            env = "KEYWORK_DEAD_LIMIT",
            value_name = "N",
            value_parser = clap::value_parser!(u32).range(1..),
            allow_hyphen_values = true,
            default_value_t = 100
        )]
        limit: u32,
    },
    #[command(override_usage = "\
keywork dead redrive [OPTIONS] <QUEUE> <ID>...
       keywork dead redrive [OPTIONS] <QUEUE> --oldest <N>")]
    /// Submit dead letters again, with attempts counted from 1; a busy key keeps its dead letter
    Redrive {
        /// The queue
        queue: String,
        /// Which, by the DEAD ID that list shows
        #[arg(
            value_name = "ID",
            required_unless_present = "oldest",
            conflicts_with = "oldest"
        )]
        ids: Vec<u64>,
        /// Instead: the oldest ones, so many
        #[arg(long, env = "KEYWORK_DEAD_OLDEST", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000), allow_hyphen_values = true)]
        oldest: Option<u32>,
    },
    #[command(override_usage = "\
keywork dead delete [OPTIONS] <QUEUE> <ID>...
       keywork dead delete [OPTIONS] <QUEUE> --all")]
    /// Delete dead letters for good
    Delete {
        /// The queue
        queue: String,
        /// Which, by the DEAD ID that list shows
        #[arg(
            value_name = "ID",
            required_unless_present = "all",
            conflicts_with = "all"
        )]
        ids: Vec<u64>,
        /// Instead: all of them
        #[arg(long, env = "KEYWORK_DEAD_ALL")]
        all: bool,
    },
}

pub(super) async fn run(args: Args, connection: &Connection) -> Result<ExitCode, Failure> {
    let (client, output) = (connection.client()?, connection.output());
    match args.action {
        Action::List { queue, key, limit } => {
            list(&client, output, &queue, key.as_deref(), limit).await
        }
        Action::Redrive { queue, ids, oldest } => {
            let which = oldest.map_or(Which::Ids(ids), Which::Oldest);
            redrive(&client, output, &queue, which).await
        }
        Action::Delete { queue, ids, all } => delete(&client, output, &queue, ids, all).await,
    }
}

async fn list(
    client: &Client,
    output: Output,
    queue: &str,
    key: Option<&str>,
    limit: u32,
) -> Result<ExitCode, Failure> {
    let mut dead: Vec<DeadJob> = Vec::new();
    let mut next = Some(Page::of(limit.min(PAGE)));
    let limit = limit as usize;
    while let Some(page) = next.filter(|_| dead.len() < limit) {
        let answer = client.list_dead_jobs(queue, key, page).await;
        let (found, after) = answer.doing(format_args!("list the dead letters of {queue}"))?;
        dead.extend(found);
        next = after;
    }
    dead.truncate(limit);
    let rows: Vec<Vec<String>> = dead.iter().map(row).collect();
    let head = ["DEAD ID", "KEY", "REASON", "ATTEMPTS", "DIED", "ERROR"];
    let none = match key {
        Some(key) => format!("{queue} has no dead letter of {}", shown(key)),
        None => format!("{queue} has no dead letter"),
    };
    output.table(&head, &rows, dead.iter().map(dead_json), &none)?;
    Ok(ExitCode::SUCCESS)
}

fn row(dead: &DeadJob) -> Vec<String> {
    vec![
        dead.dead_id.to_string(),
        dead.job.key.clone(),
        dead_reason(dead.reason).to_lowercase(),
        dead.job.attempt.to_string(),
        dead.died_at.map(time).unwrap_or_default(),
        shortened(&dead.job.last_error),
    ]
}

/// The first line, as far as a table has room.
fn shortened(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHOWN_ERROR) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

async fn redrive(
    client: &Client,
    output: Output,
    queue: &str,
    which: Which,
) -> Result<ExitCode, Failure> {
    let answer = client.redrive_dead_jobs(queue, which).await;
    let results = answer.doing(format_args!("redrive dead letters of {queue}"))?;
    let failed = results.iter().any(|redriven| redriven.result.is_err());
    for redriven in &results {
        output.result(redriven_text(redriven), &redriven_json(redriven))?;
    }
    Ok(if failed {
        Kind::Partly.into()
    } else {
        ExitCode::SUCCESS
    })
}

fn redriven_text(redriven: &Redriven) -> String {
    let id = redriven.dead_id;
    match &redriven.result {
        Ok(answer) if answer.is_accepted() => {
            format!("{id}: {} runs again", shown(&answer.job().key))
        }
        Ok(answer) => format!(
            "{id}: {} is busy; the dead letter stays",
            shown(&answer.job().key)
        ),
        Err(error) => format!("{id}: failed to redrive: {error}"),
    }
}

fn redriven_json(redriven: &Redriven) -> Value {
    match &redriven.result {
        Ok(answer) => json!({
            "dead_id": redriven.dead_id,
            "outcome": outcome(answer),
            "job": job_json(answer.job()),
        }),
        Err(error) => {
            json!({"dead_id": redriven.dead_id, "error": super::submit::error_json(error)})
        }
    }
}

async fn delete(
    client: &Client,
    output: Output,
    queue: &str,
    ids: Vec<u64>,
    all: bool,
) -> Result<ExitCode, Failure> {
    let answer = if all {
        client.delete_all_dead_jobs(queue).await
    } else {
        client.delete_dead_jobs(queue, ids).await
    };
    let deleted = answer.doing(format_args!("delete dead letters of {queue}"))?;
    let text = format!("deleted {} of {queue}", counted(deleted, "dead letter"));
    output.result(text, &json!({"queue": queue, "deleted": deleted}))?;
    Ok(ExitCode::SUCCESS)
}
