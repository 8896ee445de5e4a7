//! A real nats-server for a test, or three of them.
