//! Scenarios of retries.
