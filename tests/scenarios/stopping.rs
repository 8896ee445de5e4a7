//! Scenarios of stopping.
