//! A trace goes on from the program that submits to the handler.

use std::collections::HashMap;

use crate::support::{Log, Running, Tested};
use futures::{StreamExt, stream};
use keywork_sdk::{
    Client, Submit, Worker,
    otel::TraceContext,
    testing::FakeServer,
    worker::{Fail, HandlerResult, Release, Rerun, Retry},
};
use opentelemetry::{
    Context, KeyValue, global,
    propagation::TextMapPropagator,
    trace::{FutureExt, SpanKind, Status, TraceContextExt},
};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    propagation::TraceContextPropagator,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn around() -> Context {
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let carrier = HashMap::from([("traceparent".to_owned(), traceparent)]);
    TraceContextPropagator::new().extract(&carrier)
}

#[tokio::test]
async fn the_context_of_a_submit_is_the_parent_of_the_handlers_span() -> Tested {
    let server = FakeServer::start().await?;
    let builder = Client::builder().endpoint(server.endpoint());
    let client = builder.interceptor(TraceContext::new()).build()?;
    let seen = Log::new();
    let log = seen.clone();
    let worker = Worker::builder(client.clone(), ["q"])
        .interceptor(TraceContext::new())
        .build_fn(move |_, job| {
            let log = log.clone();
            async move {
                let trace = Context::current().span().span_context().trace_id();
                log.add((job.key.clone(), trace.to_string()));
                Ok(())
            }
        });
    let running = Running::start(worker);
    let alone = client.submit(Submit::new("q", "alone"));
    alone.with_context(around()).await?;
    let many = client.submit_many([Submit::new("q", "many")]);
    many.with_context(around()).await;
    async { client.submit_stream(stream::iter([Submit::new("q", "streamed")])) }
        .with_context(around())
        .await
        .count()
        .await;
    let own = Submit::new("q", "own").attribute("traceparent", OTHER);
    client.submit(own).with_context(around()).await?;
    let mut all = seen.until("four handlers", |seen| seen.len() == 4).await;
    all.sort();
    let trace = |key: &str, id: &str| (key.to_owned(), id.to_owned());
    assert_eq!(
        all,
        [
            trace("alone", TRACE),
            trace("many", TRACE),
            trace("own", &OTHER[3..35]),
            trace("streamed", TRACE),
        ]
    );
    Ok(running.drain().await?)
}

/// Keeps every span that ends.
#[derive(Clone, Debug)]
struct Spans(Log<SpanData>);

impl SpanExporter for Spans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        batch.into_iter().for_each(|span| self.0.add(span));
        Ok(())
    }
}

fn attribute(span: &SpanData, name: &str) -> String {
    let found = span.attributes.iter().find(|one| one.key.as_str() == name);
    found
        .map(|KeyValue { value, .. }| value.to_string())
        .unwrap_or_default()
}

fn ended(key: &str) -> HandlerResult {
    match key {
        "retry" => Err(Retry::default().because("later").into()),
        "fail" => Err(Fail::new("no use").into()),
        "release" => Err(Release.into()),
        "rerun" => Err(Rerun::after(std::time::Duration::ZERO).into()),
        "error" => Err("broke".into()),
        "panic" => panic!("oh no"),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn a_span_tells_the_job_and_how_it_ended() -> Tested {
    let (spans, started) = (Log::new(), Log::new());
    let provider = SdkTracerProvider::builder().with_simple_exporter(Spans(spans.clone()));
    global::set_tracer_provider(provider.build());
    let server = FakeServer::start().await?;
    let client = server.client()?;
    let worker = Worker::builder(client.clone(), ["ends"])
        .interceptor(TraceContext::new())
        .build_fn(move |_, job| {
            // Once, since some of the ends bring the job back.
            let first = !started.all().contains(&job.key);
            started.add(job.key.clone());
            async move { if first { ended(&job.key) } else { Ok(()) } }
        });
    let error = |text: &'static str| Status::error(text);
    let ends = [
        ("complete", Status::Unset, "complete", 0),
        ("retry", error("later"), "retry", 0),
        ("fail", error("no use"), "fail", 0),
        ("release", Status::Unset, "release", 0),
        ("rerun", Status::Unset, "rerun", 0),
        ("error", error("broke"), "retry", 1),
        ("panic", error("the handler panicked: oh no"), "retry", 1),
    ];
    for (key, ..) in &ends {
        client.submit(Submit::new("ends", *key)).await?;
    }
    let running = Running::start(worker);
    for (key, status, outcome, exceptions) in ends {
        let is_it = |span: &SpanData| attribute(span, "keywork.key") == key;
        let all = spans.until(key, |spans| spans.iter().any(is_it)).await;
        let span = all.iter().find(|span| is_it(span)).ok_or("it was there")?;
        assert_eq!(
            (&*span.name, &span.span_kind),
            ("process ends", &SpanKind::Consumer)
        );
        assert_eq!(span.status, status, "{key}");
        assert_eq!(attribute(span, "keywork.outcome"), outcome, "{key}");
        assert_eq!(attribute(span, "keywork.attempt"), "1");
        assert_ne!(attribute(span, "keywork.fencing_number"), "0");
        assert_eq!(attribute(span, "messaging.system"), "keywork");
        assert_eq!(attribute(span, "messaging.destination.name"), "ends");
        let told = span.events.iter().filter(|event| event.name == "exception");
        assert_eq!(told.count(), exceptions, "{key}");
    }
    Ok(running.drain().await?)
}
