//! The performance harness: the same work straight on JetStream and through Keywork, in alternation, on
//! one nats-server. It owns the servers that it starts and the figures that it prints; it knows the
//! contract alone, and nothing of how Keywork is made.

mod cpu;
mod error;
mod field;
mod keywork;
mod keywork_server;
mod machine;
mod nats_server;
mod options;
mod process;
mod proto;
mod report;
mod scenario;
mod stats;
mod straight;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    error::Error, field::Field, machine::Machine, options::Options, report::Report,
    scenario::Scenario,
};

/// Both sides get the allocator that the server has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One thread: the client is the cheapest of the three processes, and they share two cores.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(&Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&error);
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<(), Error> {
    let machine = Machine::look(options)?;
    let field = Field::start(options).await?;
    let measured = measure(options, &field).await;
    field.stop().await;
    let report = Report {
        machine,
        options: options.clone(),
        scenarios: measured?,
    };
    report::print(&report)?;
    match &options.json {
        Some(path) => report::write_json(&report, path),
        None => Ok(()),
    }
}

async fn measure(options: &Options, field: &Field) -> Result<Vec<scenario::Outcome>, Error> {
    let mut outcomes = Vec::new();
    for scenario in options.scenarios() {
        outcomes.extend(match scenario {
            Scenario::Cycle => scenario::cycle::measure(options, field).await?,
            Scenario::Unary => scenario::unary::measure(options, field).await?,
            Scenario::Busy => scenario::busy::measure(options, field).await?,
        });
    }
    Ok(outcomes)
}
