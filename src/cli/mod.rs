//! The command line: what `keywork` does besides serving.
//!
//! Each command is a client of a server, by way of the Rust SDK; one file a command. Nothing here knows the engine
//! or NATS.

mod connection;
mod dead;
mod describe;
mod duration;
mod failure;
mod guard;
mod job;
mod jsonl;
mod output;
mod process;
mod queue;
mod serve;
mod submit;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use guard::guard_if_asked;
use output::Output;

/// Told at the end of every command's help.
const EXIT_CODES: &str = "\
Exit codes:
  0   done
  1   failed
  2   bad usage, or the server refused a value
  3   the key is busy (submit)
  4   there is no such job or queue
  5   some of many items failed
  75  not now: trying again can help";

/// A work queue in which a key has at most one outstanding job.
#[derive(Debug, Parser)]
#[command(name = "keywork", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `keywork` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a server
    #[command(after_help = serve::EXIT_CODES)]
    Serve(Box<crate::config::ServeArgs>),
    /// Offer one job, or many from JSON lines
    #[command(after_help = EXIT_CODES)]
    Submit(submit::Args),
    /// Run a command for every job of some queues
    #[command(after_help = work::EXIT_CODES)]
    Work(work::Args),
    /// Look at outstanding jobs
    #[command(after_help = EXIT_CODES)]
    Job(job::Args),
    /// Make, change and look at queues
    #[command(after_help = EXIT_CODES)]
    Queue(queue::Args),
    /// Look at dead letters, submit them again, delete them
    #[command(after_help = EXIT_CODES)]
    Dead(dead::Args),
}

/// Does what the command says.
pub async fn run(command: Command) -> ExitCode {
    let result = match command {
        Command::Serve(args) => return Box::pin(serve::run(*args)).await,
        Command::Submit(args) => submit::run(args).await,
        Command::Work(args) => work::run(args).await,
        Command::Job(args) => job::run(args).await,
        Command::Queue(args) => queue::run(args).await,
        Command::Dead(args) => dead::run(args).await,
    };
    result.unwrap_or_else(|failure| {
        Output::complain(&failure.to_string());
        failure.exit_code()
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_can_be_set_by_the_environment() {
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            let flags = command
                .get_arguments()
                .filter(|arg| arg.get_long().is_some());
            for flag in flags.filter(|flag| !matches!(flag.get_id().as_str(), "help" | "version")) {
                let name = flag
                    .get_env()
                    .and_then(|name| name.to_str())
                    .unwrap_or_default();
                assert!(
                    name.starts_with("KEYWORK_"),
                    "{} {flag}",
                    command.get_name()
                );
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
