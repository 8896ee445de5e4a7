//! A worker extends what it holds, and stops a handler before its lease can be somebody else's.

use std::time::{Duration, Instant};

use crate::support::{Log, Running, Scene, Step, Tested};
use keywork_sdk::{
    Worker, raw,
    testing::FakeServer,
    worker::{CancelReason, Event},
};

#[tokio::test]
async fn a_job_that_takes_many_lease_durations_runs_once() -> Tested {
    let scene = Scene::with_short_leases().await;
    scene.submit(&["long"]).await;
    let running = scene.start(scene.builder());
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
async fn a_handler_that_burns_cpu_costs_no_heartbeat() -> Tested {
    let scene = Scene::with_short_leases().await;
    scene.submit(&["hot"]).await;
    let worker = scene.builder().build_fn(|_context, _job| async {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(4) {
            std::hint::spin_loop();
        }
        Ok(())
    });
    // The handler burns the only thread of its runtime.
    let handlers = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let running = worker.clone();
    let ran = std::thread::spawn(move || handlers.block_on(running.run_until(Default::default())));
    let seen = scene
        .server
        .until("completion", |seen| seen.settled("complete") == ["hot"])
        .await;
    assert_eq!(seen.delivered.len(), 1);
    worker.drain();
    let ran = tokio::task::spawn_blocking(|| ran.join()).await?;
    assert!(matches!(ran, Ok(Ok(()))));
    Ok(())
}

#[tokio::test]
async fn a_worker_whose_heartbeats_are_not_answered_stops_its_handlers_before_the_deadline()
-> Tested {
    let scene = Scene::with_short_leases().await;
    scene.submit(&["a"]).await;
    scene
        .server
        .script(|script| script.ignore_heartbeats = true);
    let running = scene.start(scene.builder());
    scene.until_cancelled("a", CancelReason::LeaseLost).await;
    assert_eq!(
        scene.server.seen().expired,
        0,
        "the lease had not run out yet"
    );
    scene
        .server
        .script(|script| script.ignore_heartbeats = false);
    scene
        .server
        .until("another delivery", |seen| seen.delivered.len() == 2)
        .await;
    scene.open_gate();
    let seen = scene
        .server
        .until("completion", |seen| !seen.settled("complete").is_empty())
        .await;
    assert_eq!(
        seen.settlements.len(),
        1,
        "the first handler's result was dropped"
    );
    assert_eq!(running.worker.counts().dropped_results, 1);
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_lease_that_the_server_takes_away_cancels_its_handler_at_once() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a", "b"]).await;
    let running = scene.start(scene.builder());
    scene.until_started(2).await;
    let before = Instant::now();
    scene
        .server
        .lose_lease("q", "a", raw::LostReason::Expired, true);
    scene.until_cancelled("a", CancelReason::LeaseLost).await;
    assert!(
        before.elapsed() < Duration::from_secs(1),
        "{:?}",
        before.elapsed()
    );
    scene
        .events
        .until("the event", |events| {
            events
                .iter()
                .any(|event| matches!(event, Event::LeaseLost { key, .. } if key == "a"))
        })
        .await;
    scene.open_gate();
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_job_that_is_cancelled_tells_its_handler_so() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let running = scene.start(scene.builder());
    scene.until_started(1).await;
    scene.client.purge_queue("q").await?;
    scene.until_cancelled("a", CancelReason::JobCancelled).await;
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_loss_that_only_a_heartbeat_tells_cancels_too() -> Tested {
    let scene = Scene::with_short_leases().await;
    scene.submit(&["a"]).await;
    let running = scene.start(scene.builder().concurrency(1));
    scene.until_started(1).await;
    scene.client.pause_queue("q").await?;
    scene
        .server
        .lose_lease("q", "a", raw::LostReason::Expired, false);
    scene.until_cancelled("a", CancelReason::LeaseLost).await;
    Ok(running.drain().await?)
}

#[tokio::test]
async fn where_there_is_a_disconnect_grace_handlers_stop_that_long_after_the_stream_broke() -> Tested
{
    let server = FakeServer::builder()
        .lease_duration(Duration::from_secs(60))
        .disconnect_grace(Duration::from_millis(500));
    let scene = Scene::new(server.start().await?);
    scene.submit(&["a"]).await;
    let running = scene.start(scene.builder());
    scene.until_started(1).await;
    scene.server.script(|script| {
        script
            .refuse_sessions
            .extend((0..20).map(|_| tonic::Status::unavailable("away")));
    });
    scene.server.end_sessions(None);
    scene.until_cancelled("a", CancelReason::LeaseLost).await;
    scene.server.script(|script| script.refuse_sessions.clear());
    scene.open_gate();
    scene
        .server
        .until("the job to run again", |seen| {
            seen.settled("complete") == ["a"]
        })
        .await;
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_handler_that_lost_its_lease_keeps_its_slot_until_it_ends() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["stubborn"]).await;
    let (started, release) = (Log::new(), tokio::sync::watch::Sender::new(false));
    let (log, gate) = (started.clone(), release.subscribe());
    let worker = scene
        .builder()
        .concurrency(2)
        .build_fn(move |_context, job| {
            let (log, mut gate) = (log.clone(), gate.clone());
            async move {
                log.add(job.key);
                let _ = gate.wait_for(|open| *open).await;
                Ok(())
            }
        });
    let running = Running::start(worker);
    started.until("the handler", |keys| keys.len() == 1).await;
    scene.client.purge_queue("q").await?;
    scene
        .server
        .until("a lower capacity", |seen| seen.capacity == Some(1))
        .await;
    let told = scene.events.until("the report", |events| {
        events
            .iter()
            .any(|event| matches!(event, Event::HandlerIgnoresCancellation { .. }))
    });
    told.await;
    release.send_replace(true);
    scene
        .server
        .until("the full capacity", |seen| seen.capacity == Some(2))
        .await;
    Ok(running.drain().await?)
}

#[tokio::test]
async fn no_more_handlers_run_at_once_than_the_concurrency_says() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a", "b", "c", "d", "e"]).await;
    let running = scene.start(scene.builder().concurrency(2));
    scene.until_started(2).await;
    assert_eq!(
        scene.server.seen().delivered.len(),
        2,
        "what has no slot stays in the queue"
    );
    scene.open_gate();
    scene
        .server
        .until("all to complete", |seen| {
            seen.settled("complete").len() == 5
        })
        .await;
    Ok(running.drain().await?)
}

