//! Finding a nats-server that is new enough.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{process::Command, time::timeout};

use super::EmbeddedError;

const NAME: &str = "nats-server";
const ANSWER: Duration = Duration::from_secs(10);

/// The oldest that can re-seat a job at the limit of one message a subject.
pub(super) const LEAST: Version = Version {
    major: 2,
    minor: 14,
    patch: 0,
};

/// The version of a nats-server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    /// Reads `nats-server: v2.15.1`, or with `-RC.1` at the end.
    fn parse(answer: &str) -> Option<Self> {
        let version = answer.trim().strip_prefix("nats-server: v")?;
        let mut parts = version.split(['.', '-', '+']).map(str::parse);
        let mut next = || parts.next()?.ok();
        Some(Self {
            major: next()?,
            minor: next()?,
            patch: next()?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The nats-server to run: `named`, or the first that is found; it is new enough.
pub(super) async fn find(named: Option<&Path>) -> Result<PathBuf, EmbeddedError> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => look().ok_or(EmbeddedError::NoBinary)?,
    };
    let found = version_of(&path)
        .await
        .map_err(|reason| EmbeddedError::NoVersion {
            path: path.clone(),
            reason,
        })?;
    if found < LEAST {
        return Err(EmbeddedError::TooOld { path, found });
    }
    Ok(path)
}

fn look() -> Option<PathBuf> {
    let beside = env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(Path::to_owned));
    let here = env::current_dir().unwrap_or_default();
    let tools = here.ancestors().map(|dir| dir.join(".tools/bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(tools)
        .chain(env::split_paths(&path))
        .map(|dir| dir.join(NAME))
        .find(|file| file.is_file())
}

async fn version_of(path: &Path) -> Result<Version, String> {
    let asked = Command::new(path)
        .arg("--version")
        .kill_on_drop(true)
        .output();
    let output = timeout(ANSWER, asked)
        .await
        .map_err(|_| format!("it did not answer within {ANSWER:?}"))?
        .map_err(|error| error.to_string())?;
    let answer = String::from_utf8_lossy(&output.stdout);
    Version::parse(&answer).ok_or_else(|| format!("it answered {:?}", answer.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        let read = |version: &str| Version::parse(&format!("nats-server: v{version}\n"));
        assert_eq!(
            read("2.15.1"),
            Some(Version {
                major: 2,
                minor: 15,
                patch: 1
            })
        );
        assert_eq!(read("2.16.0-RC.1").unwrap().to_string(), "2.16.0");
        assert!(read("2.9.25").unwrap() < LEAST);
        assert!(read("2.14.0").unwrap() >= LEAST);
        assert!(read("10.0.0").unwrap() > LEAST);
    }

    #[test]
    fn what_is_no_version_is_none() {
        for answer in ["", "nats-server", "nats-server: vX.Y.Z", "nats-server: v2"] {
            assert_eq!(Version::parse(answer), None, "{answer}");
        }
    }
}
