//! How a program that uses Keywork is tested: a handler by itself, and the whole against a server in the process.
use keywork_sdk::{
    Context, Job, Submit, Worker,
    testing::{FakeServer, job, run_once},
    worker::{Fail, HandlerResult, Outcome},
};

async fn handler(_context: Context, job: Job) -> HandlerResult {
    if job.payload.is_empty() {
        return Err(Fail::new("the payload is empty").into());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let outcome = run_once(handler, job("mail", "user-7")).await;
    assert_eq!(
        outcome,
        Outcome::Fail {
            reason: "the payload is empty".to_owned()
        }
    );

    let server = FakeServer::start().await?;
    let client = server.client()?;
    client
        .submit(Submit::new("mail", "user-7").payload("hello"))
        .await?;
    let worker = Worker::builder(client, ["mail"]).build(handler);
    let running = worker.clone();
    let run = async move { running.run_until(Default::default()).await };
    let watch = async {
        server
            .until("the job completes", |seen| {
                seen.settled("complete") == ["user-7"]
            })
            .await;
        worker.drain();
    };
    let (ended, ()) = tokio::join!(run, watch);
    Ok(ended?)
}
