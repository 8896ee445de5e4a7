//! What breaks a limit is refused before anything is sent, and nothing is changed in silence.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use crate::support::{Running, Scene, Tested, within};
use keywork_sdk::{
    Client, Code, Error, Submit, Worker,
    client::{ClientBuilder, Schedule, Which},
    errors::reasons,
    worker::{Subscription, WorkerBuilder, WorkerError},
};

const NOWHERE: &str = "http://127.0.0.1:1";

/// The error is like a server's, and names these fields.
fn assert_names(error: &Error, fields: &[&str]) {
    let named: Vec<&str> = error.violations().iter().map(|v| &*v.field).collect();
    assert_eq!(named, fields, "{error}");
    assert_eq!(
        (error.code(), error.reason()),
        (Code::InvalidArgument, reasons::INVALID_FIELD)
    );
    assert!(error.has_no_side_effects() && !error.is_retryable());
    let text = error.to_string();
    for violation in error.violations() {
        let said = violation.to_string();
        assert_eq!(text.matches(&said).count(), 1, "{text}");
    }
}

fn worker(change: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Result<Worker, Error> {
    let builder = Worker::builder(Client::new(NOWHERE)?, ["q"]);
    Ok(change(builder).build_fn(|_, _| async { Ok(()) }))
}

async fn refused(worker: Worker) -> Error {
    let ended = within("the refusal", worker.run_until(Default::default())).await;
    let Err(WorkerError::Options(error)) = ended else {
        panic!("{ended:?}")
    };
    error
}

#[tokio::test]
async fn a_worker_whose_options_break_their_limits_does_not_start() -> Tested {
    for given in [0, 100_001] {
        let error = refused(worker(|builder| builder.concurrency(given))?).await;
        assert_names(&error, &["concurrency"]);
        assert!(error.to_string().contains(&given.to_string()), "{error}");
    }
    let client = Client::new(NOWHERE)?;
    let of = |queues: Vec<Subscription>| {
        Worker::builder(client.clone(), queues).build_fn(|_, _| async { Ok(()) })
    };
    assert_names(&refused(of(Vec::new())).await, &["queues"]);
    let heavy = Subscription::new("a").weight(101);
    let light = Subscription::new("b").weight(0);
    assert_names(
        &refused(of(vec![heavy, light, "a".into()])).await,
        &["queues[0].weight", "queues[1].weight", "queues[2]"],
    );
    Ok(())
}

#[tokio::test]
async fn a_name_that_no_queue_can_have_is_refused_by_the_fake_server_too() -> Tested {
    let scene = Scene::with_long_leases().await;
    let client = &scene.client;
    let Err(error) = client.submit(Submit::new("Bad Name", "a")).await else {
        panic!("an error")
    };
    assert_names(&error, &["queue"]);
    let worker = Worker::builder(client.clone(), ["Bad Name"]).build_fn(|_, _| async { Ok(()) });
    let ended = within("the refusal", worker.run_until(Default::default())).await;
    let Err(WorkerError::Refused(error)) = ended else {
        panic!("{ended:?}")
    };
    assert_names(&error, &["queues[0].queue"]);
    Ok(())
}

#[tokio::test]
async fn the_limits_themselves_and_waits_without_end_are_taken() -> Tested {
    let scene = Scene::with_long_leases().await;
    let client = Client::builder()
        .endpoint(scene.server.endpoint())
        .submit_deadline(Duration::MAX)
        .call_timeout(Duration::MAX)
        .build()?;
    client.submit(Submit::new("q", "a")).await?;
    client
        .submit_many([Submit::new("q", "b")])
        .await
        .remove(0)?;
    let queues = [Subscription::new("q").weight(100), Subscription::new("r")];
    let worker = Worker::builder(client, queues)
        .concurrency(100_000)
        .shutdown_grace(Duration::MAX)
        .cancel_grace(Duration::MAX)
        .build_fn(|_, _| async { Ok(()) });
    let running = Running::start(worker);
    scene
        .server
        .until("both", |seen| seen.settled("complete").len() == 2)
        .await;
    Ok(running.drain().await?)
}

#[test]
fn a_client_whose_options_break_their_limits_is_not_made() {
    let to = |endpoint: &str| Client::builder().endpoint(endpoint);
    let cases: [(ClientBuilder, &[&str]); 7] = [
        (Client::builder(), &["endpoints"]),
        (to("localhost:50051"), &["endpoints[0]"]),
        (to("ftp://localhost:50051"), &["endpoints[0]"]),
        (to("http://localhost:99999"), &["endpoints[0]"]),
        (
            to(NOWHERE).endpoint("http://localhost/queue"),
            &["endpoints[1]"],
        ),
        (
            to(NOWHERE).metadata("a b", "c").metadata("d", "\n"),
            &["metadata", "metadata"],
        ),
        (
            to(NOWHERE)
                .submit_deadline(Duration::ZERO)
                .call_timeout(Duration::ZERO),
            &["submit_deadline", "call_timeout"],
        ),
    ];
    for (builder, fields) in cases {
        match builder.build() {
            Ok(client) => panic!("{client:?}"),
            Err(error) => assert_names(&error, fields),
        }
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn https_without_the_feature_names_the_feature() {
    let Err(error) = Client::new("https://localhost:50051") else {
        panic!("an error")
    };
    assert!(error.to_string().contains("feature `tls`"), "{error}");
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_not_left_out_in_silence() {
    use keywork_sdk::client::ClientTlsConfig;
    let tls = ClientTlsConfig::new();
    let builder = Client::builder().endpoint("https://localhost:1").tls(tls);
    assert!(builder.clone().build().is_ok());
    match builder.endpoint(NOWHERE).build() {
        Ok(client) => panic!("{client:?}"),
        Err(error) => assert_names(&error, &["endpoints[1]"]),
    }
}

fn of_two_starts(key: &str) -> Submit {
    Submit::new("q", key)
        .delay(Duration::from_secs(1))
        .start_at(SystemTime::UNIX_EPOCH)
}

#[tokio::test]
async fn a_submit_that_contradicts_itself_is_refused_and_not_sent() -> Tested {
    let scene = Scene::with_long_leases().await;
    let client = &scene.client;
    let Err(error) = client.submit(of_two_starts("a")).await else {
        panic!("an error")
    };
    assert_names(&error, &["start_at"]);
    let Err(error) = client.submit(Submit::new("q", "a").max_attempts(0)).await else {
        panic!("an error")
    };
    assert_names(&error, &["max_attempts"]);
    let schedule = Schedule::new("s", "@every 30s", of_two_starts("a"));
    let Err(error) = client.put_schedule(schedule).await else {
        panic!("an error")
    };
    assert_names(&error, &["start_at"]);
    assert_eq!(scene.server.seen().submits.len(), 0);
    let again = Submit::new("q", "later").delay(Duration::MAX);
    let again = again.delay(Duration::from_secs(9));
    assert!(
        client.submit(again).await?.is_accepted(),
        "the last delay holds"
    );
    Ok(())
}

#[tokio::test]
async fn one_of_many_that_contradicts_itself_spoils_no_other() -> Tested {
    let scene = Scene::with_long_leases().await;
    let submits = |prefix: &str| {
        [
            Submit::new("q", format!("{prefix}-1")),
            of_two_starts("bad"),
            Submit::new("q", format!("{prefix}-2")),
        ]
    };
    let batch = scene.client.submit_batch(submits("batch")).await?;
    let many = scene.client.submit_many(submits("many")).await;
    for (prefix, results) in [("batch", batch), ("many", many)] {
        let [Ok(first), Err(error), Ok(second)] = &results[..] else {
            panic!("{results:?}")
        };
        assert_eq!(first.job().key, format!("{prefix}-1"));
        assert_names(error, &["start_at"]);
        assert_eq!(second.job().key, format!("{prefix}-2"));
    }
    assert_eq!(scene.server.seen().submits.len(), 4);
    Ok(())
}

#[tokio::test]
async fn what_asks_for_nothing_asks_no_server() -> Tested {
    let client = Client::new(NOWHERE)?;
    assert!(
        client
            .redrive_dead_jobs("q", Which::Ids(Vec::new()))
            .await?
            .is_empty()
    );
    assert_eq!(client.delete_dead_jobs("q", Vec::new()).await?, 0);
    assert!(client.submit_batch([]).await?.is_empty());
    let many = client.submit_many([of_two_starts("a"), of_two_starts("b")]);
    for result in within("the refusals", many).await {
        let Err(error) = result else {
            panic!("an error")
        };
        assert_names(&error, &["start_at"]);
    }
    let Err(error) = client.redrive_dead_jobs("q", Which::Oldest(0)).await else {
        panic!("an error")
    };
    assert_names(&error, &["max_jobs"]);
    Ok(())
}

#[tokio::test]
async fn an_error_of_one_item_says_its_violation_once() -> Tested {
    let scene = Scene::with_long_leases().await;
    let results = scene.client.submit_many([Submit::new("q", "")]).await;
    let [Err(error)] = &results[..] else {
        panic!("{results:?}")
    };
    assert_names(error, &["key"]);
    assert!(
        !error.violations()[0].description.contains("key"),
        "{error:?}"
    );
    Ok(())
}

#[test]
fn each_worker_has_a_name_of_its_own_that_says_where_it_runs() -> Tested {
    let pid = format!("-{}-", std::process::id());
    let ids: HashSet<String> = (0..10)
        .map(|_| Ok(worker(|builder| builder)?.worker_id().to_owned()))
        .collect::<Result<_, Error>>()?;
    assert_eq!(ids.len(), 10);
    assert!(ids.iter().all(|id| id.contains(&pid)), "{ids:?}");
    Ok(())
}