#[tokio::test]
async fn the_deadline_of_a_context_moves_with_the_heartbeats() -> Tested {
    let scene = Scene::with_short_leases().await;
    scene.submit(&["a"]).await;
    let deadlines = Log::new();
    let log = deadlines.clone();
    let worker: Worker = scene.builder().build_fn(move |context, _job| {
        let log = log.clone();
        async move {
            let first = context.deadline();
            while context.deadline() == first {
                tokio::task::yield_now().await;
            }
            log.add((first, context.deadline()));
            Ok(())
        }
    });
    let running = Running::start(worker);
    let seen = deadlines
        .until("a deadline that moves", |log| !log.is_empty())
        .await;
    assert!(seen[0].0 < seen[0].1);
    assert!(!scene.steps.all().contains(&Step::Ended("a".into())));
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_heartbeat_that_could_not_be_confirmed_extends_nothing() -> Tested {
    let scene = Scene::with_short_leases().await;
    scene.submit(&["a"]).await;
    scene
        .server
        .script(|script| script.unconfirmed_heartbeats = true);
    let running = scene.start(scene.builder());
    scene.until_cancelled("a", CancelReason::LeaseLost).await;
    let seen = scene.server.seen();
    assert_eq!(
        (seen.expired, seen.hellos.len()),
        (0, 1),
        "in time, and the session went on"
    );
    scene
        .server
        .script(|script| script.unconfirmed_heartbeats = false);
    scene.open_gate();
    Ok(running.drain().await?)
}
