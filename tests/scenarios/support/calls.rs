//! Unary calls, and what they are made of.

use super::*;

/// Most items of one request.
const MOST_AT_ONCE: usize = 1_000;

/// A duration on the wire.
pub(crate) fn wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).expect("a duration that fits")
}

/// A duration from the wire.
pub(crate) fn unwire(duration: Option<&prost_types::Duration>) -> Duration {
    duration
        .copied()
        .and_then(|d| Duration::try_from(d).ok())
        .unwrap_or_default()
}

/// A submit of a key with a payload.
pub(crate) fn submit(queue: &str, key: &str, payload: &str) -> proto::SubmitRequest {
    proto::SubmitRequest {
        queue: queue.into(),
        key: key.into(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        ..proto::SubmitRequest::default()
    }
}

/// Submits and answers the outcome and the job.
pub(crate) async fn offer(
    client: &mut Client,
    request: proto::SubmitRequest,
) -> (SubmitOutcome, proto::Job) {
    let until = Instant::now() + SOON;
    let response = loop {
        match client.submit(request.clone()).await {
            Ok(response) => break response.into_inner(),
            // On a cluster leaders move. A client tries again where nothing happened, and where its
            // request has a name.
            Err(status) if may_try_again(&request, &status) && Instant::now() < until => {
                sleep(Duration::from_millis(100)).await;
            }
            Err(status) => panic!("no answer to a submit: {status:?}"),
        }
    };
    (response.outcome(), response.job.unwrap_or_default())
}

/// Whether trying again can neither harm nor hide anything.
fn may_try_again(request: &proto::SubmitRequest, status: &Status) -> bool {
    let said = status.metadata().get("side_effects");
    let nothing_happened = said.is_some_and(|value| value == "none");
    let named = !request.request_id.is_empty();
    status.code() == tonic::Code::Unavailable && (nothing_happened || named)
}

/// Submits a key that must be free.
pub(crate) async fn create(client: &mut Client, queue: &str, key: &str) -> proto::Job {
    let (outcome, job) = offer(client, submit(queue, key, "payload")).await;
    assert_eq!(
        outcome,
        SubmitOutcome::Created,
        "{key} is not free: {job:?}"
    );
    job
}

/// Leases one job by a unary pull; `None` when none came in time. While leaders move, a pull may be told to
/// try again.
pub(crate) async fn pull(client: &mut Client, queue: &str, wait: Duration) -> Option<Delivery> {
    let until = Instant::now() + wait;
    loop {
        let request = proto::PullRequest {
            queue: queue.into(),
            wait: Some(wire(wait)),
            ..Default::default()
        };
        match client.pull(request).await {
            Ok(response) => return response.into_inner().deliveries.into_iter().next(),
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
                if Instant::now() >= until {
                    return None;
                }
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Settles one lease by a unary ack.
pub(crate) async fn ack(client: &mut Client, token: &Bytes, outcome: Outcome) -> SettlementOutcome {
    let request = proto::AckRequest {
        settlements: vec![settlement(token, outcome)],
    };
    let response = client
        .ack(request)
        .await
        .expect("an answer to an ack")
        .into_inner();
    response.results[0].outcome()
}

/// Settles many leases by unary acks. One outcome for each, in order.
pub(crate) async fn ack_all(
    client: &mut Client,
    settlements: Vec<proto::Settlement>,
) -> Vec<SettlementOutcome> {
    let mut outcomes = Vec::with_capacity(settlements.len());
    for part in settlements.chunks(MOST_AT_ONCE) {
        let settlements = part.to_vec();
        let response = client.ack(proto::AckRequest { settlements }).await;
        let response = response.expect("an answer to an ack").into_inner();
        outcomes.extend(response.results.iter().map(|r| r.outcome()));
    }
    outcomes
}

/// Extends many leases by unary heartbeats. One result for each, in order.
pub(crate) async fn beat_all(client: &mut Client, tokens: &[Bytes]) -> Vec<proto::HeartbeatResult> {
    let mut results = Vec::with_capacity(tokens.len());
    for part in tokens.chunks(MOST_AT_ONCE) {
        let lease_tokens = part.to_vec();
        let response = client
            .heartbeat(proto::HeartbeatRequest { lease_tokens })
            .await;
        results.extend(
            response
                .expect("an answer to a heartbeat")
                .into_inner()
                .results,
        );
    }
    results
}

/// Submits keys that must be free, in batches.
pub(crate) async fn create_all(client: &mut Client, queue: &str, keys: &[String]) {
    for part in keys.chunks(MOST_AT_ONCE) {
        let items = part.iter().map(|key| submit(queue, key, "payload"));
        let request = proto::SubmitBatchRequest {
            items: items.collect(),
        };
        let response = client.submit_batch(request).await.expect("verdicts");
        for (result, key) in response.into_inner().results.iter().zip(part) {
            let created = matches!(&result.result,
                Some(proto::submit_result::Result::Response(r)) if r.outcome() == SubmitOutcome::Created);
            assert!(created, "{key} is not free: {result:?}");
        }
    }
}

/// Keys with a number at the end.
pub(crate) fn keys(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}-{n}")).collect()
}

/// The key of a delivery's job.
pub(crate) fn key_of(delivery: &Delivery) -> String {
    delivery
        .job
        .as_ref()
        .map(|job| job.key.clone())
        .unwrap_or_default()
}

/// Extends one lease by a unary heartbeat.
pub(crate) async fn beat(client: &mut Client, token: &Bytes) -> proto::HeartbeatResult {
    let request = proto::HeartbeatRequest {
        lease_tokens: vec![token.clone()],
    };
    let response = client
        .heartbeat(request)
        .await
        .expect("an answer to a heartbeat");
    response.into_inner().results.remove(0)
}

/// A settlement.
pub(crate) fn settlement(token: &Bytes, outcome: Outcome) -> proto::Settlement {
    proto::Settlement {
        lease_token: token.clone(),
        outcome: Some(outcome),
    }
}

/// Done.
pub(crate) fn complete() -> Outcome {
    Outcome::Complete(proto::Complete::default())
}

/// Try again after the queue's backoff.
pub(crate) fn retry() -> Outcome {
    Outcome::Retry(proto::Retry {
        delay: None,
        error: "it did not work".into(),
    })
}

/// Try again after a while.
pub(crate) fn retry_after(delay: Duration) -> Outcome {
    Outcome::Retry(proto::Retry {
        delay: Some(wire(delay)),
        error: "not yet".into(),
    })
}

/// Give it back.
pub(crate) fn release() -> Outcome {
    Outcome::Release(proto::Release {})
}

/// Dead.
pub(crate) fn fail() -> Outcome {
    Outcome::Fail(proto::Fail {
        error: "hopeless".into(),
    })
}

/// The dead letters of a queue.
pub(crate) async fn dead(client: &mut Client, queue: &str) -> Vec<proto::DeadJob> {
    let request = proto::ListDeadJobsRequest {
        queue: queue.into(),
        ..Default::default()
    };
    client
        .list_dead_jobs(request)
        .await
        .expect("a page of dead letters")
        .into_inner()
        .jobs
}

/// The job that holds a key; `None`: the key is free.
pub(crate) async fn job(client: &mut Client, queue: &str, key: &str) -> Option<proto::Job> {
    let request = proto::GetJobRequest {
        queue: queue.into(),
        key: key.into(),
    };
    match client.get_job(request).await {
        Ok(response) => response.into_inner().job,
        Err(status) if status.code() == tonic::Code::NotFound => None,
        Err(status) => panic!("failed to look at {key}: {status:?}"),
    }
}

/// The reason that an error carries.
pub(crate) fn reason(status: &Status) -> String {
    let info = status.get_details_error_info();
    info.map(|info| info.reason).unwrap_or_default()
}

/// The field that an error names.
pub(crate) fn field(status: &Status) -> String {
    let bad = status.get_details_bad_request();
    let first = bad.and_then(|bad| bad.field_violations.into_iter().next());
    first.map(|violation| violation.field).unwrap_or_default()
}
