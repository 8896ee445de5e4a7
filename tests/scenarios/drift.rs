//! Queues whose stream or consumer somebody changes or deletes by hand under running servers.

use std::time::Duration;

use keywork::proto::{SettlementOutcome as Settled, SubmitOutcome};
use keywork_testkit::{NatsServer, eventually};
use serde_json::{Map, Value, json};
use tonic::{Code, Status};

use crate::support::{
    Client, SOON, Session, ack, client, complete, create, hello, job, make_queue, offer,
    one_server, pull, reason, short_lease, submit,
};

const QUEUE: &str = "drift";
const STREAM: &str = "WORK_drift";
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
    let pulled = at.pull(keywork::proto::PullRequest {
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
