//! A job that takes longer than its lease: heartbeats are sent for it, and it stops when the lease is lost.
use std::time::Duration;

use keywork_sdk::{
    Client, Context, Job, Worker,
    worker::{Fail, HandlerResult},
};

async fn rebuild(context: Context, job: Job) -> HandlerResult {
    let steps: u32 = String::from_utf8_lossy(&job.payload)
        .parse()
        .map_err(|error| Fail::new(format!("the payload is no number of steps: {error}")))?;
    for step in 0..steps {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            // Somebody else may be about to run this job: leave everything as it is.
            () = context.cancelled() => return Err(format!("stopped: {:?}", context.reason()).into()),
        }
        // What is written carries the fencing number, so that a late write of an older lease can be refused.
        eprintln!(
            "{} step {step}, fencing number {}",
            job.key, job.fencing_number
        );
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?;
    Ok(Worker::builder(client, ["rebuild"])
        .build(rebuild)
        .run()
        .await?)
}
