//! What runs a job, what it may answer, and what can be wrapped around it.

use std::{
    any::Any, error::Error as StdError, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};

use super::Context;
use crate::Job;

/// Longest error text that is sent; servers keep no more.
const ERROR_BYTES: usize = 2_048;

/// Any error of a handler. [`Retry`], [`Fail`], [`Release`] and [`Rerun`] have a meaning of their own;
/// every other one means: try again after the job's backoff.
pub type HandlerError = Box<dyn StdError + Send + Sync>;

/// What a handler returns: `Ok` completes the job.
pub type HandlerResult = Result<(), HandlerError>;

/// Runs jobs. Closures `Fn(Context, Job) -> impl Future<Output = HandlerResult>` are handlers.
///
/// A handler that panics has failed like one that returns an error. One that is dropped before its end gives
/// its job back.
pub trait Handler: Send + Sync + 'static {
    /// Runs one job.
    fn handle(&self, context: Context, job: Job) -> impl Future<Output = HandlerResult> + Send;
}

impl<F, Fut> Handler for F
where
    F: Fn(Context, Job) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send,
{
    fn handle(&self, context: Context, job: Job) -> impl Future<Output = HandlerResult> + Send {
        self(context, job)
    }
}

/// Wraps every handler call: for tracing, metrics, resources.
pub trait Interceptor: Send + Sync + 'static {
    /// Does what is to be done around `next`, and returns its result or another.
    fn intercept<'a>(
        &'a self,
        context: Context,
        job: Job,
        next: Next<'a>,
    ) -> BoxFuture<'a, HandlerResult>;
}

/// What an [`Interceptor`] wraps: the interceptors after it, and then the handler.
#[derive(Clone, Copy)]
pub struct Next<'a> {
    rest: &'a [Arc<dyn Interceptor>],
    handler: &'a dyn AnyHandler,
}

impl<'a> Next<'a> {
    /// Goes on.
    #[must_use]
    pub fn run(self, context: Context, job: Job) -> BoxFuture<'a, HandlerResult> {
        match self.rest.split_first() {
            Some((first, rest)) => first.intercept(context, job, Next { rest, ..self }),
            None => self.handler.handle_boxed(context, job),
        }
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next")
            .field("interceptors", &self.rest.len())
            .finish()
    }
}

/// A handler whose future is boxed.
trait AnyHandler: Send + Sync {
    fn handle_boxed(&self, context: Context, job: Job) -> BoxFuture<'_, HandlerResult>;
}

impl<H: Handler> AnyHandler for H {
    fn handle_boxed(&self, context: Context, job: Job) -> BoxFuture<'_, HandlerResult> {
        self.handle(context, job).boxed()
    }
}

/// The interceptors and the handler of a worker.
#[derive(Clone)]
pub(crate) struct Chain {
    interceptors: Arc<[Arc<dyn Interceptor>]>,
    handler: Arc<dyn AnyHandler>,
}

impl Chain {
    pub(crate) fn new(interceptors: Vec<Arc<dyn Interceptor>>, handler: impl Handler) -> Self {
        Self {
            interceptors: interceptors.into(),
            handler: Arc::new(handler),
        }
    }

    /// Runs one job to its outcome, whatever the handler does.
    pub(crate) async fn run(&self, context: Context, job: Job) -> Outcome {
        let next = Next {
            rest: &self.interceptors,
            handler: &*self.handler,
        };
        let call = async move { next.run(context, job).await };
        match AssertUnwindSafe(call).catch_unwind().await {
            Ok(Ok(())) => Outcome::Complete,
            Ok(Err(error)) => Outcome::of(&*error),
            Err(panic) => Outcome::retry(format!("the handler panicked: {}", panic_text(&*panic))),
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

/// Try again after a delay of the handler's choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    delay: Option<Duration>,
    error: String,
}

impl Retry {
    /// Try again after this long.
    #[must_use]
    pub fn after(delay: Duration) -> Self {
        Self {
            delay: Some(delay),
            error: String::new(),
        }
    }

    /// What went wrong.
    #[must_use]
    pub fn because(mut self, error: impl fmt::Display) -> Self {
        self.error = error.to_string();
        self
    }
}

/// Make the job a dead letter now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fail {
    reason: String,
}

impl Fail {
    /// Trying again would not help, for this reason.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self {
            reason: reason.to_string(),
        }
    }
}

/// Give the job back at once; costs no attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Release;

/// The job is done, and its key is to run again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rerun {
    delay: Duration,
    payload: Option<Bytes>,
}

impl Rerun {
    /// Run the key again after this long.
    #[must_use]
    pub fn after(delay: Duration) -> Self {
        Self {
            delay,
            payload: None,
        }
    }

    /// The payload of the next job. Default: the same.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = Some(payload.into());
        self
    }
}

macro_rules! outcome_as_error {
    ($($name:ident: $text:literal),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($text)
            }
        }
        impl StdError for $name {}
    )*};
}
outcome_as_error!(Retry: "to be tried again", Fail: "failed for good", Release: "given back", Rerun: "to run again");

/// How a handler's run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The job is done.
    Complete,
    /// The attempt failed; the next comes after the delay, or after the job's backoff.
    Retry {
        /// None: the job's backoff.
        delay: Option<Duration>,
        /// What went wrong.
        error: String,
        /// The handler chose [`Retry`]; false: it returned an ordinary error or panicked.
        chosen: bool,
    },
    /// The job becomes a dead letter.
    Fail {
        /// Why.
        reason: String,
    },
    /// The job goes back to the queue.
    Release,
    /// The job is done and its key runs again.
    Rerun {
        /// The wait before it.
        delay: Duration,
        /// None: the same payload.
        payload: Option<Bytes>,
    },
}

impl Outcome {
    pub(crate) fn retry(error: String) -> Self {
        Self::Retry {
            delay: None,
            error: cut(error),
            chosen: false,
        }
    }

    fn of(error: &(dyn StdError + Send + Sync + 'static)) -> Self {
        if let Some(Retry { delay, error }) = error.downcast_ref() {
            return Self::Retry {
                delay: *delay,
                error: cut(error.clone()),
                chosen: true,
            };
        }
        if let Some(Fail { reason }) = error.downcast_ref() {
            return Self::Fail {
                reason: cut(reason.clone()),
            };
        }
        if let Some(Rerun { delay, payload }) = error.downcast_ref() {
            return Self::Rerun {
                delay: *delay,
                payload: payload.clone(),
            };
        }
        if error.is::<Release>() {
            return Self::Release;
        }
        Self::retry(with_causes(error))
    }
}

fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(ERROR_BYTES));
    text
}
