//! The one door to starting things that run beside the caller.
//!
//! A client's task ends when the stream that it feeds is dropped; a worker's threads end with its
//! `run()`; a handler's task reports to its worker whatever becomes of it. Nothing else is started.

use std::{io, thread};

use futures::Future;
use tokio::{
    runtime::{Builder, Handle},
    task::JoinHandle,
};

/// Starts a task on the caller's runtime.
#[expect(clippy::disallowed_methods, reason = "this is the SDK's one door")]
pub(crate) fn start<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(task)
}

/// Starts a task on a given runtime.
pub(crate) fn start_on<F>(runtime: &Handle, task: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    runtime.spawn(task)
}

/// Starts a thread for code that may block.
///
/// # Errors
/// The thread could not be made.
pub(crate) fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run)?;
    Ok(())
}

/// Runs a future to its end on a thread and a runtime of its own.
///
/// # Errors
/// The thread or its runtime could not be made.
pub(crate) fn own_thread<M, F>(name: &str, make: M) -> io::Result<()>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future<Output = ()>,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    self::thread(name, move || runtime.block_on(make()))
}
