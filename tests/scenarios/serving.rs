//! Scenarios of serving.
