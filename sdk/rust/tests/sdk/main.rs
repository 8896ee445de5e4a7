//! The SDK against a fake server: scenarios named as laws.

mod leases;
mod logs;
mod options;
mod sessions;
mod settling;
mod stopping;
mod submitting;
mod support;
#[cfg(feature = "otel")]
mod traces;
