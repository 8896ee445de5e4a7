//! Scenarios of restarts.
