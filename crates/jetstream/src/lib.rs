//! Keywork's storage verbs on NATS JetStream: the only crate that names async_nats.
