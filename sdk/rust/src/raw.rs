//! The contract as generated from `proto/keywork/v1`: every message and field, and plain clients.
//!
//! The hand-written types of this crate cover daily work. What they leave out is reachable here, by
//! way of [`Client::raw`](crate::Client::raw) and [`Client::raw_admin`](crate::Client::raw_admin). These
//! types change with the contract, which only grows.
#![expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::large_enum_variant,
    clippy::missing_errors_doc,
    clippy::too_many_lines,
    reason = "generated from proto/"
)]

include!("generated/keywork.v1.rs");
