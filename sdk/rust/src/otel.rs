//! OpenTelemetry: a trace goes on from the program that submits to the handler, by way of the job's attributes.
//!
//! Only with the feature `otel`. What is written is W3C Trace Context: `traceparent` and `tracestate`.

use std::{
    any::Any,
    collections::HashMap,
    panic::{AssertUnwindSafe, resume_unwind},
};

use futures::{FutureExt as _, future::BoxFuture};
use opentelemetry::{
    Context as OtelContext, KeyValue, global,
    propagation::TextMapPropagator,
    trace::{FutureExt, Span, SpanKind, SpanRef, Status, TraceContextExt, Tracer},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;

use crate::{
    Context, Job, Submit,
    client::SubmitInterceptor,
    worker::{CancelReason, HandlerResult, Interceptor, Next, Outcome, panicked},
};

/// What spans of this crate are made by.
const TRACER: &str = "keywork-sdk";
/// The attribute that says that a submit has its context already.
const TRACEPARENT: &str = "traceparent";

/// Carries trace context in the attributes of jobs. Give one to [`ClientBuilder::interceptor`] and one to
/// [`WorkerBuilder::interceptor`].
///
/// A submit carries the context that is current where it is made, unless its attributes have one; no span is made for
/// it. A handler runs in a span of the global tracer whose parent is that context.
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
            let call = AssertUnwindSafe(next.run(context.clone(), job));
            let ended = call.catch_unwind().await;
            note_end(&traced.span(), &ended, context.reason());
            ended.unwrap_or_else(|panic| resume_unwind(panic))
        };
        Box::pin(handled.with_context(current))
    }
}

/// How a handler ended: its result, or its panic.
type Ended = Result<HandlerResult, Box<dyn Any + Send>>;

/// Ends the span with what becomes of the job.
fn note_end(span: &SpanRef<'_>, ended: &Ended, stopped: Option<CancelReason>) {
    let outcome = match ended {
        Ok(Ok(())) => Outcome::Complete,
        Ok(Err(error)) => Outcome::of(&**error),
        Err(panic) => Outcome::retry(panicked(&**panic)),
    };
    // One that is dropped had an end all the same.
    let outcome = outcome.clone().after(stopped).unwrap_or(outcome);
    span.set_attribute(KeyValue::new("keywork.outcome", name(&outcome)));
    match &outcome {
        Outcome::Retry { error, chosen, .. } => {
            if !chosen {
                note_exception(span, error);
            }
            span.set_status(Status::error(error.clone()));
        }
        Outcome::Fail { reason } => span.set_status(Status::error(reason.clone())),
        Outcome::Complete | Outcome::Release | Outcome::Rerun { .. } => {}
    }
    span.end();
}

fn note_exception(span: &SpanRef<'_>, text: &str) {
    let message = KeyValue::new("exception.message", text.to_owned());
    span.add_event("exception", vec![message]);
}

fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Complete => "complete",
        Outcome::Retry { .. } => "retry",
        Outcome::Fail { .. } => "fail",
        Outcome::Release => "release",
        Outcome::Rerun { .. } => "rerun",
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
        KeyValue::new(
            "keywork.fencing_number",
            i64::try_from(job.fencing_number).unwrap_or(i64::MAX),
        ),
    ]);
    span
}
