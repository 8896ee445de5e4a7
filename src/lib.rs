//! The Keywork service: the wire's side of it, and the command line. `main.rs` is the command.

pub mod cli;

pub mod config;
pub mod convert;
pub mod embedded;
pub mod errors;
pub mod rpc;
pub mod serve;

/// The contract as generated from `proto/`.
pub mod proto {
    #![expect(
        clippy::all,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        clippy::missing_errors_doc,
        clippy::too_many_lines,
        reason = "generated from proto/"
    )]
    tonic::include_proto!("keywork.v1");

    /// The descriptor set, for reflection.
    pub const DESCRIPTOR: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/keywork_descriptor.bin"));
}
