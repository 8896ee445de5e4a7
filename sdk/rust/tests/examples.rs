//! The examples, as programs of their own, against a server.
//!
//! Cargo builds them beside the tests, but not when it is asked for some targets only: run `cargo test -p keywork-sdk`,
//! and not `--test examples`.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use keywork_sdk::{Submit, testing::FakeServer};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

type Tested = Result<(), Box<dyn std::error::Error>>;

const PATIENCE: Duration = Duration::from_secs(30);

/// An example that runs.
struct Example(Child);

impl Example {
    /// Starts it.
    fn start(name: &str, server: &FakeServer) -> Result<Self, Box<dyn std::error::Error>> {
        let mut path = std::env::current_exe()?;
        path.pop();
        path.pop();
        let child = Command::new(path.join("examples").join(name))
            .env("KEYWORK_SERVER", server.endpoint())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self(child))
    }

    /// Waits until it says this.
    async fn says(&mut self, text: &'static str) -> Tested {
        let stderr = self.0.stderr.take().ok_or("its output is read once")?;
        let found = tokio::task::spawn_blocking(move || {
            let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
            // What it says later has to go somewhere.
            lines
                .any(|line| line.contains(text))
                .then(|| std::thread::spawn(|| lines.for_each(drop)))
        });
        let found = tokio::time::timeout(PATIENCE, found).await??;
        assert!(found.is_some(), "it never said {text}");
        Ok(())
    }

    fn terminate(&self) -> Tested {
        Ok(kill(
            Pid::from_raw(self.0.id().try_into()?),
            Signal::SIGTERM,
        )?)
    }

    async fn ended(&mut self) -> Result<ExitStatus, Box<dyn std::error::Error>> {
        let ends = async {
            loop {
                if let Some(status) = self.0.try_wait()? {
                    return Ok(status);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ends).await?
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // One that has ended by itself is no fault.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn quickstart_runs_its_job_and_stops_at_a_signal() -> Tested {
    let server = FakeServer::start().await?;
    let mut example = Example::start("quickstart", &server)?;
    server
        .until("its job is done", |seen| {
            seen.settled("complete") == ["cluster-eu-1"]
        })
        .await;
    example.terminate()?;
    assert!(example.ended().await?.success());
    Ok(())
}

#[tokio::test]
async fn batch_submit_offers_every_document() -> Tested {
    let server = FakeServer::start().await?;
    let mut example = Example::start("batch_submit", &server)?;
    assert!(example.ended().await?.success());
    assert_eq!(server.seen().submits.len(), 10_000);
    Ok(())
}

#[tokio::test]
async fn long_job_outlives_its_lease() -> Tested {
    let server = FakeServer::builder()
        .lease_duration(Duration::from_secs(1))
        .start()
        .await?;
    let client = server.client()?;
    client
        .submit(Submit::new("rebuild", "tenant-7").payload("3"))
        .await?;
    let mut example = Example::start("long_job", &server)?;
    let seen = server
        .until("it is done", |seen| {
            seen.settled("complete") == ["tenant-7"]
        })
        .await;
    assert_eq!((seen.expired, seen.delivered.len()), (0, 1));
    example.terminate()?;
    assert!(example.ended().await?.success());
    Ok(())
}

#[tokio::test]
async fn graceful_shutdown_gives_everything_back_at_the_second_signal() -> Tested {
    let server = FakeServer::start().await?;
    server
        .client()?
        .submit(Submit::new("sync", "account-3"))
        .await?;
    let mut example = Example::start("graceful_shutdown", &server)?;
    example.says("started account-3").await?;
    example.terminate()?;
    server.until("it drains", |seen| seen.drains == 1).await;
    example.terminate()?;
    assert_eq!(example.ended().await?.code(), Some(1));
    server
        .until("the job is back", |seen| {
            seen.settled("release") == ["account-3"]
        })
        .await;
    Ok(())
}

#[tokio::test]
async fn testing_tests_itself() -> Tested {
    let server = FakeServer::start().await?;
    let mut example = Example::start("testing", &server)?;
    assert!(example.ended().await?.success());
    Ok(())
}
