//! The `keywork` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use keywork::{config::ServeArgs, serve};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A work queue in which a key has at most one outstanding job.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a server.
    Serve(Box<ServeArgs>),
}

fn main() -> ExitCode {
    if let Some(code) = keywork::embedded::run_if_asked(std::env::args_os()) {
        return code;
    }
    match Cli::parse().command {
        Command::Serve(args) => run_server(*args),
    }
}

fn run_server(args: ServeArgs) -> ExitCode {
    let config = match args.check() {
        Ok(config) => config,
        Err(mistakes) => {
            eprintln!("{mistakes}");
            return ExitCode::from(2);
        }
    };
    start_log(&config.log, config.log_json);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let outcome = runtime.map(|runtime| runtime.block_on(serve::serve(config)));
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("failed to start the runtime: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start_log(filter: &str, json: bool) {
    let filter = tracing_subscriber::EnvFilter::new(filter);
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if json {
        log.json().init();
    } else {
        log.init();
    }
}
