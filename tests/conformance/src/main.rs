//! The runner of the conformance suite: one suite for all SDKs.
//!
//! A scenario is data; the runner plays it with an SDK's worker-under-test against a real server on a real
//! nats-server, or against a server that misbehaves on purpose, and checks laws over the whole trace. It knows
//! nothing of any SDK but the protocol in `tests/conformance/README.md`.

mod args;
mod figures;
mod laws;
mod pattern;
mod play;
mod process;
mod scenario;
mod sdk;
mod suite;
mod table;
mod trace;
mod world;

use std::{
    error::Error,
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::Parser;
use tokio::task::LocalSet;

use args::Args;
use scenario::Scenario;
use sdk::Sdk;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("keywork-conformance: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<bool, Box<dyn Error>> {
    let root = args.root.clone().unwrap_or_else(checkout);
    let mut scenarios = Scenario::read_all(&root.join("tests/conformance/scenarios"))?;
    if !args.scenario.is_empty() {
        scenarios.retain(|scenario| args.scenario.contains(&scenario.id));
    }
    if args.list {
        list(&scenarios);
        return Ok(true);
    }
    let (mut sdks, mut unprepared) = (Vec::new(), Vec::new());
    for sdk in Sdk::find(&root, &args.sdk, !args.no_build)? {
        match sdk {
            Ok(sdk) => sdks.push(Arc::new(sdk)),
            Err(error) => unprepared.push(error.to_string()),
        }
    }
    let name = if args.figures {
        "figures.json"
    } else {
        "conformance.json"
    };
    let json = args
        .json
        .clone()
        .unwrap_or_else(|| world::target_dir().join("..").join(name));
    if args.figures {
        let figures = figures::run(&sdks, &json);
        return Ok(LocalSet::new().run_until(figures).await?);
    }
    let scenarios: Vec<Arc<Scenario>> = scenarios.into_iter().map(Arc::new).collect();
    // Processes are read, and the scripted server works, on threads of their own; the players share this one.
    let records = LocalSet::new()
        .run_until(suite::run(&args, &sdks, &scenarios))
        .await;
    say(&table::print(&records, &sdks, &scenarios));
    table::write(&json, &records, &sdks)?;
    unprepared
        .iter()
        .for_each(|error| say(&format!("FAIL: {error}")));
    Ok(unprepared.is_empty() && table::all_well(&records))
}

/// The checkout that this was built from.
fn checkout() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_owned()
}

fn list(scenarios: &[Scenario]) {
    for scenario in scenarios {
        let quick = if scenario.quick.is_some() {
            "quick"
        } else {
            ""
        };
        say(&format!("{:<6} {quick:<6} {}", scenario.id, scenario.title));
    }
}

/// The one place that writes to stdout.
fn say(text: &str) {
    // Nobody reads it any more when it fails.
    let _ = writeln!(stdout().lock(), "{text}");
}
