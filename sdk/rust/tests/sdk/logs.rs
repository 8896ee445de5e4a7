//! A worker's logs tell what its owner must know, and neither they nor `on_event` can hold it up.

use std::{
    io,
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use crate::support::{Log, Running, Scene, Step, Tested, within};
use keywork_sdk::{
    Client, Submit, Worker, raw,
    testing::{Seen, SubmitFault},
    worker::{Event, Fail, Retry},
};
use tracing::{Level, level_filters::LevelFilter, subscriber::DefaultGuard};
use tracing_subscriber::fmt::MakeWriter;

/// Takes each line.
#[derive(Clone)]
struct Lines(Log<String>);

impl io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.add(String::from_utf8_lossy(line).into_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What this thread, and the workers that it runs, log from now on.
fn logs(level: LevelFilter) -> (Log<String>, DefaultGuard) {
    let log = Log::new();
    let lines = Lines(log.clone());
    (log, log_to(level, move || lines.clone()))
}

fn log_to<W>(level: LevelFilter, writer: W) -> DefaultGuard
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(writer);
    tracing::subscriber::set_default(subscriber.finish())
}

/// The worker's lines of a level.
fn of(log: &[String], level: Level) -> Vec<String> {
    let start = format!("{level} keywork_sdk::worker: ");
    log.iter()
        .filter_map(|line| line.split_once(&start))
        .map(|(_, text)| text.trim_end().to_owned())
        .collect()
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_within_a_second_and_not_at_every_try() -> Tested {
    let (log, _guard) = logs(LevelFilter::DEBUG);
    let client = Client::new("http://127.0.0.1:1")?;
    let worker = Worker::builder(client, ["q"]).build_fn(|_, _| async { Ok(()) });
    let begun = Instant::now();
    let running = Running::start(worker);
    log.until("a warning", |log| !of(log, Level::WARN).is_empty())
        .await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    let tries = |log: &[String]| {
        of(log, Level::DEBUG)
            .iter()
            .filter(|l| l.starts_with("connecting"))
            .count()
    };
    log.until("another three tries", |log| tries(log) >= 4)
        .await;
    running.drain().await?;
    let warnings = of(&log.all(), Level::WARN);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in ["endpoint=http://127.0.0.1:1 ", "refused"] {
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
    assert_eq!(
        warnings[0].matches("127.0.0.1:1").count(),
        1,
        "{warnings:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_submit_that_is_tried_again_says_so_once() -> Tested {
    let (log, _guard) = logs(LevelFilter::WARN);
    let client = Client::builder()
        .endpoint("http://127.0.0.1:1")
        .submit_deadline(Duration::from_secs(1))
        .build()?;
    for key in ["a", "b"] {
        assert!(client.submit(Submit::new("q", key)).await.is_err());
    }
    let warned = |line: &String| line.contains("keywork_sdk::client: no answer to a submit");
    let warnings: Vec<String> = log.all().into_iter().filter(warned).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in ["endpoint=http://127.0.0.1:1 ", "error=cannot be reached"] {
        assert!(warnings[0].contains(part), "{part}: {warnings:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_offer_of_a_stream_that_is_made_again_says_so() -> Tested {
    let (log, _guard) = logs(LevelFilter::WARN);
    let scene = Scene::with_long_leases().await;
    scene.server.script(|script| {
        let faults = [SubmitFault::Unavailable, SubmitFault::Unavailable];
        script.submit_faults.extend(faults);
    });
    let keys = ["a", "b"].map(|key| Submit::new("q", key));
    let answers = scene.client.submit_many(keys).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let warned = |line: &String| line.contains("keywork_sdk::client: no answer to a submit");
    let warnings: Vec<String> = log.all().into_iter().filter(warned).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let endpoint = format!("endpoint={} ", scene.server.endpoint());
    for part in [&*endpoint, "NATS_UNAVAILABLE"] {
        assert!(warnings[0].contains(part), "{part}: {warnings:?}");
    }
    Ok(())
}

#[tokio::test]
async fn results_that_are_never_confirmed_are_counted() -> Tested {
    let (log, _guard) = logs(LevelFilter::INFO);
    let scene = Scene::with_long_leases().await;
    scene
        .server
        .script(|script| script.unanswered_settlements = 2);
    scene.submit(&["a", "b", "c"]).await;
    scene.open_gate();
    let briefly = scene.builder().concurrency(1);
    let briefly = briefly.shutdown_grace(Duration::ZERO);
    let running = scene.start(briefly.cancel_grace(Duration::ZERO));
    let results = |seen: &Seen| seen.settlements.len() == 3;
    scene.server.until("three results", results).await;
    running.drain().await?;
    let warnings = of(&log.all(), Level::WARN);
    let told = "stopped with unconfirmed results: their jobs run again when their leases are over unconfirmed=2";
    assert_eq!(warnings, [told]);
    Ok(())
}

#[tokio::test]
async fn results_are_counted_that_a_worker_cannot_have_confirmed_any_more() -> Tested {
    let (log, _guard) = logs(LevelFilter::INFO);
    let scene = Scene::with_long_leases().await;
    scene
        .server
        .script(|script| script.unanswered_settlements = 1);
    scene.submit(&["a"]).await;
    scene.open_gate();
    let running = scene.start(scene.builder());
    let result = |seen: &Seen| seen.settlements.len() == 1;
    scene.server.until("the result", result).await;
    let refusal = tonic::Status::permission_denied("not you");
    scene.server.end_sessions(Some(refusal));
    assert!(running.end().await.is_err());
    let warnings = of(&log.all(), Level::WARN);
    assert!(warnings.concat().contains("unconfirmed=1"), "{warnings:?}");
    let stopped = |event: &Event| {
        matches!(
            event,
            Event::Stopped {
                abandoned: 0,
                unconfirmed: 1
            }
        )
    };
    assert!(scene.events.all().last().is_some_and(stopped));
    Ok(())
}

#[tokio::test]
async fn what_makes_a_job_a_dead_letter_is_logged() -> Tested {
    let (log, _guard) = logs(LevelFilter::INFO);
    let scene = Scene::with_long_leases().await;
    let worker = scene.builder().build_fn(|_, job| async move {
        match job.key.as_str() {
            "fail" => Err(Fail::new("no such customer").into()),
            _ => Err(Retry::after(Duration::ZERO).because("not yet").into()),
        }
    });
    let retried = Submit::new("q", "retry").max_attempts(2);
    scene.client.submit(retried).await?;
    let running = Running::start(worker);
    let both = |seen: &Seen| seen.settled("retry").len() == 2;
    scene.server.until("both retries", both).await;
    scene.submit(&["fail"]).await;
    let failed = |seen: &Seen| seen.settled("fail") == ["fail"];
    scene.server.until("the end", failed).await;
    running.drain().await?;
    let warnings = of(&log.all(), Level::WARN);
    assert_eq!(
        warnings,
        [
            "the handler failed in the job's last attempt: it is a dead letter queue=q key=retry attempt=2 error=not yet",
            "the handler failed the job for good: it is a dead letter queue=q key=fail attempt=1 error=no such customer",
        ]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_are_left_behind_are_counted() -> Tested {
    let (log, _guard) = logs(LevelFilter::INFO);
    let (open, blocked) = Blocked::new();
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let steps = scene.steps.clone();
    let worker = scene
        .builder()
        .shutdown_grace(Duration::ZERO)
        .cancel_grace(Duration::ZERO)
        .build_fn(move |_, job| {
            let blocked = blocked.clone();
            steps.add(Step::Started(job.key));
            async move {
                blocked.wait();
                Ok(())
            }
        });
    let stop = async {
        scene.until_started(1).await;
        worker.drain();
    };
    let run = within("the end", worker.run_until(Default::default()));
    let (ended, ()) = tokio::join!(run, stop);
    ended?;
    let warnings = of(&log.all(), Level::WARN);
    assert_eq!(warnings, ["stopped, and left handlers behind handlers=1"]);
    drop(open);
    Ok(())
}

#[tokio::test]
async fn a_life_without_trouble_is_three_lines() -> Tested {
    let (log, _guard) = logs(LevelFilter::INFO);
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    scene.open_gate();
    let running = scene.start(scene.builder().worker_id("w-1"));
    scene
        .server
        .until("completion", |seen| seen.settled("complete") == ["a"])
        .await;
    running.drain().await?;
    let lines = of(&log.all(), Level::INFO);
    assert_eq!(
        lines,
        ["ready queues=[\"q\"] worker_id=w-1", "draining", "stopped"]
    );
    assert_eq!(of(&log.all(), Level::WARN), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn an_ordinary_error_is_logged_with_its_job_and_a_chosen_retry_is_not() -> Tested {
    let (log, _guard) = logs(LevelFilter::INFO);
    let scene = Scene::with_long_leases().await;
    let worker = scene.builder().build_fn(|_, job| async move {
        match (job.key.as_str(), job.attempt) {
            ("error", 1) => Err("the disk is full".into()),
            ("chosen", 1) => Err(Retry::after(Duration::ZERO).because("not yet").into()),
            _ => Ok(()),
        }
    });
    scene.submit(&["chosen", "error"]).await;
    let running = Running::start(worker);
    scene
        .server
        .until("both to end", |seen| seen.settled("complete").len() == 2)
        .await;
    let last = Submit::new("q", "error").max_attempts(1);
    scene.client.submit(last).await?;
    let died = |log: &[String]| {
        let warnings = of(log, Level::WARN);
        warnings.iter().any(|line| line.contains("dead letter"))
    };
    log.until("that it died", died).await;
    running.drain().await?;
    let warnings = of(&log.all(), Level::WARN);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for part in [
        "queue=q",
        "key=error",
        "attempt=1",
        "error=the disk is full",
    ] {
        assert!(warnings[0].contains(part), "{part}: {warnings:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_lost_lease_is_logged_and_what_its_handler_returns_is_not() -> Tested {
    let (log, _guard) = logs(LevelFilter::INFO);
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let running = scene.start(scene.builder());
    scene.until_started(1).await;
    scene
        .server
        .lose_lease("q", "a", raw::LostReason::Cancelled, true);
    running.drain().await?;
    let warnings = of(&log.all(), Level::WARN);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in ["lease lost", "queue=q", "key=a", "cancelled"] {
        assert!(warnings[0].contains(part), "{part}: {warnings:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_error_that_run_returns_is_not_logged_as_well() -> Tested {
    let (log, _guard) = logs(LevelFilter::INFO);
    let scene = Scene::with_long_leases().await;
    let running = scene.start(scene.builder());
    scene
        .server
        .until("a session", |seen| seen.sessions == 1)
        .await;
    let refusal = tonic::Status::permission_denied("not you");
    scene.server.end_sessions(Some(refusal));
    assert!(running.end().await.is_err());
    let told = log.all().concat();
    assert!(!told.contains("not you"), "{told}");
    Ok(())
}

/// Blocks until the sender is dropped.
#[derive(Clone)]
struct Blocked(Arc<Mutex<mpsc::Receiver<()>>>);

impl Blocked {
    fn new() -> (mpsc::Sender<()>, Self) {
        let (open, blocked) = mpsc::channel();
        (open, Self(Arc::new(Mutex::new(blocked))))
    }

    fn wait(&self) {
        let _ = self.0.lock().expect("nobody panics with it").recv();
    }
}

impl io::Write for Blocked {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.wait();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A job of many lease durations, during which leases are kept alive whatever the owner's code does.
async fn outlives_its_lease(scene: &Scene, running: Running) -> Tested {
    scene
        .server
        .until("many heartbeats", |seen| seen.heartbeats >= 10)
        .await;
    scene.open_gate();
    let seen = scene
        .server
        .until("completion", |seen| seen.settled("complete") == ["long"])
        .await;
    assert_eq!((seen.delivered.len(), seen.expired), (1, 0));
    Ok(running.drain().await?)
}

#[tokio::test]
async fn logs_that_block_cost_no_lease_and_do_not_keep_the_worker_from_stopping() -> Tested {
    let (_open, blocked) = Blocked::new();
    let _guard = log_to(LevelFilter::INFO, move || blocked.clone());
    let scene = Scene::with_short_leases().await;
    scene.submit(&["long"]).await;
    let running = scene.start(scene.builder());
    outlives_its_lease(&scene, running).await
}

#[tokio::test]
async fn an_on_event_that_blocks_costs_no_lease() -> Tested {
    let (_open, blocked) = Blocked::new();
    let scene = Scene::with_short_leases().await;
    scene.submit(&["long"]).await;
    let running = scene.start(scene.builder().on_event(move |_| blocked.wait()));
    outlives_its_lease(&scene, running).await
}

#[tokio::test]
async fn logs_and_an_on_event_that_panic_are_called_again() -> Tested {
    let events = Log::new();
    let (log, count) = (Log::new(), events.clone());
    let lines = log.clone();
    let _guard = log_to(LevelFilter::INFO, move || -> Lines {
        lines.add(String::new());
        panic!("no room on the disk")
    });
    let scene = Scene::with_long_leases().await;
    let worker = scene
        .builder()
        .on_event(move |event| {
            count.add(event.clone());
            panic!("no such metric");
        })
        .build_fn(|_, _| async { Ok(()) });
    let running = Running::start(worker);
    scene
        .server
        .until("a session", |seen| seen.sessions == 1)
        .await;
    running.drain().await?;
    assert!(matches!(events.all().last(), Some(Event::Stopped { .. })));
    assert!(log.all().len() >= 3, "{:?}", log.all());
    Ok(())
}

#[tokio::test]
async fn an_owner_who_is_late_is_told_how_much_was_missed() -> Tested {
    let (log, _guard) = logs(LevelFilter::INFO);
    let (open, blocked) = Blocked::new();
    let scene = Scene::with_long_leases().await;
    scene.open_gate();
    let running = scene.start(
        scene
            .builder()
            .concurrency(500)
            .on_event(move |_| blocked.wait()),
    );
    let submits = (0..12_000).map(|number| Submit::new("q", format!("{number}")));
    scene.client.submit_many(submits).await;
    scene
        .server
        .until("all", |seen| seen.settled("complete").len() == 12_000)
        .await;
    drop(open);
    running.drain().await?;
    let missed = |log: &[String]| {
        of(log, Level::WARN)
            .iter()
            .any(|line| line.contains("missed="))
    };
    log.until("what was missed", missed).await;
    Ok(())
}
