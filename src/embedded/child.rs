//! The process between us and nats-server: ourselves, for a moment.
//!
//! `keywork embedded-nats PARENT SERVER CONFIG` makes sure that it dies with its parent, and then
//! becomes nats-server. Nobody calls it by hand.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io,
    os::unix::process::{CommandExt, parent_id},
    path::{Path, PathBuf},
    process::{self, Child, Command, ExitCode, Stdio},
    sync::Arc,
};

const SUBCOMMAND: &str = "embedded-nats";

/// What it takes to spawn a nats-server.
pub(super) struct Launch {
    pub(super) keywork: PathBuf,
    pub(super) server: PathBuf,
    pub(super) config: PathBuf,
    pub(super) lock: Arc<File>,
}

impl Launch {
    /// Spawns it. The calling thread must live as long as the process is to.
    pub(super) fn spawn(&self) -> io::Result<Child> {
        Command::new(&self.keywork)
            .arg(SUBCOMMAND)
            .arg(process::id().to_string())
            .arg(&self.server)
            .arg(&self.config)
            // The locked file, so that the lock lasts as long as nats-server: it reads no input.
            .stdin(Stdio::from(self.lock.try_clone()?))
            .stdout(Stdio::null())
            // A group of its own: Ctrl-C is for us, and we end it when the last job is settled.
            .process_group(0)
            .spawn()
    }
}

/// The running `keywork`; on Linux also when its file was replaced meanwhile.
pub(crate) fn own_executable() -> PathBuf {
    const SELF: &str = "/proc/self/exe";
    if Path::new(SELF).exists() {
        return SELF.into();
    }
    env::current_exe().unwrap_or_else(|_| "keywork".into())
}

/// Becomes nats-server, if the arguments of the process (with its name) say so.
///
/// `main` calls it before anything else; `None` means that this is an ordinary start.
pub fn run_if_asked(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    if args.next()? != SUBCOMMAND {
        return None;
    }
    let rest: Vec<OsString> = args.collect();
    let reason = match rest.as_slice() {
        [parent, server, config] => become_nats_server(parent, server.as_ref(), config.as_ref()),
        _ => "it is for keywork itself".into(),
    };
    eprintln!("keywork {SUBCOMMAND}: {reason}");
    Some(ExitCode::FAILURE)
}

/// Returns only when it fails, with the reason.
fn become_nats_server(parent: &OsString, server: &Path, config: &Path) -> String {
    if let Err(error) = die_with_parent() {
        return format!("failed to ask for the parent's death signal: {error}");
    }
    // It may have died before we asked.
    if *parent != *parent_id().to_string() {
        return "the keywork that started this has gone".into();
    }
    let error = Command::new(server).arg("--config").arg(config).exec();
    format!("failed to run {}: {error}", server.display())
}

/// Has the system send SIGTERM when the thread that spawned us ends; this outlives the exec.
#[cfg(target_os = "linux")]
fn die_with_parent() -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)
}

/// Other systems have nothing like it: there, a keywork that was killed leaves its nats-server
/// running, which holds the lock of the data directory until somebody ends it.
#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> nix::Result<()> {
    Ok(())
}
