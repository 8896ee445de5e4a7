//! A worker that is told to stop finishes, releases, and leaves nothing to run out.

use std::time::Duration;

use crate::support::{Running, Scene, Step, Tested, within};
use keywork_sdk::worker::{CancelReason, Event, WorkerError};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_drain_finishes_what_runs_and_starts_nothing_new() -> Tested {
    let scene = Scene::with_short_leases().await;
    scene.submit(&["a", "b", "c"]).await;
    let running = scene.start(scene.builder().concurrency(2));
    scene.until_started(2).await;
    running.worker.drain();
    let before = scene
        .server
        .until("the drain", |seen| seen.drains == 1)
        .await
        .heartbeats;
    // Several lease durations: heartbeats go on until the last settlement.
    scene
        .server
        .until("heartbeats", |seen| seen.heartbeats >= before + 6)
        .await;
    scene.open_gate();
    running.end().await?;
    let seen = scene.server.seen();
    assert_eq!(seen.settled("complete").len(), 2);
    assert_eq!((seen.delivered.len(), seen.expired), (2, 0));
    assert!(
        scene
            .server
            .outstanding("q", "c")
            .is_some_and(|job| job.attempt == 1)
    );
    Ok(())
}

#[tokio::test]
async fn an_idle_worker_drains_at_once() -> Tested {
    let scene = Scene::with_long_leases().await;
    let running = scene.start(scene.builder());
    scene
        .server
        .until("a session", |seen| seen.sessions == 1)
        .await;
    running.drain().await?;
    scene
        .server
        .until("the session's end", |seen| seen.sessions == 0)
        .await;
    Ok(())
}

#[tokio::test]
async fn a_worker_that_never_reached_a_server_drains_at_once() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.server.script(|script| script.unwelcome_sessions = 10);
    let running = scene.start(scene.builder());
    scene
        .server
        .until("a try", |seen| !seen.hellos.is_empty())
        .await;
    Ok(running.drain().await?)
}

#[tokio::test]
async fn after_the_grace_handlers_are_cancelled_and_their_jobs_released() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let running = scene.start(scene.builder().shutdown_grace(Duration::from_millis(100)));
    scene.until_started(1).await;
    running.drain().await?;
    scene
        .until_cancelled("a", CancelReason::WorkerShutdown)
        .await;
    assert_eq!(scene.server.seen().settled("release"), ["a"]);
    assert!(
        scene
            .server
            .outstanding("q", "a")
            .is_some_and(|job| job.attempt == 1),
        "no attempt is lost"
    );
    Ok(())
}

#[tokio::test]
async fn a_handler_that_does_not_end_when_it_is_cancelled_is_dropped_and_released() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let steps = scene.steps.clone();
    let worker = scene
        .builder()
        .shutdown_grace(Duration::from_millis(50))
        .build_fn(move |_context, job| {
            steps.add(Step::Started(job.key));
            std::future::pending()
        });
    let running = Running::start(worker);
    scene.until_started(1).await;
    running.drain().await?;
    assert_eq!(scene.server.seen().settled("release"), ["a"]);
    Ok(())
}

#[tokio::test]
async fn a_second_order_releases_everything_and_is_an_error() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a", "b"]).await;
    let running = scene.start(scene.builder());
    scene.until_started(2).await;
    running.worker.drain();
    scene
        .events
        .until("the drain", |events| {
            matches!(events.last(), Some(Event::Draining))
        })
        .await;
    running.worker.release_all();
    assert!(matches!(running.end().await, Err(WorkerError::Forced)));
    let mut released = scene
        .server
        .seen()
        .settled("release")
        .iter()
        .map(|key| (*key).to_owned())
        .collect::<Vec<_>>();
    released.sort();
    assert_eq!(released, ["a", "b"]);
    Ok(())
}

#[tokio::test]
async fn a_run_that_is_dropped_releases_its_jobs() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let running = scene.start(scene.builder());
    scene.until_started(1).await;
    running.abort();
    scene
        .server
        .until("the release", |seen| seen.settled("release") == ["a"])
        .await;
    Ok(())
}

#[tokio::test]
async fn a_cancelled_token_drains() -> Tested {
    let scene = Scene::with_long_leases().await;
    let token = CancellationToken::new();
    let worker = scene.builder().build_fn(|_context, _job| async { Ok(()) });
    let run = worker.run_until(token.clone());
    token.cancel();
    within("the end", run).await?;
    let events = scene.events.all();
    assert!(
        events.iter().any(|event| matches!(event, Event::Draining)),
        "{events:?}"
    );
    Ok(())
}

#[tokio::test]
async fn settlements_are_flushed_although_the_stream_breaks_during_the_drain() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let running = scene.start(scene.builder());
    scene.until_started(1).await;
    running.worker.drain();
    scene
        .server
        .until("the drain", |seen| seen.drains == 1)
        .await;
    scene.server.end_sessions(None);
    scene.open_gate();
    running.end().await?;
    assert_eq!(scene.server.seen().settled("complete"), ["a"]);
    Ok(())
}

/// The only test that sends signals: every worker that listens in this process gets them.
#[tokio::test]
async fn the_first_signal_drains_and_the_second_releases_everything() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let steps = scene.steps.clone();
    let worker = scene.builder().build_fn(move |_context, job| {
        steps.add(Step::Started(job.key));
        std::future::pending()
    });
    let signals = async {
        scene.until_started(1).await;
        signal_this_process("TERM");
        scene
            .server
            .until("the drain", |seen| seen.drains == 1)
            .await;
        signal_this_process("INT");
    };
    let (ended, ()) = tokio::join!(within("the end", worker.run()), signals);
    assert!(matches!(ended, Err(WorkerError::Forced)), "{ended:?}");
    assert_eq!(scene.server.seen().settled("release"), ["a"]);
    Ok(())
}

fn signal_this_process(name: &str) {
    let process = std::process::id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-s", name, &process])
        .status();
    assert!(sent.is_ok_and(|status| status.success()));
}

#[tokio::test]
async fn a_drain_while_the_session_opens_leaves_no_delivery_behind() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a", "b", "c", "d"]).await;
    scene.open_gate();
    let mut drained = 0;
    for tries in 0..30 {
        let running = scene.start(scene.builder().worker_id(format!("worker-{tries}")));
        // Somewhere between the first packet and the first delivery.
        for _ in 0..tries {
            tokio::task::yield_now().await;
        }
        running.drain().await?;
        drained += 1;
    }
    assert_eq!(drained, 30);
    let seen = scene.server.seen();
    let ended = seen.settled("complete").len() + seen.settled("release").len();
    assert_eq!(seen.delivered.len(), ended, "every delivery was settled");
    Ok(())
}
