//! Which servers a command talks to, and how it writes: the options that all commands share.

use std::time::Duration;

use clap::Args;
use keywork_sdk::Client;

use super::{
    duration,
    failure::{Doing, Failure},
    output::{Format, Output},
};

/// What only the client commands take, by the ids of the arguments.
pub(super) const CLIENT_ONLY: [&str; 3] = ["server", "timeout", "output"];

/// Options of every client command.
#[derive(Args, Clone, Debug)]
pub struct Connection {
    /// The servers, separated by commas
    #[arg(
        long,
        global = true,
        env = "KEYWORK_SERVER",
        value_name = "URI",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:50051"
    )]
    server: Vec<String>,
    /// How long a call may take, and how long a submit is tried while servers are away
    #[arg(
        long,
        global = true,
        env = "KEYWORK_TIMEOUT",
        value_name = "DURATION",
        value_parser = duration::patience,
        allow_hyphen_values = true,
        default_value = "10s"
    )]
    timeout: Duration,
    /// For people, or one JSON object a line
    #[arg(long, global = true, env = "KEYWORK_OUTPUT", value_enum, default_value_t = Format::Human)]
    output: Format,
}

impl Connection {
    /// A client of the servers. Nothing is connected yet.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let builder = Client::builder()
            .submit_deadline(self.timeout)
            .call_timeout(self.timeout);
        let builder = self
            .server
            .iter()
            .fold(builder, |builder, server| builder.endpoint(server));
        builder.build().doing("use --server")
    }

    /// Where results are written.
    pub(super) fn output(&self) -> Output {
        Output::new(self.output)
    }
}
