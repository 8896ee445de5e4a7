//! What stands round every job that is offered.

use std::{fmt, sync::Arc};

use super::Submit;
use crate::{Error, SubmitOutcome};

/// Stands round every job that a client offers, alone, in a batch or on a stream: for tracing, metrics, defaults.
pub trait SubmitInterceptor: Send + Sync + 'static {
    /// A job is about to be offered for the first time; it may be changed.
    fn before(&self, submit: &mut Submit) {
        let _ = submit;
    }

    /// How it ended, after all tries.
    fn after(&self, submit: &Submit, result: &Result<SubmitOutcome, Error>) {
        let _ = (submit, result);
    }
}

/// A client's interceptors; the first one added is the outermost.
#[derive(Clone, Default)]
pub(crate) struct Interceptors(Arc<[Arc<dyn SubmitInterceptor>]>);

impl Interceptors {
    pub(crate) fn new(all: Vec<Arc<dyn SubmitInterceptor>>) -> Self {
        Self(all.into())
    }

    pub(crate) fn before(&self, submit: &mut Submit) {
        self.0.iter().for_each(|one| one.before(submit));
    }

    /// The innermost hears first.
    pub(crate) fn after(&self, submit: &Submit, result: &Result<SubmitOutcome, Error>) {
        self.0
            .iter()
            .rev()
            .for_each(|one| one.after(submit, result));
    }
}

impl fmt::Debug for Interceptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} interceptors", self.0.len())
    }
}
