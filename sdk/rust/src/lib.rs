//! Keywork's client and worker for Rust.
