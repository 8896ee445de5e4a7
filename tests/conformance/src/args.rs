//! What the suite is told on its command line.

use std::path::PathBuf;

use clap::Parser;

/// Holds every SDK to the same scenarios, and ends with a table of SDK × scenario.
#[derive(Clone, Debug, Parser)]
#[command(name = "keywork-conformance")]
pub(crate) struct Args {
    /// Only these SDKs, by the names of their folders. Default: all that have a worker-under-test.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    pub(crate) sdk: Vec<String>,
    /// Only these scenarios, by their ids.
    #[arg(long, num_args = 1.., value_name = "ID")]
    pub(crate) scenario: Vec<String>,
    /// Only the quick scenarios, and each only along the path that it names for this.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only straight to the server.
    #[arg(long, conflicts_with = "proxied")]
    pub(crate) direct: bool,
    /// Only through the proxy.
    #[arg(long)]
    pub(crate) proxied: bool,
    /// Where the results go, as JSON. Default: `conformance.json`, or `figures.json`, in cargo's target folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// How many scenarios are played at once.
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub(crate) jobs: usize,
    /// The checkout whose scenarios and workers are used. Default: the one that this was built from.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Does not build the workers-under-test first.
    #[arg(long)]
    pub(crate) no_build: bool,
    /// Measures the SDKs instead of testing them.
    #[arg(long)]
    pub(crate) figures: bool,
    /// Lists the scenarios and ends.
    #[arg(long)]
    pub(crate) list: bool,
}
