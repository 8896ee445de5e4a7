//! The SDK against a fake server: scenarios named as laws.

mod leases;
mod sessions;
mod settling;
mod stopping;
mod submitting;
mod support;
#[cfg(feature = "otel")]
mod traces;
