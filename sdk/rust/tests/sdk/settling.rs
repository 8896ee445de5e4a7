//! How a handler ends is what its job becomes, once.

use std::time::Duration;

use crate::support::{Log, Running, Scene, Tested};
use futures::future::BoxFuture;
use keywork_sdk::{
    Context, Job, Submit, raw,
    raw::SettlementOutcome as Answer,
    testing::{FakeServer, Lease, job, run_once},
    worker::{
        CancelReason, Event, Fail, HandlerError, HandlerResult, Interceptor, Next, Outcome,
        Release, Rerun, Retry, SettledOutcome,
    },
};

fn by_key(job: &Job) -> HandlerResult {
    match job.key.as_str() {
        "complete" => Ok(()),
        "retry" if job.attempt == 1 => Err(Retry::after(Duration::from_millis(20))
            .because("later")
            .into()),
        "error" if job.attempt == 1 => Err("broke".into()),
        "fail" => Err(Fail::new("no use").into()),
        "release" if job.fencing_number < 100 => Err(Release.into()),
        "panic" if job.attempt == 1 => panic!("oh no"),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn each_end_of_a_handler_settles_its_job_in_its_own_way() -> Tested {
    let scene = Scene::new(FakeServer::start().await?);
    let worker = scene
        .builder()
        .build_fn(|_context: Context, job: Job| async move {
            if job.key == "release" {
                // Given back once, then completed.
                return if job.attributes.contains_key("given") {
                    Ok(())
                } else {
                    Err(Release.into())
                };
            }
            by_key(&job)
        });
    scene
        .submit(&["complete", "retry", "error", "fail", "panic"])
        .await;
    let running = Running::start(worker);
    let seen = scene
        .server
        .until("all to end", |seen| seen.settled("complete").len() == 4)
        .await;
    let mut retried = seen.settled("retry");
    retried.sort_unstable();
    assert_eq!(retried, ["error", "panic", "retry"]);
    let error_of = |key: &str| {
        let found = seen
            .settlements
            .iter()
            .find(|s| s.key == key && s.outcome == "retry");
        found
            .map(|settlement| settlement.error.clone())
            .unwrap_or_default()
    };
    assert_eq!(error_of("retry"), "later");
    assert_eq!(error_of("error"), "broke");
    assert!(error_of("panic").contains("oh no"));
    let dead = scene.server.dead("q");
    assert_eq!(dead.len(), 1);
    assert_eq!(
        (dead[0].job.key.as_str(), dead[0].job.last_error.as_str()),
        ("fail", "no use")
    );
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_released_job_costs_no_attempt() -> Tested {
    let scene = Scene::with_long_leases().await;
    let attempts = Log::new();
    let log = attempts.clone();
    let worker = scene.builder().build_fn(move |_context, job| {
        log.add(job.attempt);
        let again = log.all().len() == 1;
        async move { if again { Err(Release.into()) } else { Ok(()) } }
    });
    scene.submit(&["a"]).await;
    let running = Running::start(worker);
    attempts
        .until("two runs", |attempts| attempts == [1, 1])
        .await;
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_settlement_without_an_answer_is_sent_again_after_the_reconnect() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene
        .server
        .script(|script| script.unanswered_settlements = 1);
    scene.submit(&["a"]).await;
    scene.open_gate();
    let running = scene.start(scene.builder());
    scene
        .server
        .until("the settlement", |seen| seen.settlements.len() == 1)
        .await;
    scene.server.end_sessions(None);
    let seen = scene
        .server
        .until("it again", |seen| seen.settlements.len() == 2)
        .await;
    assert_eq!(seen.settlements[1].answer, Answer::AlreadySettled);
    assert_eq!(seen.delivered.len(), 1);
    let worker = running.worker.clone();
    running.drain().await?;
    assert_eq!(
        (worker.counts().settled, worker.counts().dropped_results),
        (1, 0)
    );
    Ok(())
}

#[tokio::test]
async fn a_settlement_that_could_not_be_confirmed_is_tried_again() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.server.script(|script| {
        script
            .settlement_answers
            .extend([Answer::TryAgain, Answer::TryAgain])
    });
    scene.submit(&["a"]).await;
    scene.open_gate();
    let running = scene.start(scene.builder());
    let seen = scene
        .server
        .until("success", |seen| seen.settled("complete") == ["a"])
        .await;
    assert_eq!(seen.settlements.len(), 3);
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_retry_that_is_refused_becomes_one_without_a_delay() -> Tested {
    let scene = Scene::new(FakeServer::start().await?);
    scene
        .server
        .script(|script| script.settlement_answers.push_back(Answer::Rejected));
    scene.submit(&["a"]).await;
    let too_long = Duration::from_secs(400 * 24 * 60 * 60);
    let worker = scene
        .builder()
        .build_fn(move |_context: Context, job: Job| async move {
            match job.attempt {
                1 => Err(Retry::after(too_long).into()),
                _ => Ok(()),
            }
        });
    let running = Running::start(worker);
    let seen = scene
        .server
        .until("the next attempt", |seen| seen.settled("complete") == ["a"])
        .await;
    let ends: Vec<&str> = seen.settlements.iter().map(|s| s.outcome).collect();
    assert_eq!(ends, ["retry", "retry", "complete"]);
    assert!(seen.settlements[1].error.contains("refused"));
    Ok(running.drain().await?)
}

#[tokio::test]
async fn a_settlement_that_came_too_late_is_dropped_and_counted() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene
        .server
        .script(|script| script.settlement_answers.push_back(Answer::LeaseLost));
    scene.submit(&["a"]).await;
    scene.open_gate();
    let running = scene.start(scene.builder());
    scene
        .server
        .until("the settlement", |seen| !seen.settlements.is_empty())
        .await;
    let worker = running.worker.clone();
    running.drain().await?;
    assert_eq!(
        (worker.counts().dropped_results, worker.counts().settled),
        (1, 0)
    );
    Ok(())
}

#[tokio::test]
async fn a_settlement_that_is_refused_becomes_a_retry() -> Tested {
    let scene = Scene::with_long_leases().await;
    let worker = scene.builder().build_fn(|_context, job| async move {
        if job.attempt == 1 {
            Err(Rerun::after(Duration::ZERO).into())
        } else {
            Ok(())
        }
    });
    scene.submit(&["a"]).await;
    let running = Running::start(worker);
    let seen = scene
        .server
        .until("the second attempt", |seen| {
            seen.settled("complete") == ["a"]
        })
        .await;
    assert_eq!(seen.settled("retry"), ["a"]);
    Ok(running.drain().await?)
}

#[tokio::test]
async fn what_is_ready_together_is_settled_in_one_message() -> Tested {
    let scene = Scene::with_long_leases().await;
    let submits = (0..2_000).map(|number| Submit::new("q", format!("key-{number}")));
    let outcomes = scene.client.submit_many(submits).await;
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.as_ref().is_ok_and(|o| o.is_accepted()))
    );
    scene.open_gate();
    let running = scene.start(scene.builder().concurrency(500));
    let seen = scene
        .server
        .until("all", |seen| seen.settled("complete").len() == 2_000)
        .await;
    assert!(
        seen.settlement_messages <= 1_000,
        "{} messages",
        seen.settlement_messages
    );
    Ok(running.drain().await?)
}

