//! The table, and JSON beside it. The one place that writes to the terminal.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use serde::Serialize;

use crate::{
    error::Error,
    field::Run,
    machine::Machine,
    options::Options,
    scenario::{Latencies, Outcome, Quantiles, Rates},
    stats::Spread,
};

/// Everything that was measured, and on what.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The machine and the versions.
    pub(crate) machine: Machine,
    /// What was asked for.
    pub(crate) options: Options,
    /// What was found.
    pub(crate) scenarios: Vec<Outcome>,
}

/// Prints the table.
pub(crate) fn print(report: &Report) -> Result<(), Error> {
    write_table(report, &mut io::stdout().lock()).map_err(Error::io("print the table"))
}

/// Writes the figures as JSON.
pub(crate) fn write_json(report: &Report, path: &Path) -> Result<(), Error> {
    let json = serde_json::to_vec_pretty(report).map_err(|e| Error::wrong(e.to_string()))?;
    fs::write(path, json).map_err(Error::io("write the JSON file"))
}

/// Says why there are no figures.
pub(crate) fn complain(error: &Error) {
    // Where that fails too, the exit code says it.
    drop(writeln!(io::stderr(), "error: {error}"));
}

fn write_table(report: &Report, out: &mut impl Write) -> io::Result<()> {
    head(report, out)?;
    for scenario in &report.scenarios {
        match scenario {
            Outcome::Rates(rates) => write_rates(rates, out)?,
            Outcome::Latencies(latencies) => write_latencies(latencies, out)?,
        }
    }
    Ok(())
}

fn head(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let (machine, options) = (&report.machine, &report.options);
    writeln!(
        out,
        "{} cores of {}, Linux {}; load before: {}",
        machine.cores, machine.cpu, machine.kernel, machine.load_before
    )?;
    writeln!(
        out,
        "{}, one replica, file store, sync_interval {}; {}",
        machine.nats_server, options.sync_interval, machine.keywork
    )?;
    writeln!(
        out,
        "{} jobs of {} bytes, {} in flight ({} unary calls), {} alternations; median (min to max)\n",
        options.jobs, options.payload, options.window, options.calls, options.alternations
    )
}

fn write_rates(rates: &Rates, out: &mut impl Write) -> io::Result<()> {
    let name = rates.name;
    writeln!(
        out,
        "| {name} | jobs/s | client µs | keywork µs | nats-server µs |"
    )?;
    writeln!(out, "| --- | --- | --- | --- | --- |")?;
    for (side, runs) in [("straight", &rates.straight), ("Keywork", &rates.keywork)] {
        let cpu = |of: fn(&Run) -> f64| {
            let a_job = |run: &Run| of(run) / (run.rate() * run.seconds) * 1e6;
            Spread::of(runs.iter().map(a_job)).median
        };
        writeln!(
            out,
            "| {side} | {} | {:.1} | {:.1} | {:.1} |",
            spread(Spread::of(runs.iter().map(Run::rate)), 0),
            cpu(|run| run.cpu.client),
            cpu(|run| run.cpu.keywork),
            cpu(|run| run.cpu.nats),
        )?;
    }
    let (ratio, target) = (spread(rates.ratio(), 2), rates.target);
    writeln!(
        out,
        "| **ratio** | **{ratio}**, to reach {target} | | | |\n"
    )
}

fn write_latencies(latencies: &Latencies, out: &mut impl Write) -> io::Result<()> {
    let p50 = |all: &[Quantiles]| Spread::of(all.iter().map(|q| q.p50));
    let p99 = |all: &[Quantiles]| Spread::of(all.iter().map(|q| q.p99));
    let (straight, keywork) = (&latencies.straight, &latencies.keywork);
    writeln!(out, "| {} | p50 µs | p99 µs |", latencies.name)?;
    writeln!(out, "| --- | --- | --- |")?;
    for (side, all) in [("straight", straight), ("Keywork", keywork)] {
        let (p50, p99) = (spread(p50(all), 0), spread(p99(all), 0));
        writeln!(out, "| {side} | {p50} | {p99} |")?;
    }
    let target = latencies.target;
    writeln!(
        out,
        "| **added** | **{:.0}**, at most {:.0} | **{:.0}**, at most {:.0} |\n",
        p50(keywork).median - p50(straight).median,
        target.p50,
        p99(keywork).median - p99(straight).median,
        target.p99,
    )
}

fn spread(spread: Spread, digits: usize) -> String {
    let Spread { median, min, max } = spread;
    format!("{median:.digits$} ({min:.digits$} to {max:.digits$})")
}
