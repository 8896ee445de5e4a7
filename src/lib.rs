//! The Keywork service: the wire's side of it, and the command line. `main.rs` is the command.

pub mod cli;

/// The contract as generated from `proto/`.
pub mod proto {
    #![expect(clippy::all, reason = "generated from proto/")]
    tonic::include_proto!("keywork.v1");

    /// The descriptor set, for reflection.
    pub const DESCRIPTOR: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/keywork_descriptor.bin"));
}
