//! What to measure, and with what.

use std::path::{Path, PathBuf};

use clap::Parser;
use serde::Serialize;

use crate::scenario::Scenario;

/// Measures Keywork against straight JetStream on the same nats-server: one table, JSON beside it.
#[derive(Clone, Debug, Parser, Serialize)]
#[command(name = "keywork-bench", version)]
pub(crate) struct Options {
    /// What to measure. Default: everything.
    #[arg(value_enum)]
    pub(crate) scenarios: Vec<Scenario>,
    /// Jobs of one run of one side.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=5_000_000))]
    pub(crate) jobs: u64,
    /// Submits in flight, and leases held, at most.
    #[arg(long, default_value_t = 2_048, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub(crate) window: u32,
    /// Unary calls in flight.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub(crate) calls: u32,
    /// How often both sides are measured, in alternation.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) alternations: u32,
    /// Bytes of a job's payload.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(0..=524_288))]
    pub(crate) payload: u32,
    /// The server to measure.
    #[arg(long, default_value = "target/release/keywork")]
    pub(crate) keywork_bin: PathBuf,
    /// The nats-server. Default: `.tools/bin/nats-server`, or else the one on the path.
    #[arg(long)]
    pub(crate) nats_server: Option<PathBuf>,
    /// How often nats-server calls fsync: a duration, or `always`.
    #[arg(long, default_value = "1s")]
    pub(crate) sync_interval: String,
    /// Where to write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl Options {
    /// The scenarios to measure.
    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        if self.scenarios.is_empty() {
            Scenario::ALL.to_vec()
        } else {
            self.scenarios.clone()
        }
    }

    /// The nats-server to start.
    pub(crate) fn nats_server(&self) -> PathBuf {
        let ours = Path::new(".tools/bin/nats-server");
        match &self.nats_server {
            Some(path) => path.clone(),
            None if ours.exists() => ours.into(),
            None => "nats-server".into(),
        }
    }
}
