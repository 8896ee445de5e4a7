//! `keywork work`: runs a command for every job.
//!
//! The SDK's worker holds the leases; `process.rs` runs one command.

use std::{
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Duration,
};

use keywork_model::limits;
use keywork_sdk::{
    Context, Job, Worker,
    worker::{Event, Fail, HandlerResult, Release, Retry, Subscription, WorkerError},
};

use super::{
    connection::Connection,
    duration,
    failure::{self, Doing, Failure, Kind},
    guard::Guard,
    output::{Output, shown},
    process::{self, End},
};

/// Told at the end of the command's help.
pub(super) const EXIT_CODES: &str = "\
The command gets the payload on stdin, and in its environment KEYWORK_JOB_ID, KEYWORK_QUEUE,
KEYWORK_KEY, KEYWORK_ATTEMPT, KEYWORK_MAX_ATTEMPTS, KEYWORK_FENCING_NUMBER, KEYWORK_CONTENT_TYPE
and KEYWORK_ATTRIBUTES (a JSON object). Its exit code says how the job ended:
  0         it is done
  65        it can never be done: it becomes a dead letter
  75        not here, not now: it goes back to the queue at once; costs no attempt
  others    it failed: it is tried again after its backoff, with the end of stderr as its error

When the lease is lost, the command's process group gets SIGTERM, and SIGKILL after --kill-after.
The first SIGTERM or SIGINT to keywork drains; the second gives everything back.

Exit codes of keywork work:
  0   it was told to stop, and drained
  1   it was told to stop at once, or the command could not be started
  2   bad usage, or the server refused a value
  3   a newer worker has the same worker id
  4   there is no such queue";

/// Exit codes of sysexits.h that a command may use.
const EX_DATAERR: i32 = 65;
const EX_TEMPFAIL: i32 = 75;
/// What a worker's session is given to end after the command was told to.
const AFTER_KILL: Duration = Duration::from_secs(1);

/// Arguments of `keywork work`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The queues; a weight of 1 to 100 gives one a larger share
    #[arg(required = true, value_name = "QUEUE[=WEIGHT]", value_parser = subscription)]
    queues: Vec<Subscription>,
    /// The command for each job
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// How many commands run at once
    #[arg(
        long,
        env = "KEYWORK_WORK_CONCURRENCY",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::SESSION_CAPACITY)),
        allow_hyphen_values = true,
        default_value_t = 1
    )]
    concurrency: u32,
    /// How long running commands may take to end after SIGTERM, before they are told to stop
    #[arg(long, env = "KEYWORK_WORK_SHUTDOWN_GRACE", value_name = "DURATION", value_parser = duration::grace, allow_hyphen_values = true, default_value = "25s")]
    shutdown_grace: Duration,
    /// From SIGTERM to SIGKILL. Longer than a second, and a lost lease's command may meet the next one
    #[arg(long, env = "KEYWORK_WORK_KILL_AFTER", value_name = "DURATION", value_parser = duration::grace, allow_hyphen_values = true, default_value = "800ms")]
    kill_after: Duration,
    /// Names this process at the servers; no two that run at once may share it [default: a random one]
    #[arg(long, env = "KEYWORK_WORK_WORKER_ID", value_name = "ID")]
    worker_id: Option<String>,
    /// Say nothing but failures
    #[arg(long, env = "KEYWORK_WORK_QUIET")]
    quiet: bool,
}

fn subscription(text: &str) -> Result<Subscription, String> {
    match text.split_once('=') {
        None => Ok(Subscription::new(text)),
        Some((queue, weight)) => {
            let weight = weight
                .parse()
                .ok()
                .filter(|n| (1..=limits::QUEUE_WEIGHT).contains(n));
            let most = limits::QUEUE_WEIGHT;
            weight
                .map(|weight| Subscription::new(queue).weight(weight))
                .ok_or_else(|| format!("the weight must be from 1 to {most}"))
        }
    }
}

