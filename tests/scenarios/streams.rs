//! Scenarios of streams.
