//! Submitting is safe to retry, and each answer says what happened.

use std::{
    collections::HashSet,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use crate::support::{Running, Scene, Tested, within};
use futures::{StreamExt, TryStreamExt, stream};
use keywork_sdk::{
    Client, Submit, SubmitOutcome,
    client::{OnConflict, Page, QueueConfig, Which},
    errors::reasons,
    job::{DeadReason, JobState},
    testing::{FakeServer, SubmitFault},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use uuid::Uuid;

#[tokio::test]
async fn a_busy_key_is_an_outcome_that_names_its_job() -> Tested {
    let scene = Scene::with_long_leases().await;
    let created = scene
        .client
        .submit(Submit::new("q", "a").payload("v1"))
        .await?;
    assert!(matches!(created, SubmitOutcome::Created(_)));
    let busy = scene
        .client
        .submit(Submit::new("q", "a").payload("v2"))
        .await?;
    let SubmitOutcome::AlreadyOutstanding(job) = &busy else {
        panic!("{busy:?}")
    };
    assert_eq!(
        (job.id.as_str(), job.state),
        (created.job().id.as_str(), JobState::Queued)
    );
    assert!(!busy.is_accepted());
    let found = scene.client.get_job("q", "a").await?;
    assert_eq!(found.map(|job| job.payload), Some("v1".into()));
    assert_eq!(scene.client.get_job("q", "nothing").await?, None);
    Ok(())
}

#[tokio::test]
async fn a_submit_whose_answer_is_lost_is_tried_again_with_the_same_id() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.server.script(|script| {
        script
            .submit_faults
            .extend([SubmitFault::Unavailable, SubmitFault::AnswerLost]);
    });
    let outcome = scene.client.submit(Submit::new("q", "a")).await?;
    assert!(
        matches!(outcome, SubmitOutcome::Created(_)),
        "it is this call's own job: {outcome:?}"
    );
    let submits = scene.server.seen().submits;
    assert_eq!(submits.len(), 3);
    assert_eq!(submits.iter().collect::<HashSet<_>>().len(), 1);
    Ok(())
}

#[tokio::test]
async fn the_callers_request_id_is_kept_and_found_again() -> Tested {
    let scene = Scene::with_long_leases().await;
    let id = Uuid::new_v4();
    let submit = Submit::new("q", "a").request_id(id);
    let created = scene.client.submit(submit.clone()).await?;
    assert_eq!(created.job().id, id.to_string());
    let again = scene.client.submit(submit).await?;
    assert!(matches!(again, SubmitOutcome::Duplicate(job) if job.id == id.to_string()));
    Ok(())
}

#[tokio::test]
async fn a_submit_gives_up_at_its_deadline_and_says_that_it_may_have_counted() -> Tested {
    let server = FakeServer::start().await?;
    let client = Client::builder()
        .endpoint(server.endpoint())
        .submit_deadline(Duration::from_millis(300))
        .build()?;
    server.script(|script| {
        script.submit_faults.push_back(SubmitFault::AnswerLost);
        script
            .submit_faults
            .extend((0..50).map(|_| SubmitFault::Unavailable));
    });
    let Err(error) = client.submit(Submit::new("q", "a")).await else {
        panic!("an error")
    };
    assert_eq!(error.reason(), reasons::NATS_UNAVAILABLE);
    assert!(error.is_retryable());
    assert!(
        !error.has_no_side_effects(),
        "the first try may have stored it"
    );
    Ok(())
}

#[tokio::test]
async fn an_outage_of_one_server_turns_to_the_next() -> Tested {
    let server = FakeServer::start().await?;
    let client = Client::builder()
        .endpoint("http://127.0.0.1:1")
        .endpoint(server.endpoint())
        .build()?;
    let outcome = client.submit(Submit::new("q", "a")).await?;
    assert!(matches!(outcome, SubmitOutcome::Created(_)));
    Ok(())
}

#[tokio::test]
async fn a_refusal_names_the_field_and_is_not_retried() -> Tested {
    let scene = Scene::with_long_leases().await;
    let Err(error) = scene.client.submit(Submit::new("q", "k".repeat(513))).await else {
        panic!("an error")
    };
    assert_eq!(
        (error.code(), error.reason()),
        (Code::InvalidArgument, reasons::INVALID_FIELD)
    );
    assert_eq!(error.violations()[0].field, "key");
    assert!(!error.is_retryable() && error.has_no_side_effects());
    assert_eq!(scene.server.seen().submits.len(), 1);
    Ok(())
}

#[tokio::test]
async fn on_conflict_fail_makes_a_busy_key_an_error() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["a"]).await;
    let Err(error) = scene
        .client
        .submit(Submit::new("q", "a").on_conflict(OnConflict::Fail))
        .await
    else {
        panic!("an error")
    };
    assert_eq!(
        (error.code(), error.reason()),
        (Code::AlreadyExists, reasons::KEY_BUSY)
    );
    assert!(error.has_no_side_effects());
    Ok(())
}

