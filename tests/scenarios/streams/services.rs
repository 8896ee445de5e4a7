//! Health and reflection.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_when_nats_is_away_and_when_it_is_back() {
    let (nats, server) = one_server().await;
    let channel = channel(&server.endpoint()).await;
    let mut watches = Vec::new();
    for service in ["", "keywork.v1.WorkQueue", "keywork.v1.QueueAdmin"] {
        let request = HealthCheckRequest {
            service: service.into(),
        };
        let mut health = HealthClient::new(channel.clone());
        let watch = health.watch(request).await.expect("a watch").into_inner();
        watches.push((service, watch));
    }
    for watch in &mut watches {
        until_status(watch, ServingStatus::Serving).await;
    }
    nats.kill();
    for watch in &mut watches {
        until_status(watch, ServingStatus::NotServing).await;
    }
    let mut health = HealthClient::new(channel.clone());
    let seen = health.check(HealthCheckRequest::default()).await;
    let seen = seen.expect("an answer").into_inner().status();
    assert_eq!(seen, ServingStatus::NotServing);
    nats.restart().await;
    for watch in &mut watches {
        until_status(watch, ServingStatus::Serving).await;
    }
}

async fn until_status(
    (service, watch): &mut (&str, Streaming<tonic_health::pb::HealthCheckResponse>),
    wanted: ServingStatus,
) {
    loop {
        let next = timeout(SOON, watch.message()).await;
        let next = next.unwrap_or_else(|_| panic!("{service:?} never turned {wanted:?}"));
        let next = next.expect("no error").expect("a watch that goes on");
        if next.status() == wanted {
            return;
        }
    }
}

const SERVICES: [&str; 4] = [
    "grpc.health.v1.Health",
    "keywork.v1.QueueAdmin",
    "keywork.v1.Schedules",
    "keywork.v1.WorkQueue",
];

#[tokio::test(flavor = "multi_thread")]
async fn reflection_lists_the_services_in_both_versions() {
    let (_nats, server) = one_server().await;
    let channel = channel(&server.endpoint()).await;
    for listed in [
        listed_v1(channel.clone()).await,
        listed_v1alpha(channel).await,
    ] {
        for service in SERVICES {
            assert!(listed.iter().any(|name| name == service), "{listed:?}");
        }
    }
}

async fn listed_v1(channel: Channel) -> Vec<String> {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let requests = tokio_stream::iter([request]);
    let mut client = ServerReflectionClient::new(channel);
    let answers = client.server_reflection_info(requests).await;
    let answer = answers.expect("a stream").into_inner().message().await;
    match answer.expect("no error").and_then(|a| a.message_response) {
        Some(MessageResponse::ListServicesResponse(list)) => {
            list.service.into_iter().map(|s| s.name).collect()
        }
        other => panic!("no list: {other:?}"),
    }
}

async fn listed_v1alpha(channel: Channel) -> Vec<String> {
    use tonic_reflection::pb::v1alpha::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let requests = tokio_stream::iter([request]);
    let mut client = ServerReflectionClient::new(channel);
    let answers = client.server_reflection_info(requests).await;
    let answer = answers.expect("a stream").into_inner().message().await;
    match answer.expect("no error").and_then(|a| a.message_response) {
        Some(MessageResponse::ListServicesResponse(list)) => {
            list.service.into_iter().map(|s| s.name).collect()
        }
        other => panic!("no list: {other:?}"),
    }
}
