//! Scenarios of leases.