#[tokio::test]
async fn run_once_tells_how_a_handler_ends() {
    let handler = |_context: Context, job: Job| async move { by_key(&job) };
    assert_eq!(
        run_once(handler, job("q", "complete")).await,
        Outcome::Complete
    );
    assert_eq!(
        run_once(handler, job("q", "release")).await,
        Outcome::Release
    );
    let failed = Outcome::Fail {
        reason: "no use".into(),
    };
    assert_eq!(run_once(handler, job("q", "fail")).await, failed);
    let panicked = run_once(handler, job("q", "panic")).await;
    assert!(
        matches!(
            panicked,
            Outcome::Retry {
                delay: None,
                chosen: false,
                ..
            }
        ),
        "{panicked:?}"
    );
}

#[tokio::test]
async fn an_error_tells_its_causes() {
    #[derive(Debug, thiserror::Error)]
    #[error("failed to sync")]
    struct Outer(#[source] std::io::Error);
    let handler = |_context: Context, _job: Job| async {
        Err(HandlerError::from(Outer(std::io::Error::other(
            "disk full",
        ))))
    };
    let Outcome::Retry { error, .. } = run_once(handler, job("q", "k")).await else {
        panic!("a retry")
    };
    assert_eq!(error, "failed to sync: disk full");
}

#[tokio::test]
async fn a_cause_that_its_error_tells_already_is_not_told_again() {
    #[derive(Debug, thiserror::Error)]
    #[error("failed to sync: {0}")]
    struct Telling(#[source] std::io::Error);
    let handler = |_context: Context, _job: Job| async {
        Err(HandlerError::from(Telling(std::io::Error::other(
            "disk full",
        ))))
    };
    let Outcome::Retry { error, .. } = run_once(handler, job("q", "k")).await else {
        panic!("a retry")
    };
    assert_eq!(error, "failed to sync: disk full");
}

#[tokio::test]
async fn a_chosen_end_is_found_under_whatever_wraps_it() {
    fn failed() -> anyhow::Result<()> {
        Err(Fail::new("no use").into())
    }
    fn given_back() -> anyhow::Result<()> {
        Err(anyhow::Error::new(Release).context("while syncing"))
    }
    let by_anyhow = |_context: Context, job: Job| async move {
        match job.key.as_str() {
            "fail" => Ok(failed()?),
            _ => Ok(given_back()?),
        }
    };
    let reason = "no use".to_owned();
    assert_eq!(
        run_once(by_anyhow, job("q", "fail")).await,
        Outcome::Fail { reason }
    );
    assert_eq!(
        run_once(by_anyhow, job("q", "release")).await,
        Outcome::Release
    );
    assert_eq!(
        format!("{:#}", failed().expect_err("it fails")),
        "failed for good: no use"
    );
}

#[tokio::test]
async fn an_error_that_cannot_be_read_is_a_failed_attempt() {
    #[derive(Debug)]
    struct Unreadable;
    impl std::fmt::Display for Unreadable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("nor can this")
        }
    }
    impl std::error::Error for Unreadable {}
    let handler = |_context: Context, _job: Job| async { Err(HandlerError::from(Unreadable)) };
    let outcome = run_once(handler, job("q", "k")).await;
    assert!(
        matches!(outcome, Outcome::Retry { chosen: false, .. }),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_lease_that_a_test_cancels_gives_what_a_worker_would_settle() {
    let until_cancelled = |context: Context, job: Job| async move {
        context.cancelled().await;
        match job.key.as_str() {
            "error" => Err("stopped".into()),
            "chosen" => Err(Retry::default().because("stopped").into()),
            _ => Ok(()),
        }
    };
    let retry = Outcome::Retry {
        delay: None,
        error: "stopped".to_owned(),
        chosen: true,
    };
    for (reason, key, settled) in [
        (
            CancelReason::WorkerShutdown,
            "error",
            Some(Outcome::Release),
        ),
        (CancelReason::WorkerShutdown, "chosen", Some(retry)),
        (
            CancelReason::WorkerShutdown,
            "done",
            Some(Outcome::Complete),
        ),
        (CancelReason::LeaseLost, "error", None),
        (CancelReason::LeaseLost, "done", None),
        (CancelReason::JobCancelled, "done", None),
    ] {
        let lease = Lease::new();
        let run = lease.run_once(until_cancelled, job("q", key));
        let (outcome, ()) = tokio::join!(run, async { lease.cancel(reason) });
        assert_eq!(outcome, settled, "{reason:?}, {key}");
    }
}

#[tokio::test]
async fn interceptors_are_called_from_the_outermost_inwards() -> Tested {
    struct Named(&'static str, Log<String>);
    impl Interceptor for Named {
        fn intercept<'a>(
            &'a self,
            context: Context,
            job: Job,
            next: Next<'a>,
        ) -> BoxFuture<'a, HandlerResult> {
            Box::pin(async move {
                self.1.add(format!("{} in", self.0));
                let result = next.run(context, job).await;
                self.1.add(format!("{} out", self.0));
                result
            })
        }
    }
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    scene.open_gate();
    let log = Log::new();
    let builder = scene.builder();
    let builder = builder
        .interceptor(Named("outer", log.clone()))
        .interceptor(Named("inner", log.clone()));
    let running = scene.start(builder);
    log.until("both", |log| log.len() == 4).await;
    assert_eq!(
        log.all(),
        ["outer in", "inner in", "inner out", "outer out"]
    );
    Ok(running.drain().await?)
}

#[tokio::test]
async fn leases_can_be_pulled_extended_and_settled_without_a_stream() -> Tested {
    use keywork_sdk::client::{LeaseExtension, Pull, Settle, Settled};
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let leased = scene
        .client
        .pull(Pull::new("q").wait(Duration::from_secs(5)))
        .await?;
    let token = leased[0].token.clone();
    let extended = scene.client.heartbeat(vec![token.clone()]).await?;
    assert!(matches!(extended[0], LeaseExtension::Extended(..)));
    let settled = scene
        .client
        .ack(vec![(token.clone(), Settle::Complete)])
        .await?;
    assert!(matches!(settled[0], Settled::Settled));
    let settled = scene.client.ack(vec![(token, Settle::Complete)]).await?;
    assert!(matches!(settled[0], Settled::AlreadySettled));
    let unknown = scene.client.heartbeat(vec!["no such lease".into()]).await?;
    assert!(matches!(unknown[0], LeaseExtension::Lost(_)));
    assert!(
        scene
            .client
            .pull(Pull::new("q").wait(Duration::ZERO))
            .await?
            .is_empty()
    );
    assert_eq!(scene.server.seen().settlements.len(), 2);
    drop(raw::AckRequest::default());
    Ok(())
}

#[tokio::test]
async fn every_answered_settlement_is_told_with_its_lease() -> Tested {
    let scene = Scene::new(FakeServer::start().await?);
    scene.server.script(|script| {
        script
            .settlement_answers
            .extend([Answer::TryAgain, Answer::AlreadySettled])
    });
    let running = scene.start(scene.builder());
    scene.submit(&["a"]).await;
    scene.until_started(1).await;
    scene.open_gate();
    let told = |event: &Event| {
        let Event::Settled {
            queue,
            key,
            fencing_number,
            outcome,
        } = event
        else {
            return None;
        };
        Some((queue.clone(), key.clone(), *fencing_number > 0, *outcome))
    };
    let events = scene
        .events
        .until("the settlement to be told", |events| {
            events.iter().any(|e| told(e).is_some())
        })
        .await;
    let all: Vec<_> = events.iter().filter_map(told).collect();
    let once = (
        "q".to_owned(),
        "a".to_owned(),
        true,
        SettledOutcome::AlreadySettled,
    );
    assert_eq!(all, [once]);
    Ok(running.drain().await?)
}
