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

use clap::{
    CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind, parser::ValueSource,
};

use connection::CLIENT_ONLY;
pub use connection::Connection;
pub use guard::guard_if_asked;
use output::Output;

/// Told at the end of every command's help.
const EXIT_CODES: &str = "\
Exit codes:
  0   done
  1   failed
  2   bad usage, or the server refused a value
  3   submit: the key is busy; work: a newer worker has the same worker id
  4   there is no such job or queue
  5   some of many items failed (submit --jsonl, dead redrive)
  75  not now: a server or NATS is away, or the queue is full; trying again can help";

/// A work queue in which a key has at most one outstanding job.
#[derive(Debug, Parser)]
#[command(name = "keywork", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Given before or after the command.
    #[command(flatten)]
    pub connection: Connection,
}

impl Cli {
    /// The arguments of the process. Where they are wrong, it ends here and says why.
    pub fn read() -> Self {
        let matches = Self::command().get_matches();
        if let Some(("serve", serve)) = matches.subcommand() {
            let given = |id: &&str| serve.value_source(id) == Some(ValueSource::CommandLine);
            if let Some(id) = CLIENT_ONLY.into_iter().find(given) {
                let problem = format!("--{id} is for the other commands, not for serve");
                let kind = ErrorKind::ArgumentConflict;
                Self::command().error(kind, problem).exit();
            }
        }
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
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
pub async fn run(
    Cli {
        command,
        connection,
    }: Cli,
) -> ExitCode {
    let connection = &connection;
    let result = match command {
        Command::Serve(args) => return Box::pin(serve::run(*args)).await,
        Command::Submit(args) => submit::run(args, connection).await,
        Command::Work(args) => work::run(args, connection).await,
        Command::Job(args) => job::run(args, connection).await,
        Command::Queue(args) => queue::run(args, connection).await,
        Command::Dead(args) => dead::run(args, connection).await,
    };
    result.unwrap_or_else(|failure| {
        Output::complain(&failure.to_string());
        failure.exit_code()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn exit_codes_are_documented_as_the_help_tells_them() {
        let page = include_str!("../../docs/cli.md");
        for line in EXIT_CODES.lines().skip(1) {
            let (code, meaning) = line.trim().split_once("  ").unwrap_or_default();
            let row = format!("| {code} | {} |", meaning.trim());
            assert!(page.replace('`', "").contains(&row), "{row}");
        }
        // What the exit code 3 of a worker is, as its own help has it.
        assert!(work::EXIT_CODES.contains("3   a newer worker has the same worker id"));
    }
}
