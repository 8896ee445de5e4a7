//! `proto/` → a bare client, so that what is measured is the server and not an SDK.

use std::error::Error;

const PROTO: &str = "../../proto";
const FILES: [&str; 2] = [
    "keywork/v1/work_queue.proto",
    "keywork/v1/queue_admin.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO}");
    let descriptors = protox::compile(FILES, [PROTO])?;
    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
