//! Scenarios of owners.
