//! What one SDK's worker is measured at: each figure with a queue and processes of its own.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Player, Stop, failed};
use crate::{
    scenario::{Power, Script, Start, Submit},
    trace::{Entry, Filter},
};

/// How often a figure that varies is taken; its median counts.
const ROUNDS: usize = 7;
const PATIENCE: Duration = Duration::from_secs(120);
/// Handlers of the throughput run.
pub(crate) const AT_ONCE: u64 = 256;
pub(crate) const WARM_UP: usize = 2_000;
pub(crate) const JOBS: usize = 100_000;
/// Leases that are held while memory is looked at.
pub(crate) const HELD: usize = 1_000;
/// Jobs that run when the worker is told to stop.
pub(crate) const DRAINED: usize = 100;
/// Between two looks at a worker's counts.
const LOOK: Duration = Duration::from_millis(10);

/// Which figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    /// From a killed server's accepting again until the worker is ready, in ms.
    ReconnectMs,
    /// From the loss of a lease until its handler's context is cancelled, in ms.
    CancelMs,
    /// From SIGTERM, with 100 jobs that end at once, until the process has ended, in ms.
    DrainMs,
    /// Jobs a second with a handler that does nothing.
    JobsPerSecond,
    /// Memory of a worker that holds no lease, in MiB.
    IdleMib,
    /// Memory of a worker that holds 1,000 leases, in MiB.
    HeldMib,
}

type Measured = Result<Vec<(Figure, f64)>, Stop>;

