//! The committed stubs are what `proto/` generates.

use std::{env, error::Error, fs, path::Path};

const FILES: [&str; 4] = [
    "keywork/v1/job.proto",
    "keywork/v1/work_queue.proto",
    "keywork/v1/queue_admin.proto",
    "keywork/v1/schedules.proto",
];

/// What marks the file for readers and for tools.
const HEADER: &str = "// @generated from proto/keywork/v1 by tonic-prost-build. Do not edit: change the proto, then\n\
                      // KEYWORK_REGENERATE=1 cargo test -p keywork-sdk --test generated\n\n";

#[test]
fn the_committed_stubs_are_what_the_proto_generates() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = root.join("src/generated/keywork.v1.rs");
    let fresh = generate(&root.join("../../proto"))?;
    if env::var_os("KEYWORK_REGENERATE").is_some() {
        fs::write(&committed, &fresh)?;
    }
    let found = fs::read_to_string(&committed)?;
    assert!(
        found == fresh,
        "src/generated/keywork.v1.rs differs from proto/: run this test with KEYWORK_REGENERATE=1"
    );
    Ok(())
}

fn generate(proto: &Path) -> Result<String, Box<dyn Error>> {
    let descriptors = protox::Compiler::new([proto])?
        .include_source_info(true)
        .include_imports(true)
        .open_files(FILES)?
        .file_descriptor_set();
    let out = env!("CARGO_TARGET_TMPDIR");
    tonic_prost_build::configure()
        .bytes(".")
        .out_dir(out)
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    let body = fs::read_to_string(Path::new(out).join("keywork.v1.rs"))?;
    Ok(format!("{HEADER}{body}"))
}
