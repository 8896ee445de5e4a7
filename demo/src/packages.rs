//! The demo's real input: what Cargo.lock pins, and where cargo keeps its source.

use std::{env, ffi::OsString, io, path::PathBuf, process::Command};

use serde::Deserialize;

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackagesError {
    #[error("failed to run cargo: {0}")]
    Cargo(#[from] io::Error),
    #[error("cargo metadata failed: {0}")]
    Metadata(String),
    #[error("failed to read what cargo metadata says: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// One version of a package.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) folder: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    name: String,
    version: String,
    source: Option<String>,
    manifest_path: PathBuf,
}

/// Every package of Cargo.lock that comes from elsewhere, on any platform.
pub(crate) fn pinned() -> Result<Vec<Package>, PackagesError> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--all-features"])
        .args(["--format-version", "1"])
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(PackagesError::Metadata(said.trim().into()));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    Ok(metadata.packages.into_iter().filter_map(pin).collect())
}

fn pin(found: Found) -> Option<Package> {
    found.source?;
    Some(Package {
        folder: found.manifest_path.parent()?.to_owned(),
        name: found.name,
        version: found.version,
    })
}
