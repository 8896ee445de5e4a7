//! OpenTelemetry: a trace goes on from the program that submits to the handler, by way of the job's attributes.
//!
//! Only with the feature `otel`. What is written is W3C Trace Context: `traceparent` and `tracestate`.

use std::collections::HashMap;

use futures::future::BoxFuture;
use opentelemetry::{
    Context as OtelContext, KeyValue, global,
    propagation::TextMapPropagator,
    trace::{FutureExt, Span, SpanKind, Status, TraceContextExt, Tracer},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;

use crate::{
    Context, Job, Submit,
    client::SubmitInterceptor,
    worker::{HandlerResult, Interceptor, Next},
};

/// What spans of this crate are made by.
const TRACER: &str = "keywork-sdk";
/// The attribute that says that a submit has its context already.
const TRACEPARENT: &str = "traceparent";

/// Carries trace context in the attributes of jobs. Give one to [`ClientBuilder::interceptor`] and one to
/// [`WorkerBuilder::interceptor`].
///
/// A submit carries the context that is current where it is made, unless its attributes have one; jobs of a
/// `submit_stream`, which are made elsewhere, carry only what their attributes have. A handler runs in a span of
/// the global tracer whose parent is that context.
///
/// [`ClientBuilder::interceptor`]: crate::client::ClientBuilder::interceptor
/// [`WorkerBuilder::interceptor`]: crate::worker::WorkerBuilder::interceptor
#[derive(Debug, Default)]
pub struct TraceContext(TraceContextPropagator);

impl TraceContext {
    /// One for a client or a worker.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn extract(&self, job: &Job) -> OtelContext {
        self.0.extract(&job.attributes)
    }
}

impl SubmitInterceptor for TraceContext {
    fn before(&self, submit: &mut Submit) {
        let attributes = submit.attributes_mut();
        if attributes.contains_key(TRACEPARENT) {
            return;
        }
        let mut context = HashMap::new();
        self.0.inject_context(&OtelContext::current(), &mut context);
        // An empty `tracestate` says nothing.
        attributes.extend(context.into_iter().filter(|(_, value)| !value.is_empty()));
    }
}

impl Interceptor for TraceContext {
    fn intercept<'a>(
        &'a self,
        context: Context,
        job: Job,
        next: Next<'a>,
    ) -> BoxFuture<'a, HandlerResult> {
        let span = span(&job, &self.extract(&job));
        let current = OtelContext::current_with_span(span);
        let traced = current.clone();
        let handled = async move {
            let result = next.run(context, job).await;
            if let Err(error) = &result {
                traced.span().set_status(Status::error(error.to_string()));
            }
            traced.span().end();
            result
        };
        Box::pin(handled.with_context(current))
    }
}

/// A handler's span.
fn span(job: &Job, parent: &OtelContext) -> global::BoxedSpan {
    let tracer = global::tracer(TRACER);
    let builder = tracer
        .span_builder(format!("process {}", job.queue))
        .with_kind(SpanKind::Consumer);
    let mut span = tracer.build_with_context(builder, parent);
    span.set_attributes([
        KeyValue::new("messaging.system", "keywork"),
        KeyValue::new("messaging.operation.type", "process"),
        KeyValue::new("messaging.destination.name", job.queue.clone()),
        KeyValue::new("messaging.message.id", job.id.clone()),
        KeyValue::new("keywork.key", job.key.clone()),
        KeyValue::new("keywork.attempt", i64::from(job.attempt)),
    ]);
    span
}
