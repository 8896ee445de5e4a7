//! Interceptors that only tell that they were called, and the trace context of a submit.

use std::collections::HashMap;

use futures::future::BoxFuture;
use keywork_sdk::{
    Context, Error, Job, Submit, SubmitOutcome,
    client::SubmitInterceptor,
    worker::{HandlerResult, Interceptor, Next},
};
use opentelemetry::{Context as OtelContext, propagation::TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use serde_json::json;

use crate::emit::emit;

/// Changes nothing.
pub(crate) struct Noting;

impl SubmitInterceptor for Noting {
    fn before(&self, submit: &mut Submit) {
        tell("submit", "before", submit.key());
    }

    fn after(&self, submit: &Submit, _: &Result<SubmitOutcome, Error>) {
        tell("submit", "after", submit.key());
    }
}

impl Interceptor for Noting {
    fn intercept<'a>(
        &'a self,
        context: Context,
        job: Job,
        next: Next<'a>,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(async move {
            let key = job.key.clone();
            tell("handler", "before", &key);
            let result = next.run(context, job).await;
            tell("handler", "after", &key);
            result
        })
    }
}

fn tell(what: &str, when: &str, key: &str) {
    emit(&json!({"event": "intercepted", "what": what, "when": when, "key": key}));
}

/// The context that a `traceparent` names; without one, that which is current.
pub(crate) fn around(traceparent: Option<&str>) -> OtelContext {
    let Some(traceparent) = traceparent else {
        return OtelContext::current();
    };
    let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    TraceContextPropagator::new().extract(&carrier)
}
