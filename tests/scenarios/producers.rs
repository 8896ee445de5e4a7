//! Scenarios of producers.
