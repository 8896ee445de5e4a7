//! Queues whose stream or consumer somebody changes or deletes by hand under running servers.

use std::{collections::HashSet, time::Duration};

use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use keywork::proto::{self, SettlementOutcome as Settled, SubmitOutcome};
use keywork_testkit::{NatsServer, eventually};
use serde_json::{Map, Value, json};
use tonic::{Code, Status};

use crate::support::{
    Client, SOON, Session, ack, admin, client, complete, create, dead, fail, hello, job, key_of,
    make_queue, offer, one_server, pull, reason, retry_after, server_on, short_lease, submit,
};

const QUEUE: &str = "drift";
const STREAM: &str = "WORK_drift";
const SECRET: &str = "work-settings.token-secret";
/// Nobody may notice later than this.
const NOTICED: Duration = Duration::from_secs(10);

/// A call of JetStream's API, as an operator's tool makes it.
async fn call(nats: &NatsServer, what: &str, body: Value) -> Value {
    let client = nats.connect().await;
    let subject = format!("$JS.API.{what}");
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answer = client.request(subject, body.into()).await;
    let answer = answer.expect("an answer of JetStream").payload;
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(answer.get("error"), None, "{what}");
    answer
}

/// Changes fields of the queue's stream. Answers what they were.
async fn change_stream(nats: &NatsServer, fields: &Value) -> Value {
    let info = call(nats, &format!("STREAM.INFO.{STREAM}"), Value::Null).await;
    let (config, before) = changed(&info["config"], fields);
    call(nats, &format!("STREAM.UPDATE.{STREAM}"), config).await;
    before
}

/// Changes fields of the queue's consumer. Answers what they were.
async fn change_consumer(nats: &NatsServer, fields: &Value) -> Value {
    let name = format!("{STREAM}.workers");
    let info = call(nats, &format!("CONSUMER.INFO.{name}"), Value::Null).await;
    let (config, before) = changed(&info["config"], fields);
    let body = json!({ "stream_name": STREAM, "config": config });
    call(nats, &format!("CONSUMER.CREATE.{name}"), body).await;
    before
}

fn changed(config: &Value, fields: &Value) -> (Value, Value) {
    let (mut config, mut before) = (config.clone(), Map::new());
    for (field, value) in fields.as_object().expect("fields") {
        before.insert(field.clone(), config[field].clone());
        config[field] = value.clone();
    }
    (config, before.into())
}

/// Whether an error says that this field has drifted.
fn names(status: &Status, field: &str) -> bool {
    status.code() == Code::FailedPrecondition
        && reason(status) == "QUEUE_DRIFTED"
        && status.message().contains(field)
}

/// Waits until nothing is accepted or leased any more, because of this field.
async fn refused(at: &mut Client, field: &str) {
    eventually(NOTICED, &format!("{field} is noticed"), async || {
        let answer = at.submit(submit(QUEUE, "busy", "another")).await;
        answer.is_err_and(|status| names(&status, field))
    })
    .await;
    let pulled = at.pull(proto::PullRequest {
        queue: QUEUE.into(),
        ..Default::default()
    });
    let status = pulled.await.expect_err("no lease of a queue that drifted");
    assert!(names(&status, field), "{status:?}");
    let opened = Session::try_open(at, hello("w", QUEUE, 1)).await;
    let status = opened.err().expect("no session of a queue that drifted");
    assert!(names(&status, field), "{status:?}");
}

