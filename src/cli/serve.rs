//! `keywork serve`: runs a server until a signal comes.

use std::{io::IsTerminal, process::ExitCode};

use crate::{config::ServeArgs, serve};

/// Told at the end of the help.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  stopped by a signal
  1  failed to start, or ended by itself
  2  settings that are wrong, all of them reported";

/// Checks the settings, then serves.
pub(super) async fn run(args: ServeArgs) -> ExitCode {
    let config = match args.check() {
        Ok(config) => config,
        Err(mistakes) => {
            eprintln!("{mistakes}");
            return ExitCode::from(2);
        }
    };
    start_log(&config.log, config.log_json);
    match serve::serve(config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn start_log(filter: &str, json: bool) {
    let filter = tracing_subscriber::EnvFilter::new(filter);
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    if json {
        log.json().init();
    } else {
        log.init();
    }
}
