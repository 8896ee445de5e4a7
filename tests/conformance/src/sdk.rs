//! The SDKs: what stands in each `workers/<sdk>/conformance.toml`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::Value;

use crate::world::target_dir;

/// What was wrong with an SDK's worker-under-test.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SdkError {
    #[error("failed to read {file}: {source}")]
    Unreadable { file: String, source: io::Error },
    #[error("failed to understand {file}: {source}")]
    Malformed {
        file: String,
        source: Box<toml::de::Error>,
    },
    #[error("there is no worker-under-test of {name}")]
    Unknown { name: String },
    #[error("failed to build the worker-under-test of {name}: `{command}` ended with an error")]
    Build { name: String, command: String },
    #[error("failed to ask the worker-under-test of {name} what it can do: {why}")]
    Capabilities { name: String, why: String },
}

/// One SDK's worker-under-test.
#[derive(Clone, Debug)]
pub(crate) struct Sdk {
    pub(crate) name: String,
    pub(crate) run: Vec<String>,
    /// The checkout's root, where `build` and `run` are run.
    pub(crate) root: PathBuf,
    pub(crate) known_failing: Vec<Known>,
    pub(crate) capabilities: Vec<String>,
    pub(crate) version: String,
    pub(crate) runtime: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Config {
    build: Option<String>,
    run: Vec<String>,
    #[serde(default)]
    known_failing: Vec<KnownConfig>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum KnownConfig {
    Id(String),
    Full { scenario: String, reason: String },
}

/// A scenario that an SDK must fail.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) scenario: String,
    pub(crate) reason: String,
}

impl Sdk {
    /// All SDKs that have a worker-under-test, or those of these names; each built, and asked what it can do. One
    /// that cannot be prepared keeps none of the others from being tested.
    pub(crate) fn find(
        root: &Path,
        names: &[String],
        build: bool,
    ) -> Result<Vec<Result<Self, SdkError>>, SdkError> {
        let folder = root.join("tests/conformance/workers");
        let names = if names.is_empty() {
            all_names(&folder)?
        } else {
            names.to_vec()
        };
        let prepare = |name: &String| Self::prepare(root, &folder, name, build);
        Ok(names.iter().map(prepare).collect())
    }

    fn prepare(root: &Path, folder: &Path, name: &str, build: bool) -> Result<Self, SdkError> {
        let config = read(&folder.join(name).join("conformance.toml"), name)?;
        if let Some(command) = config.build.filter(|_| build) {
            run_build(root, name, &placed(&command, root))?;
        }
        let mut sdk = Self {
            name: name.to_owned(),
            run: config.run.iter().map(|word| placed(word, root)).collect(),
            root: root.to_owned(),
            known_failing: config.known_failing.into_iter().map(Known::from).collect(),
            capabilities: Vec::new(),
            version: String::new(),
            runtime: String::new(),
        };
        sdk.ask()?;
        Ok(sdk)
    }

    /// Asks what it can do.
    fn ask(&mut self) -> Result<(), SdkError> {
        let failed = |why: String| SdkError::Capabilities {
            name: self.name.clone(),
            why,
        };
        let (program, arguments) = self
            .run
            .split_first()
            .ok_or_else(|| failed("`run` is empty".to_owned()))?;
        let output = Command::new(program)
            .args(arguments)
            .arg("--list-capabilities")
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed(format!("{program}: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let hello: Value = text
            .lines()
            .next()
            .and_then(|line| serde_json::from_str(line).ok())
            .ok_or_else(|| {
                let errors = String::from_utf8_lossy(&output.stderr);
                failed(format!("it wrote {text:?} and {errors:?}"))
            })?;
        let text = |member: &str| hello[member].as_str().unwrap_or_default().to_owned();
        let names = hello["capabilities"].as_array().into_iter().flatten();
        self.capabilities = names.filter_map(Value::as_str).map(str::to_owned).collect();
        (self.version, self.runtime) = (text("version"), text("runtime"));
        Ok(())
    }

    /// Why it must fail a scenario, if it must.
    pub(crate) fn known(&self, scenario: &str) -> Option<&str> {
        let mut known = self.known_failing.iter();
        known
            .find(|known| known.scenario == scenario)
            .map(|known| known.reason.as_str())
    }
}

impl From<KnownConfig> for Known {
    fn from(config: KnownConfig) -> Self {
        match config {
            KnownConfig::Id(scenario) => Self {
                scenario,
                reason: "no reason is given".to_owned(),
            },
            KnownConfig::Full { scenario, reason } => Self { scenario, reason },
        }
    }
}

fn all_names(folder: &Path) -> Result<Vec<String>, SdkError> {
    let unreadable = |source| SdkError::Unreadable {
        file: folder.display().to_string(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.join("conformance.toml").is_file() {
            names.extend(
                path.file_name()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
        }
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path, name: &str) -> Result<Config, SdkError> {
    let file = path.display().to_string();
    if !path.is_file() {
        return Err(SdkError::Unknown {
            name: name.to_owned(),
        });
    }
    let text = fs::read_to_string(path).map_err(|source| SdkError::Unreadable {
        file: file.clone(),
        source,
    })?;
    toml::from_str(&text).map_err(|source| SdkError::Malformed {
        file,
        source: source.into(),
    })
}

/// `{root}` is the checkout, `{target}` where what cargo built stands, `{profile}` how it was built.
fn placed(text: &str, root: &Path) -> String {
    let profile = if cfg!(debug_assertions) {
        "dev"
    } else {
        "release"
    };
    let text = text.replace("{profile}", profile);
    text.replace("{root}", &root.display().to_string()).replace(
        "{target}",
        target_dir().to_string_lossy().trim_end_matches('/'),
    )
}

fn run_build(root: &Path, name: &str, command: &str) -> Result<(), SdkError> {
    let status = Command::new("bash")
        .args(["-c", command])
        .current_dir(root)
        .stdin(Stdio::null())
        .status();
    if status.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(SdkError::Build {
        name: name.to_owned(),
        command: command.to_owned(),
    })
}