pub(super) async fn run(args: Args, connection: &Connection) -> Result<ExitCode, Failure> {
    let mut builder = Worker::builder(connection.client()?, args.queues)
        .concurrency(args.concurrency as usize)
        .shutdown_grace(args.shutdown_grace)
        .cancel_grace(args.kill_after + AFTER_KILL)
        .on_event(move |event| tell(event, args.quiet));
    if let Some(id) = args.worker_id {
        builder = builder.worker_id(id);
    }
    let runner = Arc::new(Runner {
        command: args.command,
        guard: Guard::start(args.kill_after).doing("start the guard of the commands")?,
        kill_after: args.kill_after,
        broken: OnceLock::new(),
        worker: OnceLock::new(),
    });
    let handler = runner.clone();
    let worker = builder.build_fn(move |context, job| {
        let runner = handler.clone();
        async move { runner.run(context, job).await }
    });
    // Set once, here: before the first job.
    let _ = runner.worker.set(worker.clone());
    worker.run().await.map_err(failed)?;
    match runner.broken.get() {
        Some(problem) => Err(Failure::new(Kind::Failed, problem)),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Runs the command for each job.
struct Runner {
    command: Vec<String>,
    guard: Guard,
    kill_after: Duration,
    /// Why the command could not be started.
    broken: OnceLock<String>,
    worker: OnceLock<Worker>,
}

impl Runner {
    async fn run(&self, context: Context, job: Job) -> HandlerResult {
        match process::run(&self.command, &self.guard, &context, job, self.kill_after).await {
            Ok(end) => result(&end),
            Err(error) => {
                // The job is not at fault, and the next one would fare no better.
                let problem = format!("start {}: {error}", self.command[0]);
                if self.broken.set(problem).is_ok()
                    && let Some(worker) = self.worker.get()
                {
                    worker.drain();
                }
                Err(Release.into())
            }
        }
    }
}

fn result(end: &End) -> HandlerResult {
    match end.code {
        Some(0) => Ok(()),
        Some(EX_DATAERR) => Err(Fail::new(end).into()),
        Some(EX_TEMPFAIL) => Err(Release.into()),
        // Not chosen by the command: when it was told to stop, the job goes back at no cost.
        None => Err(end.to_string().into()),
        Some(_) if end.cancelled => Err(end.to_string().into()),
        Some(_) => Err(Retry::default().because(end).into()),
    }
}

fn tell(event: &Event, quiet: bool) {
    let job = |queue: &str, key: &str| format!("{queue}/{}", shown(key));
    let text = match event {
        Event::LeaseLost { queue, key, .. } => format!("lost the lease of {}", job(queue, key)),
        Event::HandlerIgnoresCancellation { queue, key, .. } => {
            format!("the command of {} does not end", job(queue, key))
        }
        Event::SettlementRejected { queue, key, error } => {
            format!("failed to settle {}: {error}", job(queue, key))
        }
        Event::Degraded { error, .. } => format!("reconnecting: {error}"),
        Event::Connecting { endpoint } if !quiet => format!("connecting to {endpoint}"),
        Event::Ready if !quiet => "ready".to_owned(),
        Event::Draining if !quiet => "draining".to_owned(),
        Event::Stopped { unconfirmed, .. } if *unconfirmed > 0 => format!(
            "stopped with unconfirmed results: {unconfirmed}; their jobs run again when their leases are over"
        ),
        // Said by quiet ones no more than by the exit code.
        Event::Settled { .. } | Event::Failed { .. } | Event::Stopped { .. } | _ => return,
    };
    Output::complain(&text);
}

fn failed(error: WorkerError) -> Failure {
    let kind = if let WorkerError::Refused(error) = &error {
        failure::kind(error)
    } else if matches!(error, WorkerError::Superseded) {
        Kind::Busy
    } else {
        Kind::Failed
    };
    let text = error.to_string();
    Failure::new(kind, text.strip_prefix("failed to ").unwrap_or(&text))
}
