//! A first program: offers one job, runs jobs until SIGTERM or Ctrl-C.
use keywork_sdk::{Client, Submit, Worker};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().init();
    let client = Client::from_env()?;
    client
        .submit(Submit::new("reconcile", "cluster-eu-1").payload("v1"))
        .await?;

    let worker = Worker::builder(client, ["reconcile"]).build_fn(|_context, job| async move {
        eprintln!("{}, attempt {}", job.key, job.attempt);
        Ok(())
    });
    Ok(worker.run().await?)
}
