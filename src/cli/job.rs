//! `keywork job`: looking at outstanding jobs.

use std::process::ExitCode;

use clap::Subcommand;
use keywork_sdk::errors::reasons;

use super::{
    connection::Connection,
    describe::{job_json, job_text},
    failure::{Doing, Failure, Kind},
    output::shown,
};

/// Arguments of `keywork job`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the outstanding job of a key, with its payload
    Get {
        /// The queue
        queue: String,
        /// The key
        key: String,
    },
}

pub(super) async fn run(args: Args, connection: &Connection) -> Result<ExitCode, Failure> {
    let client = connection.client()?;
    let Action::Get { queue, key } = args.action;
    let found = client
        .get_job(&queue, &key)
        .await
        .doing(format_args!("get {queue}/{}", shown(&key)))?;
    let Some(job) = found else {
        let (key, reason) = (shown(&key), reasons::JOB_NOT_FOUND);
        let text = format!("get {queue}/{key}: the key has no outstanding job [{reason}]");
        return Err(Failure::new(Kind::NotFound, text));
    };
    connection
        .output()
        .result(job_text(&job), &job_json(&job))?;
    Ok(ExitCode::SUCCESS)
}
