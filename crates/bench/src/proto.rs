//! The contract as generated from `proto/`.

#![expect(
    clippy::all,
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    reason = "generated from proto/"
)]

tonic::include_proto!("keywork.v1");
