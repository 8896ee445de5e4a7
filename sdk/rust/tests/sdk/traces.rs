//! A trace goes on from the program that submits to the handler.

use std::collections::HashMap;

use crate::support::{Log, Running, Tested};
use keywork_sdk::{Client, Submit, Worker, otel::TraceContext, testing::FakeServer};
use opentelemetry::{
    Context,
    propagation::TextMapPropagator,
    trace::{FutureExt, TraceContextExt},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;

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
    let own = Submit::new("q", "own").attribute("traceparent", OTHER);
    client.submit(own).with_context(around()).await?;
    let mut all = seen.until("three handlers", |seen| seen.len() == 3).await;
    all.sort();
    let trace = |key: &str, id: &str| (key.to_owned(), id.to_owned());
    assert_eq!(
        all,
        [
            trace("alone", TRACE),
            trace("many", TRACE),
            trace("own", &OTHER[3..35])
        ]
    );
    Ok(running.drain().await?)
}