#[tokio::test]
async fn no_server_at_all_is_retryable_and_without_effect() -> Tested {
    let client = Client::builder()
        .endpoint("http://127.0.0.1:1")
        .submit_deadline(Duration::from_millis(200))
        .build()?;
    let Err(error) = client.submit(Submit::new("q", "a")).await else {
        panic!("an error")
    };
    assert!(
        error.is_retryable() && error.has_no_side_effects(),
        "{error:?}"
    );
    Ok(())
}

/// The whole deadline, and not much more.
fn took_its_time(begun: Instant) -> bool {
    let took = begun.elapsed();
    took >= Duration::from_millis(1_800) && took < Duration::from_millis(2_300)
}

#[tokio::test]
async fn the_whole_submit_deadline_is_made_use_of() -> Tested {
    let nobody = Client::builder()
        .endpoint("http://127.0.0.1:1")
        .submit_deadline(Duration::from_secs(2))
        .build()?;
    let scene = Scene::with_long_leases().await;
    let unable = Client::builder()
        .endpoint(scene.server.endpoint())
        .submit_deadline(Duration::from_secs(2))
        .build()?;
    let faults = (0..100).map(|_| SubmitFault::Unavailable);
    scene
        .server
        .script(|script| script.submit_faults.extend(faults));
    let submit = || Submit::new("q", "a");
    let begun = Instant::now();
    let single = async {
        assert!(nobody.submit(submit()).await.is_err());
        assert!(took_its_time(begun), "single: {:?}", begun.elapsed());
    };
    let batch = async {
        assert!(nobody.submit_batch([submit()]).await.is_err());
        assert!(took_its_time(begun), "batch: {:?}", begun.elapsed());
    };
    let stream = async {
        assert!(nobody.submit_many([submit()]).await[0].is_err());
        assert!(took_its_time(begun), "stream: {:?}", begun.elapsed());
    };
    let offer = async {
        assert!(unable.submit_many([submit()]).await[0].is_err());
        assert!(took_its_time(begun), "offer: {:?}", begun.elapsed());
    };
    tokio::join!(single, batch, stream, offer);
    Ok(())
}

#[tokio::test]
async fn many_submits_are_answered_in_their_order_and_a_bad_one_spoils_no_other() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.submit(&["busy"]).await;
    let keys = ["a", "busy", "", "b"];
    let results = scene
        .client
        .submit_many(keys.map(|key| Submit::new("q", key)))
        .await;
    assert!(matches!(&results[0], Ok(SubmitOutcome::Created(job)) if job.key == "a"));
    assert!(matches!(&results[1], Ok(SubmitOutcome::AlreadyOutstanding(job)) if job.key == "busy"));
    assert!(matches!(&results[2], Err(error) if error.violations()[0].field == "key"));
    assert!(matches!(&results[3], Ok(SubmitOutcome::Created(job)) if job.key == "b"));
    Ok(())
}

#[tokio::test]
async fn a_broken_submit_stream_is_mended_with_the_same_ids() -> Tested {
    let scene = Scene::with_long_leases().await;
    scene.server.script(|script| {
        script.submit_faults.extend([
            SubmitFault::Broken,
            SubmitFault::Unavailable,
            SubmitFault::Broken,
        ]);
    });
    let submits = (0..1_000).map(|number| Submit::new("q", format!("key-{number}")));
    let results = scene.client.submit_many(submits).await;
    assert_eq!(results.len(), 1_000);
    for (number, result) in results.iter().enumerate() {
        let Ok(SubmitOutcome::Created(job)) = result else {
            panic!("{number}: {result:?}")
        };
        assert_eq!(job.key, format!("key-{number}"));
    }
    let ids: HashSet<String> = scene.server.seen().submits.into_iter().collect();
    assert_eq!(ids.len(), 1_000, "each was offered again under its own id");
    Ok(())
}

#[tokio::test]
async fn a_stream_of_submits_is_answered_as_it_goes() -> Tested {
    let scene = Scene::with_long_leases().await;
    let endless = stream::iter(0_u64..).map(|number| Submit::new("q", format!("key-{number}")));
    let answers: Vec<_> = scene
        .client
        .submit_stream(endless)
        .take(5_000)
        .collect()
        .await;
    assert!(answers.iter().all(|(_, result)| result.is_ok()));
    Ok(())
}

