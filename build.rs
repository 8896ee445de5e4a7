//! `proto/` → the server's stubs, a client for the tests, and the reflection descriptor.

use std::{env, error::Error, fs, path::PathBuf};

const FILES: [&str; 4] = [
    "keywork/v1/job.proto",
    "keywork/v1/work_queue.proto",
    "keywork/v1/queue_admin.proto",
    "keywork/v1/schedules.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::Compiler::new(["proto"])?
        .include_source_info(true)
        .include_imports(true)
        .open_files(FILES)?
        .file_descriptor_set();
    let out = PathBuf::from(env::var("OUT_DIR")?).join("keywork_descriptor.bin");
    fs::write(&out, prost::Message::encode_to_vec(&descriptors))?;
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .compile_fds(descriptors)?;
    Ok(())
}
