//! `keywork job`: looking at outstanding jobs.

use std::process::ExitCode;

use clap::Subcommand;

use super::{
    connection::Connection,
    describe::{job_json, job_text},
    failure::{Doing, Failure, Kind},
};

/// Arguments of `keywork job`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    connection: Connection,
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

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let client = args.connection.client()?;
    let Action::Get { queue, key } = args.action;
    let found = client
        .get_job(&queue, &key)
        .await
        .doing(format_args!("get {queue}/{key}"))?;
    let Some(job) = found else {
        let text = format!("get {queue}/{key}: the key has no outstanding job");
        return Err(Failure::new(Kind::NotFound, text));
    };
    args.connection
        .output()
        .result(job_text(&job), &job_json(&job))?;
    Ok(ExitCode::SUCCESS)
}
