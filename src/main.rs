//! The `keywork` command.

use std::process::ExitCode;

use clap::Parser;
use keywork::cli::{self, Cli};

#[tokio::main]
async fn main() -> ExitCode {
    cli::run(Cli::parse().command).await
}