impl Player<'_> {
    /// Takes the figures that need a real server.
    pub(crate) async fn measure(mut self) -> Measured {
        self.make_queue().await?;
        let mut figures = Vec::new();
        figures.push((Figure::JobsPerSecond, self.throughput().await?));
        figures.extend(self.memory().await?);
        figures.push((Figure::DrainMs, self.drain_time().await?));
        figures.push((Figure::ReconnectMs, self.reconnect_time().await?));
        let _ = self.end_workers().await;
        Ok(figures)
    }

    /// Takes the one that needs the scripted server.
    pub(crate) async fn measure_scripted(mut self) -> Measured {
        self.worker("a", 1, "wait").await?;
        let mut all = Vec::new();
        self.some_jobs(1, "k").await?;
        for _ in 0..ROUNDS {
            let started = json!({"event": "started"});
            self.await_event(Some("a"), started, PATIENCE).await?;
            let lose = "lose = { key = \"k1\", reason = \"EXPIRED\" }";
            let Ok(script) = toml::from_str::<Script>(lose) else {
                return failed("the script is malformed");
            };
            let begun = Instant::now();
            self.script(&script)?;
            all.push(
                self.until_event(json!({"event": "cancelled"}), begun)
                    .await?,
            );
        }
        let _ = self.end_workers().await;
        Ok(vec![(Figure::CancelMs, median(all))])
    }

    async fn worker(&mut self, name: &str, concurrency: u64, handler: &str) -> Result<(), Stop> {
        let start = json!({"worker": name, "concurrency": concurrency, "handler": handler});
        match serde_json::from_value::<Start>(start) {
            Ok(start) => self.start(&start).await,
            Err(error) => failed(error.to_string()),
        }
    }

    async fn some_jobs(&mut self, count: usize, prefix: &str) -> Result<(), Stop> {
        let payload = "x".repeat(256);
        let submit = json!({"count": count, "prefix": prefix, "payload": payload});
        match serde_json::from_value::<Submit>(submit) {
            Ok(submit) => self.submit(&submit).await,
            Err(error) => failed(error.to_string()),
        }
    }

    /// Milliseconds since `begun` until an event of the worker `a`.
    async fn until_event(&mut self, see: Value, begun: Instant) -> Result<f64, Stop> {
        let entry = self.next("a", see).await?;
        Ok(millis(entry.at.saturating_duration_since(begun)))
    }

    /// The next event of a worker that is like this.
    async fn next(&mut self, worker: &str, see: Value) -> Result<Entry, Stop> {
        let filter = Filter {
            worker: Some(worker.to_owned()),
            see,
            from: 0,
        };
        match self.trace.take(&filter, PATIENCE).await {
            Some((_, entry)) => Ok(entry),
            None => failed(format!("{} did not come", filter.see)),
        }
    }

    async fn throughput(&mut self) -> Result<f64, Stop> {
        self.worker("t", AT_ONCE, "complete").await?;
        self.some_jobs(WARM_UP, "w").await?;
        self.until_settled(WARM_UP).await?;
        let queue = self.names.text("$queue");
        let paused = self.client.pause_queue(&queue).await;
        paused.map_err(|error| Stop::Failed(error.to_string()))?;
        self.some_jobs(JOBS, "j").await?;
        let resumed = self.client.resume_queue(&queue).await;
        resumed.map_err(|error| Stop::Failed(error.to_string()))?;
        let begun = Instant::now();
        self.until_settled(WARM_UP + JOBS).await?;
        let rate =
            f64::from(u32::try_from(JOBS).unwrap_or(u32::MAX)) / begun.elapsed().as_secs_f64();
        self.stop("t").await?;
        Ok(rate)
    }

    async fn until_settled(&mut self, count: usize) -> Result<(), Stop> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            self.send("t", json!({"do": "stats"})).await?;
            let stats = self.next("t", json!({"event": "stats"})).await?;
            if stats.event["settled"].as_u64() >= Some(count as u64) {
                return Ok(());
            }
            sleep(LOOK).await;
        }
        failed(format!("{count} jobs were not settled in time"))
    }

    async fn memory(&mut self) -> Measured {
        self.worker("m", HELD as u64, "wait").await?;
        let idle = self.rss("m");
        self.some_jobs(HELD, "m").await?;
        let started = json!({"event": "started"});
        for _ in 0..HELD {
            self.await_event(Some("m"), started.clone(), PATIENCE)
                .await?;
        }
        let held = self.rss("m");
        for number in 1..=HELD {
            let finish = json!({"do": "finish", "key": format!("m{number}"), "with": "complete"});
            self.send("m", finish).await?;
        }
        self.left(Some(0), None, 60_000).await?;
        self.stop("m").await?;
        Ok(vec![(Figure::IdleMib, idle), (Figure::HeldMib, held)])
    }

    /// The resident memory of a worker's process, in MiB.
    fn rss(&self, name: &str) -> f64 {
        let pid = self.workers.get(name).map(crate::process::Process::pid);
        let status = pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
        let status = status.unwrap_or_default();
        let mut lines = status.lines();
        let line = lines.find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        kib.unwrap_or_default() / 1024.0
    }

    async fn drain_time(&mut self) -> Result<f64, Stop> {
        let mut all = Vec::new();
        for round in 0..3 {
            self.worker("a", DRAINED as u64, "wait").await?;
            let prefix = format!("d{round}-");
            self.some_jobs(DRAINED, &prefix).await?;
            let started = json!({"event": "started"});
            for _ in 0..DRAINED {
                self.await_event(Some("a"), started.clone(), PATIENCE)
                    .await?;
            }
            let begun = Instant::now();
            self.signal("a", "TERM")?;
            for number in 1..=DRAINED {
                let key = format!("{prefix}{number}");
                self.send("a", json!({"do": "finish", "key": key, "with": "complete"}))
                    .await?;
            }
            all.push(self.until_event(json!({"event": "exit"}), begun).await?);
            self.left(Some(0), Some(0), 10_000).await?;
        }
        Ok(median(all))
    }

    async fn reconnect_time(&mut self) -> Result<f64, Stop> {
        self.worker("a", 1, "wait").await?;
        let mut all = Vec::new();
        for _ in 0..ROUNDS {
            self.server(Power::Kill).await?;
            let degraded = json!({"event": "state", "state": "degraded"});
            self.await_event(Some("a"), degraded, PATIENCE).await?;
            self.server(Power::Restart).await?;
            let begun = Instant::now();
            let ready = json!({"event": "state", "state": "ready"});
            all.push(self.until_event(ready, begun).await?);
        }
        Ok(median(all))
    }

    async fn stop(&mut self, name: &str) -> Result<(), Stop> {
        self.signal(name, "TERM")?;
        let exit = json!({"event": "exit"});
        let ended = self.await_event(Some(name), exit, PATIENCE).await;
        if let (Err(_), Some(process)) = (&ended, self.workers.get(name)) {
            process.signal(Signal::SIGKILL);
        }
        ended
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}
