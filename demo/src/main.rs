//! The demo: every package that Cargo.lock pins is a job, and its key is the package's name.
//!
//! A Keywork server runs with a NATS of its own. Two worker processes read and hash the source of each
//! package, and one of them is killed with SIGKILL while it holds jobs. What the workers recorded is then
//! checked: no two jobs ran under one key at once, fencing numbers grew with every lease, and every
//! version that was submitted was done. Everything is ended and removed before this ends; the exit code
//! is not 0 when something did not hold.

mod check;
mod packages;
mod processes;
mod record;
mod show;
mod submitting;
mod worker;

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use check::{Killed, Verdict};
use keywork_sdk::{
    Client, Error,
    client::{Queue, QueueConfig},
};
use packages::Package;
use processes::{ProcessError, Server, WorkerProcess};
use record::Record;
use show::Story;
use submitting::Submitted;
use tokio::time::{sleep, timeout};

/// The queue.
const QUEUE: &str = "packages";
/// The shortest lease: the jobs of a killed worker come back soon.
const LEASE: Duration = Duration::from_secs(2);
/// The part of the jobs that is done when a worker is killed.
const KILL_AT: f64 = 0.3;
/// How often records are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// When the demo counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Why the demo could not go on.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("failed to list the packages: {0}")]
    Packages(#[from] packages::PackagesError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("failed to read what the workers recorded: {0}")]
    Records(#[from] std::io::Error),
    #[error("the server refused: {0}")]
    Refused(#[from] Error),
    #[error("not everything was done within {STUCK_AFTER:?}")]
    Stuck,
    #[error("interrupted")]
    Interrupted,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => demo().await,
        ["work", name, server, records] => worker::run(name, server, Path::new(records)).await,
        _ => {
            eprintln!("the demo takes no arguments");
            ExitCode::from(2)
        }
    }
}

async fn demo() -> ExitCode {
    let mut story = Story::begin();
    let outcome = tokio::select! {
        outcome = play(&mut story) => outcome,
        // Dropping the play ends its processes.
        _ = tokio::signal::ctrl_c() => Err(DemoError::Interrupted),
    };
    match outcome {
        Ok(verdict) if verdict.holds() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the demo failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn play(story: &mut Story) -> Result<Verdict, DemoError> {
    let packages = packages::pinned()?;
    story.packages(&packages);
    let folder = tempfile::tempdir()?;
    let mut server = Server::start(folder.path()).await?;
    let client = Client::new(server.endpoint())?;
    let config = QueueConfig {
        lease_duration: Some(LEASE),
        ..QueueConfig::default()
    };
    client.create_queue(QUEUE, config).await?;
    story.serves(server.endpoint());

    let mut doomed = WorkerProcess::start("1", server.endpoint(), folder.path())?;
    let mut survivor = WorkerProcess::start("2", server.endpoint(), folder.path())?;
    story.working();
    let began = Instant::now();
    let submitting = submitting::submit_all(&client, &packages);
    let killing = kill_midway(story, &mut doomed, &survivor, packages.len());
    let both = async { tokio::join!(submitting, killing) };
    let (submitted, killed) = timeout(STUCK_AFTER, both)
        .await
        .map_err(|_| DemoError::Stuck)?;
    let (submitted, killed) = (submitted?, killed?);
    let left = all_done(&client, &submitted, &doomed, &survivor).await?;
    let took = began.elapsed();
    story.done();

    survivor.stop().await?;
    server.stop().await?;
    let records = records(&doomed, &survivor)?;
    let verdict = check::check(&submitted.jobs, &records, &killed, left);
    story.tell(&submitted, &verdict, took);
    Ok(verdict)
}

/// Kills a worker at an instant when it holds jobs: it is stopped, looked at, and killed or let go on.
async fn kill_midway(
    story: &Story,
    doomed: &mut WorkerProcess,
    survivor: &WorkerProcess,
    jobs: usize,
) -> Result<Killed, DemoError> {
    loop {
        let done = check::done(&records(doomed, survivor)?).len();
        #[expect(
            clippy::cast_precision_loss,
            reason = "there are far fewer packages than an f64 can count"
        )]
        let early = (done as f64) < jobs as f64 * KILL_AT;
        if !early {
            doomed.pause()?;
            let held = check::open_runs(&record::read(doomed.records())?);
            if !held.is_empty() {
                let at = doomed.kill()?;
                story.killed(doomed.name(), held.len(), done);
                let worker = doomed.name().to_owned();
                return Ok(Killed { worker, at, held });
            }
            doomed.go_on()?;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Waits until every job is done and none is outstanding. Answers the queue as it is then.
async fn all_done(
    client: &Client,
    submitted: &Submitted,
    doomed: &WorkerProcess,
    survivor: &WorkerProcess,
) -> Result<Queue, DemoError> {
    let until = Instant::now() + STUCK_AFTER;
    while Instant::now() < until {
        let done = check::done(&records(doomed, survivor)?);
        if submitted.jobs.iter().all(|job| done.contains(&job.id)) {
            let queue = client.get_queue(QUEUE).await?;
            if queue.stats.outstanding == 0 {
                return Ok(queue);
            }
        }
        sleep(LOOK_EVERY * 4).await;
    }
    Err(DemoError::Stuck)
}

fn records(a: &WorkerProcess, b: &WorkerProcess) -> Result<Vec<Record>, std::io::Error> {
    let mut all = record::read(a.records())?;
    all.extend(record::read(b.records())?);
    all.sort_by_key(|record| record.at);
    Ok(all)
}

/// One job that was accepted.
#[derive(Clone, Debug)]
struct Accepted {
    id: String,
    package: Package,
}
