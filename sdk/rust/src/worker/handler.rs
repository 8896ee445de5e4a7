//! What runs a job, what it may answer, and what can be wrapped around it.

use std::{
    any::Any, error::Error as StdError, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration,
};

use bytes::Bytes;
use futures::FutureExt;
pub use futures::future::BoxFuture;

use super::{CancelReason, Context};
use crate::Job;

/// Longest error text that is sent; servers keep no more.
const ERROR_BYTES: usize = 2_048;

/// Any error of a handler. [`Retry`], [`Fail`], [`Release`] and [`Rerun`] have a meaning of their own, also where they
/// are the cause of another error or came through `anyhow`; every other one means: try again after the job's backoff.
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
        // Reading an error runs its code too.
        let call = async move {
            match next.run(context, job).await {
                Ok(()) => Outcome::Complete,
                Err(error) => Outcome::of(&*error),
            }
        };
        let ended = AssertUnwindSafe(call).catch_unwind().await;
        ended.unwrap_or_else(|panic| Outcome::retry(panicked(&*panic)))
    }
}

/// What is said of a handler that panicked.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> String {
    format!("the handler panicked: {}", panic_text(panic))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

/// Try again after a delay of the handler's choice. The default: after the job's backoff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry(Chosen);

impl Retry {
    /// Try again after this long.
    #[must_use]
    pub fn after(delay: Duration) -> Self {
        Self(Chosen(Outcome::Retry {
            delay: Some(delay),
            error: String::new(),
            chosen: true,
        }))
    }

    /// What went wrong.
    #[must_use]
    pub fn because(mut self, why: impl fmt::Display) -> Self {
        if let Outcome::Retry { error, .. } = &mut self.0.0 {
            *error = cut(why.to_string());
        }
        self
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self(Chosen(Outcome::Retry {
            delay: None,
            error: String::new(),
            chosen: true,
        }))
    }
}

/// Make the job a dead letter now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail(Chosen);

impl Fail {
    /// Trying again would not help, for this reason.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(Chosen(Outcome::Fail {
            reason: cut(reason.to_string()),
        }))
    }
}

/// Give the job back at once; costs no attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Release;

/// The job is done, and its key is to run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rerun(Chosen);

impl Rerun {
    /// Run the key again after this long.
    #[must_use]
    pub fn after(delay: Duration) -> Self {
        Self(Chosen(Outcome::Rerun {
            delay,
            payload: None,
        }))
    }

    /// The payload of the next job. Default: the same.
    #[must_use]
    pub fn payload(mut self, next: impl Into<Bytes>) -> Self {
        if let Outcome::Rerun { payload, .. } = &mut self.0.0 {
            *payload = Some(next.into());
        }
        self
    }
}

/// What [`Retry`], [`Fail`], [`Release`] and [`Rerun`] mean. It is the source of each as an error, because what boxes
/// errors, such as `anyhow`, may hide the type of an error and not that of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chosen(Outcome);

static RELEASE: Chosen = Chosen(Outcome::Release);

impl Chosen {
    /// What the handler chose, however deep it is in the error that it returned.
    fn find<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Outcome> {
        std::iter::successors(Some(error), |error| (*error).source())
            .find_map(|error| error.downcast_ref::<Self>())
            .map(|chosen| &chosen.0)
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Outcome::Retry { error, .. } if error.is_empty() => f.write_str("no reason was given"),
            Outcome::Retry { error: text, .. } | Outcome::Fail { reason: text } => {
                f.write_str(text)
            }
            Outcome::Release => f.write_str("it costs no attempt"),
            Outcome::Rerun { delay, .. } => write!(f, "in {delay:?}"),
            Outcome::Complete => f.write_str("done"),
        }
    }
}

impl StdError for Chosen {}

macro_rules! outcome_as_error {
    ($($name:ident: $text:literal, $source:expr;)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($text)
            }
        }
        impl StdError for $name {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                let source: fn(&Self) -> &Chosen = $source;
                Some(source(self))
            }
        }
    )*};
}
outcome_as_error! {
    Retry: "to be tried again", |retry| &retry.0;
    Fail: "failed for good", |fail| &fail.0;
    Release: "given back", |_| &RELEASE;
    Rerun: "to run again", |rerun| &rerun.0;
}

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

    /// What a handler's error means.
    pub(crate) fn of(error: &(dyn StdError + Send + Sync + 'static)) -> Self {
        match Chosen::find(error) {
            Some(chosen) => chosen.clone(),
            None => Self::retry(with_causes(error)),
        }
    }

    /// What a worker makes of it where the handler was told to stop for this reason: none where it is dropped. An
    /// ordinary error of one that was told to stop because the worker stops is no failure of the job.
    pub(crate) fn after(self, stopped: Option<CancelReason>) -> Option<Self> {
        match stopped {
            Some(CancelReason::LeaseLost | CancelReason::JobCancelled) => None,
            Some(CancelReason::WorkerShutdown)
                if matches!(self, Self::Retry { chosen: false, .. }) =>
            {
                Some(Self::Release)
            }
            Some(CancelReason::WorkerShutdown) | None => Some(self),
        }
    }
}

/// The error with its causes; what has been said is not said again, since many errors tell their cause themselves.
fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes
        .map(ToString::to_string)
        .fold(error.to_string(), |text, cause| {
            if text.ends_with(&cause) {
                text
            } else {
                format!("{text}: {cause}")
            }
        })
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(ERROR_BYTES));
    text
}
