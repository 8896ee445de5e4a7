//! A worker keeps its session whatever the server does, and stops only when it must.

use std::time::Duration;

use crate::support::{Scene, Tested};
use keywork_sdk::{
    raw,
    testing::FakeServer,
    worker::{CancelReason, Event, WorkerError},
};
use tonic::{Code, Status};

#[tokio::test]
async fn a_stream_that_ends_ok_is_opened_again_and_its_leases_are_claimed() -> Tested {
    // So long that no heartbeat is due by itself while the test waits.
    let server = FakeServer::builder().lease_duration(Duration::from_secs(120));
    let scene = Scene::new(server.start().await?);
    scene.submit(&["a"]).await;
    let running = scene.start(scene.builder());
    scene.until_started(1).await;
    scene.server.end_sessions(None);
    let seen = scene
        .server
        .until("a second session", |seen| seen.hellos.len() == 2)
        .await;
    assert!(seen.hellos[0].held_leases.is_empty());
    assert_eq!(seen.hellos[1].held_leases.len(), 1, "the lease is claimed");
    assert_eq!(
        seen.hellos[1].session_ticket.as_ref(),
        b"ticket-1",
        "with the newest ticket"
    );
    assert_eq!(seen.hellos[0].worker_id, seen.hellos[1].worker_id);
    // It was extended last through the first session: how much time it has left is not to be counted on.
    scene
        .server
        .until("a heartbeat at once", |seen| seen.heartbeats > 0)
        .await;
    scene.open_gate();
    scene
        .server
        .until("the job to complete", |seen| {
            seen.settled("complete") == ["a"]
        })
        .await;
    let seen = scene.server.seen();
    assert_eq!(seen.delivered, ["a"], "it ran once");
    Ok(running.drain().await?)
}

#[tokio::test]
async fn every_status_that_is_no_refusal_means_reconnect() -> Tested {
    let scene = Scene::with_long_leases().await;
    let running = scene.start(scene.builder());
    let codes = [
        Code::Unavailable,
        Code::Unknown,
        Code::Cancelled,
        Code::Internal,
        Code::ResourceExhausted,
    ];
    for (ended, code) in codes.into_iter().enumerate() {
        scene
            .server
            .until("a session", |seen| {
                seen.hellos.len() == ended + 1 && seen.sessions == 1
            })
            .await;
        scene.server.end_sessions(Some(Status::new(code, "gone")));
    }
    scene
        .server
        .until("a last session", |seen| {
            seen.hellos.len() == codes.len() + 1
        })
        .await;
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_refusal_stops_the_worker_and_is_told() -> Tested {
    let refusals = [
        Code::InvalidArgument,
        Code::Unauthenticated,
        Code::PermissionDenied,
        Code::NotFound,
        Code::Unimplemented,
    ];
    for code in refusals {
        let scene = Scene::with_long_leases().await;
        scene
            .server
            .script(|script| script.refuse_sessions.push_back(Status::new(code, "no")));
        let ended = scene.start(scene.builder()).end().await;
        let Err(WorkerError::Refused(error)) = ended else {
            panic!("{code:?}: {ended:?}")
        };
        assert_eq!(error.code(), code);
        scene
            .events
            .until("the event", |events| {
                matches!(events.last(), Some(Event::Stopped { .. }))
            })
            .await;
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_in_the_middle_cancels_the_handlers() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let running = scene.start(scene.builder());
    scene.until_started(1).await;
    scene
        .server
        .end_sessions(Some(Status::permission_denied("no more")));
    scene.until_cancelled("a", CancelReason::LeaseLost).await;
    assert!(matches!(running.end().await, Err(WorkerError::Refused(_))));
    Ok(())
}

#[tokio::test]
async fn a_server_that_never_says_welcome_is_left() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.server.script(|script| script.unwelcome_sessions = 1);
    scene.submit(&["a"]).await;
    let running = scene.start(scene.builder());
    scene.until_started(1).await;
    let events = scene.events.all();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Degraded { .. })),
        "{events:?}"
    );
    scene.open_gate();
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_server_that_falls_silent_is_left_within_its_liveness_timeout() -> Tested {
    let scene = Scene::with_short_leases().await;
    let running = scene.start(scene.builder());
    scene
        .server
        .until("a session", |seen| seen.sessions == 1)
        .await;
    scene
        .events
        .until("readiness", |events| {
            matches!(events.last(), Some(Event::Ready))
        })
        .await;
    scene.server.script(|script| script.silent = true);
    scene
        .events
        .until("the silence", |events| {
            events.iter().any(|e| matches!(e, Event::Degraded { .. }))
        })
        .await;
    assert!(!running.worker.healthy());
    scene.server.script(|script| script.silent = false);
    scene.server.script(|script| script.unwelcome_sessions = 0);
    scene.submit(&["a"]).await;
    scene.open_gate();
    scene
        .server
        .until("the job to complete", |seen| {
            seen.settled("complete") == ["a"]
        })
        .await;
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_superseded_worker_stops_and_does_not_come_back() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let older = scene.start(scene.builder().worker_id("same"));
    scene.until_started(1).await;
    let newer = scene.start(scene.builder().worker_id("same"));
    assert!(matches!(older.end().await, Err(WorkerError::Superseded)));
    scene.until_cancelled("a", CancelReason::LeaseLost).await;
    let seen = scene
        .server
        .until("the job to be handed on", |seen| seen.delivered.len() == 2)
        .await;
    assert_eq!(seen.hellos.len(), 2, "no ping-pong");
    scene.open_gate();
    Ok(newer.drain().await?)
}

