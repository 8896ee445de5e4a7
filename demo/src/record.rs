//! What a worker records: one JSON line when a run starts, one when it ends.
//!
//! A line is written at once and whole, so that what a killed worker recorded can be trusted. Times are
//! the machine's monotonic clock, which all processes share.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Nanoseconds of the monotonic clock.
    pub(crate) at: u64,
    pub(crate) worker: String,
    pub(crate) key: String,
    pub(crate) job: String,
    pub(crate) attempt: u32,
    pub(crate) fencing_number: u64,
    pub(crate) what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// The handler began.
    Start,
    /// The handler did its work.
    End(Digest),
    /// The handler was told to stop, and did.
    GaveUp,
}

/// What the work came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digest {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// The monotonic clock.
pub(crate) fn now() -> io::Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    Ok(part(time.tv_sec()) * 1_000_000_000 + part(time.tv_nsec()))
}

/// Where a worker records.
#[derive(Debug)]
pub(crate) struct Recorder(File);

impl Recorder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(file))
    }

    pub(crate) fn write(&self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        (&self.0).write_all(&line)
    }
}

/// Reads what was recorded. A line that is still being written is left for the next look.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Record>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines();
    lines.map(|line| Ok(serde_json::from_str(line)?)).collect()
}
