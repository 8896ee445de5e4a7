//! The `keywork` command.

fn main() {}