/// Waits until the queue is served again as ever.
async fn served(at: &mut Client, field: &str) {
    eventually(NOTICED, &format!("{field} is mended"), async || {
        let answer = at.submit(submit(QUEUE, "busy", "another")).await;
        answer.is_ok_and(|r| r.into_inner().outcome() == SubmitOutcome::AlreadyOutstanding)
    })
    .await;
    create(at, QUEUE, "next").await;
    for _ in 0..2 {
        let lease = pull(at, QUEUE, SOON).await.expect("a job");
        let settled = ack(at, &lease.lease_token, complete()).await;
        assert_eq!(settled, Settled::Settled, "after {field}");
    }
    create(at, QUEUE, "busy").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_1_a_stream_that_drifts_under_a_server_is_refused_until_it_is_mended() {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, short_lease()).await;
    let mut at = client(&server).await;
    create(&mut at, QUEUE, "busy").await;
    let drifts = [
        (
            "discard_new_per_subject",
            json!({ "discard_new_per_subject": false }),
        ),
        ("max_msgs_per_subject", json!({ "max_msgs_per_subject": 2 })),
        (
            "discard",
            json!({ "discard": "old", "discard_new_per_subject": false }),
        ),
        (
            "subjects",
            json!({ "subjects": ["work.drift.*", "work-front.drift", "else"] }),
        ),
        ("max_age", json!({ "max_age": 3_600_000_000_000_u64 })),
    ];
    for (field, drift) in drifts {
        let before = change_stream(&nats, &drift).await;
        refused(&mut at, field).await;
        change_stream(&nats, &before).await;
        served(&mut at, field).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_drifts_under_a_server_is_refused_until_it_is_mended() {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, short_lease()).await;
    let mut at = client(&server).await;
    create(&mut at, QUEUE, "busy").await;
    let drifts = [
        ("max_deliver", json!({ "max_deliver": 3 })),
        ("max_ack_pending", json!({ "max_ack_pending": 1 })),
        (
            "filter_subject",
            json!({ "filter_subject": "work.drift.other" }),
        ),
        ("headers_only", json!({ "headers_only": true })),
        (
            "inactive_threshold",
            json!({ "inactive_threshold": 60_000_000_000_u64 }),
        ),
        ("max_batch", json!({ "max_batch": 1 })),
        ("max_bytes", json!({ "max_bytes": 1_000 })),
        ("max_expires", json!({ "max_expires": 1_000_000 })),
    ];
    for (field, drift) in drifts {
        let before = change_consumer(&nats, &drift).await;
        refused(&mut at, field).await;
        change_consumer(&nats, &before).await;
        served(&mut at, field).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_no_law_is_put_right_under_a_server() {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, short_lease()).await;
    let mut at = client(&server).await;
    create(&mut at, QUEUE, "key").await;
    change_stream(&nats, &json!({ "allow_rollup_hdrs": false })).await;
    eventually(NOTICED, "roll-ups are allowed again", async || {
        let info = call(&nats, &format!("STREAM.INFO.{STREAM}"), Value::Null).await;
        info["config"]["allow_rollup_hdrs"] == json!(true)
    })
    .await;
    let (outcome, _) = offer(&mut at, submit(QUEUE, "key", "another")).await;
    assert_eq!(outcome, SubmitOutcome::AlreadyOutstanding);
    assert!(job(&mut at, QUEUE, "key").await.is_some());
}

async fn delete_stream(nats: &NatsServer, stream: &str) {
    call(nats, &format!("STREAM.DELETE.{stream}"), Value::Null).await;
}

/// Leases the job of a key that was just submitted.
async fn leased(at: &mut Client, key: &str) -> Bytes {
    create(at, QUEUE, key).await;
    let lease = pull(at, QUEUE, SOON).await.expect("a job");
    assert_eq!(key_of(&lease), key);
    lease.lease_token
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_doomed_job_ends_where_the_dead_letters_were_deleted() {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, short_lease()).await;
    let mut at = client(&server).await;
    let token = leased(&mut at, "key").await;
    delete_stream(&nats, "WORK_DEAD_drift").await;
    assert_eq!(dead(&mut at, QUEUE).await, []);
    let get = proto::GetQueueRequest { name: QUEUE.into() };
    let queue = admin(&server).await.get_queue(get).await;
    queue.expect("a queue without dead letters");
    assert_eq!(ack(&mut at, &token, fail()).await, Settled::Settled);
    create(&mut at, QUEUE, "key").await;
    assert_eq!(dead(&mut at, QUEUE).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_a_job_that_was_retried_ends_where_the_end_records_were_deleted() {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, short_lease()).await;
    let mut at = client(&server).await;
    let token = leased(&mut at, "key").await;
    let retried = ack(&mut at, &token, retry_after(Duration::ZERO)).await;
    assert_eq!(retried, Settled::Settled);
    let again = pull(&mut at, QUEUE, SOON).await.expect("the job again");
    delete_stream(&nats, "WORK_ENDS").await;
    let settled = ack(&mut at, &again.lease_token, complete()).await;
    assert_eq!(settled, Settled::Settled);
    create(&mut at, QUEUE, "key").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_good_at_servers_that_start_after_the_settings_were_deleted() {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, short_lease()).await;
    delete_stream(&nats, "WORK_SETTINGS").await;
    let jetstream = async_nats::jetstream::new(nats.connect().await);
    eventually(NOTICED, "the secret is written again", async || {
        let settings = jetstream.get_stream("WORK_SETTINGS").await;
        let last = async |s: Stream| s.get_last_raw_message_by_subject(SECRET).await.is_ok();
        match settings {
            Ok(stream) => last(stream).await,
            Err(_) => false,
        }
    })
    .await;
    let token = leased(&mut client(&server).await, "key").await;
    let late = server_on(&nats.url()).await;
    let settled = ack(&mut client(&late).await, &token, complete()).await;
    assert_eq!(settled, Settled::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_leases_of_a_stream_that_was_deleted_are_lost_and_the_queue_is_made_anew() {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, short_lease()).await;
    let mut at = client(&server).await;
    let token = leased(&mut at, "key").await;
    delete_stream(&nats, STREAM).await;
    eventually(NOTICED, "the lease is lost", async || {
        let outcome = ack(&mut at, &token, complete()).await;
        assert_ne!(outcome, Settled::Settled);
        outcome == Settled::LeaseLost
    })
    .await;
    create(&mut at, QUEUE, "key").await;
    let next = pull(&mut at, QUEUE, SOON).await.expect("the new job");
    assert_eq!(ack(&mut at, &token, complete()).await, Settled::LeaseLost);
    let settled = ack(&mut at, &next.lease_token, complete()).await;
    assert_eq!(settled, Settled::Settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_5_jobs_are_served_again_where_the_consumer_was_deleted() {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, short_lease()).await;
    let mut at = client(&server).await;
    let token = leased(&mut at, "leased").await;
    create(&mut at, QUEUE, "waits").await;
    call(
        &nats,
        &format!("CONSUMER.DELETE.{STREAM}.workers"),
        Value::Null,
    )
    .await;
    let mut left = HashSet::from(["leased".to_owned(), "waits".to_owned()]);
    while !left.is_empty() {
        let lease = pull(&mut at, QUEUE, SOON).await.expect("a job again");
        assert!(left.remove(&key_of(&lease)), "twice: {lease:?}");
        let settled = ack(&mut at, &lease.lease_token, complete()).await;
        assert_eq!(settled, Settled::Settled);
    }
    let late = ack(&mut at, &token, complete()).await;
    assert_eq!(late, Settled::LeaseLost);
}
