//! Native schedules: where they are refused, and how they fire.

use keywork_testkit::eventually_some;
use serde_json::{Value, json};

use super::lab::{Lab, SOON, accepted, jobs};

const NOT_WITH_DISCARD_NEW: u64 = 10052;
const BAD_EXPRESSION: u64 = 10189;
const BAD_ZONE: u64 = 10223;

fn code(answer: &Value) -> Option<u64> {
    answer["error"]["err_code"].as_u64()
}

#[tokio::test]
async fn a_stream_that_rejects_new_messages_takes_no_schedules() {
    for lab in jobs().both().await {
        let config = json!({
            "name": "SCHEDULED", "subjects": ["scheduled.>"], "allow_msg_schedules": true,
            "discard": "new", "allow_rollup_hdrs": true,
        });
        let answer = lab.api("STREAM.CREATE.SCHEDULED", &config).await;
        assert_eq!(code(&answer), Some(NOT_WITH_DISCARD_NEW), "{answer}");
    }
}

/// A stream of schedules beside the jobs of the lab.
async fn create_schedules(lab: &Lab) -> String {
    let name = format!("S{}", lab.stream);
    let replicas = if lab.is_three() { 3 } else { 1 };
    let config = json!({
        "name": name, "subjects": [format!("{name}.>")], "retention": "limits",
        "allow_msg_schedules": true, "allow_msg_ttl": true, "allow_rollup_hdrs": true,
        "max_msgs_per_subject": 1, "num_replicas": replicas,
    });
    accepted(&lab.api(&format!("STREAM.CREATE.{name}"), &config).await);
    name
}

async fn schedule(lab: &Lab, name: &str, expression: &str, zone: Option<&str>) -> Value {
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Schedule", expression);
    headers.insert("Nats-Schedule-Target", format!("{name}.fired"));
    if let Some(zone) = zone {
        headers.insert("Nats-Schedule-Time-Zone", zone);
    }
    let subject = format!("{name}.schedule");
    let answer = lab
        .client
        .request_with_headers(subject, headers, "tick".into())
        .await
        .unwrap();
    serde_json::from_slice(&answer.payload).unwrap()
}

#[tokio::test]
async fn bad_schedules_have_codes_of_their_own() {
    for lab in jobs().both().await {
        let name = create_schedules(&lab).await;
        let bad = schedule(&lab, &name, "61 * * * * *", None).await;
        assert_eq!(code(&bad), Some(BAD_EXPRESSION), "{bad}");
        let bad = schedule(&lab, &name, "0 0 0 * * *", Some("Mars/Olympus")).await;
        assert_eq!(code(&bad), Some(BAD_ZONE), "{bad}");
        accepted(&schedule(&lab, &name, "*/2 * * * * *", Some("Europe/Berlin")).await);
    }
}

#[tokio::test]
async fn a_firing_names_its_schedule_and_the_next_one_and_the_newest_is_kept() {
    for lab in jobs().both().await {
        let name = create_schedules(&lab).await;
        accepted(&schedule(&lab, &name, "@every 1s", None).await);
        let get = format!("STREAM.MSG.GET.{name}");
        let last = json!({ "last_by_subj": format!("{name}.fired") });
        let fired = eventually_some(SOON, "the schedule has fired twice", async || {
            let sequence = lab.api(&get, &last).await["message"]["seq"].as_u64()?;
            (sequence >= 3).then_some(sequence)
        })
        .await;
        let context = async_nats::jetstream::new(lab.client.clone());
        let stream = context.get_stream(&name).await.unwrap();
        let message = stream.get_raw_message(fired).await.unwrap();
        let schedule = format!("{name}.schedule");
        assert_eq!(
            message.headers.get("Nats-Scheduler").unwrap().as_str(),
            schedule
        );
        assert!(message.headers.get("Nats-Schedule-Next").is_some());
        // One message for the schedule, one for all its firings.
        assert_eq!(stream.get_info().await.unwrap().state.messages, 2);

        let purge = json!({ "filter": schedule });
        accepted(&lab.api(&format!("STREAM.PURGE.{name}"), &purge).await);
    }
}
