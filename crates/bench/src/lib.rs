//! The performance harness: straight JetStream beside Keywork, in one run.
