//! The data directory: who may use it, and what is where in it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::EmbeddedError;

/// How long a predecessor's nats-server may still take to end.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);

/// A data directory that is locked for us.
///
/// The lock is one on an open file that nats-server inherits: it lasts until the last of the two has
/// ended. So a successor never starts a second nats-server on the same store.
pub(super) struct DataDir {
    path: PathBuf,
    lock: Arc<File>,
}

impl DataDir {
    /// Makes the directory if need be, and locks it.
    pub(super) async fn open(path: &Path) -> Result<Self, EmbeddedError> {
        let failed = |source| EmbeddedError::DataDir {
            path: path.into(),
            source,
        };
        let (path, lock) = prepare(path).map_err(failed)?;
        let end = Instant::now() + PATIENCE;
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    return Ok(Self {
                        path,
                        lock: lock.into(),
                    });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                    return Err(EmbeddedError::InUse { path });
                }
                Err(TryLockError::WouldBlock) => sleep(POLL).await,
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn lock(&self) -> Arc<File> {
        self.lock.clone()
    }

    pub(super) fn log_file(&self) -> PathBuf {
        self.path.join("nats-server.log")
    }

    /// Writes the configuration file, which only we may read, and says where it is.
    pub(super) fn write_config(&self, text: &str) -> Result<PathBuf, EmbeddedError> {
        let file = self.path.join("nats-server.conf");
        write_private(&file, text).map_err(|source| EmbeddedError::DataDir {
            path: self.path.clone(),
            source,
        })?;
        Ok(file)
    }
}

fn prepare(path: &Path) -> io::Result<(PathBuf, File)> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let path = fs::canonicalize(path)?;
    if path.to_str().is_none() {
        return Err(io::Error::other(
            "its path is not UTF-8, and nats-server takes no other",
        ));
    }
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path.join("lock"))?;
    Ok((path, lock))
}

/// Replaces `file`; whoever had it open, or could read it, has nothing of what is in the new one.
fn write_private(file: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(file)?
        .write_all(text.as_bytes())
}