#[tokio::test]
async fn a_stream_without_an_offer_ends_and_needs_no_server() -> Tested {
    let client = Client::new("http://127.0.0.1:1")?;
    let none = within("no answer", client.submit_many([])).await;
    assert_eq!(none.len(), 0);
    let late = stream::once(std::future::ready(())).filter_map(async |()| {
        tokio::task::yield_now().await;
        None::<Submit>
    });
    let late: Vec<_> = within("the end", client.submit_stream(late.boxed()).collect()).await;
    assert_eq!(late.len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_stream_that_ends_with_its_last_answer_ends() -> Tested {
    let scene = Arc::new(Scene::with_long_leases().await);
    let seen = Arc::clone(&scene);
    let mut offered = false;
    // Ready to end from the moment at which the only offer was taken, and asked no sooner than then.
    let one = stream::poll_fn(move |_| {
        if !offered {
            offered = true;
            return Poll::Ready(Some(Submit::new("q", "a")));
        }
        match seen.server.outstanding("q", "a") {
            Some(_) => Poll::Ready(None),
            None => Poll::Pending,
        }
    });
    let answers: Vec<_> = within("the end", scene.client.submit_stream(one).collect()).await;
    assert!(matches!(answers[..], [(0, Ok(SubmitOutcome::Created(_)))]));
    Ok(())
}

/// Where nothing is awaited, no time counts: neither the time that an answer may take nor the submit deadline.
#[tokio::test]
async fn a_stream_that_was_idle_for_long_is_mended_like_any_other() -> Tested {
    let server = FakeServer::start().await?;
    let patience = Duration::from_millis(500);
    let client = Client::builder()
        .endpoint(server.endpoint())
        .call_timeout(patience)
        .submit_deadline(patience)
        .build()?;
    let (offers, offered) = mpsc::channel(1);
    let mut answers = client.submit_stream(ReceiverStream::new(offered));
    offers.send(Submit::new("q", "a")).await?;
    assert!(matches!(answers.next().await, Some((0, Ok(_)))));
    // Not to wait for anything: idleness is what is tested.
    tokio::time::sleep(patience * 2).await;
    server.script(|script| script.submit_faults.push_back(SubmitFault::Broken));
    offers.send(Submit::new("q", "b")).await?;
    let answer = within("the answer", answers.next()).await;
    assert!(
        matches!(answer, Some((1, Ok(SubmitOutcome::Created(_))))),
        "{answer:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_stream_that_is_refused_fails_every_submit() -> Tested {
    let client = Client::builder()
        .endpoint("http://127.0.0.1:1")
        .submit_deadline(Duration::from_millis(300))
        .build()?;
    let results = client
        .submit_many(["a", "b"].map(|key| Submit::new("q", key)))
        .await;
    for result in results {
        let Err(error) = result else {
            panic!("an error")
        };
        assert!(error.is_retryable());
    }
    Ok(())
}

#[tokio::test]
async fn a_batch_gives_one_verdict_each() -> Tested {
    let scene = Scene::with_long_leases().await;
    let id = Uuid::new_v4();
    let submits = [
        Submit::new("q", "a").request_id(id),
        Submit::new("q", "a"),
        Submit::new("q", ""),
        Submit::new("q", "a").request_id(id),
    ];
    let results = scene.client.submit_batch(submits).await?;
    assert!(matches!(results[0], Ok(SubmitOutcome::Created(_))));
    assert!(matches!(
        results[1],
        Ok(SubmitOutcome::AlreadyOutstanding(_))
    ));
    assert!(matches!(&results[2], Err(error) if error.code() == Code::InvalidArgument));
    assert!(matches!(results[3], Ok(SubmitOutcome::Duplicate(_))));
    Ok(())
}

#[tokio::test]
async fn a_queue_that_is_full_is_told_and_left_to_the_caller() -> Tested {
    let scene = Scene::with_long_leases().await;
    let full = Status::resource_exhausted("the queue is at its depth limit");
    scene
        .server
        .script(|script| script.submit_faults.push_back(SubmitFault::Refused(full)));
    let Err(error) = scene.client.submit(Submit::new("q", "a")).await else {
        panic!("an error")
    };
    assert!(error.is_retryable() && error.has_no_side_effects());
    assert_eq!(scene.server.seen().submits.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_delayed_job_holds_its_key_and_starts_later() -> Tested {
    let scene = Scene::with_long_leases().await;
    let delayed = Submit::new("q", "a").delay(Duration::from_millis(300));
    scene.client.submit(delayed).await?;
    assert!(
        !scene
            .client
            .submit(Submit::new("q", "a"))
            .await?
            .is_accepted()
    );
    scene.open_gate();
    let running = scene.start(scene.builder());
    scene
        .server
        .until("completion", |seen| seen.settled("complete") == ["a"])
        .await;
    Ok(running.drain().await?)
}

#[tokio::test]
async fn dead_letters_can_be_seen_redriven_and_deleted() -> Tested {
    let scene = Scene::with_long_leases().await;
    let worker = scene
        .builder()
        .build_fn(|_context, _job| async { Err("never works".into()) });
    for key in ["a", "b"] {
        scene
            .client
            .submit(Submit::new("q", key).max_attempts(1).payload("p"))
            .await?;
    }
    let running = Running::start(worker);
    scene
        .server
        .until("two ends", |seen| seen.settled("retry").len() == 2)
        .await;
    running.drain().await?;
    let (dead, next) = scene
        .client
        .list_dead_jobs("q", None, Page::default())
        .await?;
    assert_eq!((dead.len(), next), (2, None));
    assert_eq!(
        (dead[0].reason, dead[0].job.payload.as_ref()),
        (DeadReason::AttemptsExhausted, b"p".as_ref())
    );
    let all: Vec<_> = scene.client.dead_jobs("q", None).try_collect().await?;
    assert_eq!(all, dead);
    let of_b: Vec<_> = scene.client.dead_jobs("q", Some("b")).try_collect().await?;
    assert_eq!(of_b, dead[1..]);
    let redriven = scene
        .client
        .redrive_dead_jobs("q", Which::Ids(vec![dead[0].dead_id]))
        .await?;
    assert!(matches!(redriven[0].result, Ok(SubmitOutcome::Created(_))));
    assert_eq!(scene.client.delete_all_dead_jobs("q").await?, 1);
    Ok(())
}

#[tokio::test]
async fn queues_can_be_looked_after() -> Tested {
    let scene = Scene::with_long_leases().await;
    let config = QueueConfig {
        max_attempts: Some(3),
        ..QueueConfig::default()
    };
    let made = scene.client.create_queue("q", config.clone()).await?;
    assert_eq!(made.config.max_attempts, Some(3));
    scene.client.create_queue("q", config).await?;
    let Err(error) = scene.client.create_queue("q", QueueConfig::default()).await else {
        panic!("an error")
    };
    assert_eq!(error.reason(), reasons::QUEUE_EXISTS);
    let lease = Some(Duration::from_secs(30));
    let changed = QueueConfig {
        lease_duration: lease,
        ..QueueConfig::default()
    };
    let updated = scene.client.update_queue("q", changed).await?;
    assert_eq!(
        (updated.config.lease_duration, updated.config.max_attempts),
        (lease, Some(3))
    );
    assert!(scene.client.pause_queue("q").await?.paused);
    assert!(!scene.client.resume_queue("q").await?.paused);
    scene.submit(&["a"]).await;
    assert_eq!(scene.client.get_queue("q").await?.stats.outstanding, 1);
    assert_eq!(scene.client.purge_queue("q").await?, 1);
    assert_eq!(scene.client.list_queues(Page::of(10)).await?.0.len(), 1);
    let all: Vec<_> = scene.client.queues().try_collect().await?;
    assert_eq!(all.iter().map(|q| &*q.name).collect::<Vec<_>>(), ["q"]);
    scene.client.delete_queue("q", false).await?;
    let Err(error) = scene.client.get_queue("q").await else {
        panic!("an error")
    };
    assert_eq!(
        (error.code(), error.reason()),
        (Code::NotFound, reasons::QUEUE_NOT_FOUND)
    );
    Ok(())
}

#[tokio::test]
async fn every_call_can_be_made_from_a_task() -> Tested {
    fn can_be_sent<T: Send>(_: &T) {}
    let scene = Scene::with_long_leases().await;
    let client = &scene.client;
    can_be_sent(&client.submit(Submit::new("q", "a")));
    can_be_sent(&client.submit_many([Submit::new("q", "a")]));
    can_be_sent(&client.submit_batch([Submit::new("q", "a")]));
    can_be_sent(&client.get_job("q", "a"));
    can_be_sent(&client.list_queues(Page::default()));
    can_be_sent(&client.list_dead_jobs("q", None, Page::default()));
    can_be_sent(&client.pull(keywork_sdk::client::Pull::new("q")));
    Ok(())
}

#[tokio::test]
async fn offering_nothing_is_answered_with_nothing() -> Tested {
    let server = FakeServer::start().await?;
    let answers = within("no answers", server.client()?.submit_many([])).await;
    assert!(answers.is_empty());
    Ok(())
}