#[tokio::test]
async fn a_server_that_drains_is_left_with_the_leases_kept() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let running = scene.start(scene.builder());
    scene.until_started(1).await;
    scene
        .server
        .go_away(raw::GoAwayReason::Draining, Duration::from_millis(50));
    let seen = scene
        .server
        .until("a second session", |seen| seen.hellos.len() == 2)
        .await;
    assert_eq!(seen.hellos[1].held_leases.len(), 1);
    scene.open_gate();
    scene
        .server
        .until("the job to complete", |seen| {
            seen.settled("complete") == ["a"]
        })
        .await;
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_worker_is_healthy_while_its_session_is_live() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.server.script(|script| {
        script
            .refuse_sessions
            .push_back(Status::unavailable("not yet"))
    });
    let running = scene.start(scene.builder());
    assert!(!running.worker.healthy());
    scene
        .events
        .until("readiness", |events| {
            matches!(events.last(), Some(Event::Ready))
        })
        .await;
    assert!(running.worker.healthy());
    let worker = running.worker.clone();
    running.drain().await?;
    assert!(!worker.healthy());
    assert!(matches!(
        worker.run().await,
        Err(WorkerError::StartedBefore)
    ));
    Ok(())
}

#[tokio::test]
async fn a_stream_that_ends_as_superseded_stops_the_worker_too() -> Tested {
    use tonic_types::{ErrorDetails, StatusExt};
    let scene = Scene::with_long_leases().await;
    let running = scene.start(scene.builder());
    scene
        .server
        .until("a session", |seen| seen.sessions == 1)
        .await;
    let details = ErrorDetails::with_error_info("SESSION_SUPERSEDED", "keywork.dev", []);
    scene.server.end_sessions(Some(Status::with_error_details(
        Code::Aborted,
        "newer",
        details,
    )));
    assert!(matches!(running.end().await, Err(WorkerError::Superseded)));
    Ok(())
}

#[tokio::test]
async fn a_hello_that_was_too_slow_is_said_again() -> Tested {
    use tonic_types::{ErrorDetails, StatusExt};
    let scene = Scene::with_long_leases().await;
    let details = ErrorDetails::with_error_info("HELLO_LATE", "keywork.dev", []);
    let slow = Status::with_error_details(Code::Unavailable, "no Hello within 10 s", details);
    scene
        .server
        .script(|script| script.refuse_sessions.push_back(slow));
    let running = scene.start(scene.builder());
    scene
        .server
        .until("a session", |seen| seen.sessions == 1)
        .await;
    Ok(running.drain().await?)
}
