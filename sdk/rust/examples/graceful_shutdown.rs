//! Stops cleanly: the first signal drains, the second gives everything back and exits non-zero.
use std::{process::ExitCode, time::Duration};

use keywork_sdk::{Client, Worker};

#[tokio::main]
async fn main() -> ExitCode {
    // Says when the worker is ready, drains, and has stopped.
    tracing_subscriber::fmt().init();
    let client = match Client::from_env() {
        Ok(client) => client,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let worker = Worker::builder(client, ["sync"])
        .concurrency(8)
        // Less than what the orchestrator waits before it kills.
        .shutdown_grace(Duration::from_secs(25))
        .build_fn(|_context, job| async move {
            eprintln!("started {}", job.key);
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(())
        });
    match worker.run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
