//! The embedded nats-server: it works, it is private, it comes back, and it never stays behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use async_nats::{ConnectOptions, jetstream};
use keywork::embedded::{Embedded, EmbeddedError, Settings};
use keywork_testkit::{eventually, nats_server_binary};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const KEYWORK: &str = env!("CARGO_BIN_EXE_keywork");
const SOON: Duration = Duration::from_secs(10);

fn settings(data_dir: &Path) -> Settings {
    Settings {
        nats_server: Some(nats_server_binary()),
        keywork: Some(KEYWORK.into()),
        ..Settings::new(data_dir)
    }
}

async fn connect(embedded: &Embedded) -> jetstream::Context {
    let credential = embedded.credential().clone();
    let options = ConnectOptions::with_user_and_password(credential.user, credential.password);
    jetstream::new(options.connect(embedded.url()).await.unwrap())
}

async fn store_one(embedded: &Embedded) {
    let context = connect(embedded).await;
    let config = jetstream::stream::Config {
        name: "KEPT".into(),
        subjects: vec!["kept".into()],
        ..Default::default()
    };
    context.get_or_create_stream(config).await.unwrap();
    context
        .publish("kept", "x".into())
        .await
        .unwrap()
        .await
        .unwrap();
}

async fn stored(embedded: &Embedded) -> u64 {
    let stream = connect(embedded).await.get_stream("KEPT").await.unwrap();
    stream.cached_info().state.messages
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
}

/// Whether a process with that id runs; one that waits to be reaped does not.
fn runs(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

/// A script that stands in for a nats-server.
fn script(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("stand-in");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn it_keeps_what_was_stored_across_a_stop_and_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("not/made/yet");
    let embedded = Embedded::start(settings(&data)).await.unwrap();
    store_one(&embedded).await;
    assert!(data.join("jetstream").is_dir());
    let pid = embedded.pid().unwrap();
    embedded.stop(SOON).await;
    assert!(!runs(pid));

    let embedded = Embedded::start(settings(&data)).await.unwrap();
    assert_eq!(stored(&embedded).await, 1);
    embedded.stop(SOON).await;
}

#[tokio::test]
async fn it_is_open_to_its_own_keywork_alone() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(settings(dir.path())).await.unwrap();
    assert!(async_nats::connect(embedded.url()).await.is_err());

    let config = dir.path().join("nats-server.conf");
    assert_eq!(
        fs::metadata(&config).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let password = &embedded.credential().password;
    assert!(fs::read_to_string(&config).unwrap().contains(password));
    let command_line = fs::read_to_string(format!("/proc/{}/cmdline", embedded.pid().unwrap()));
    assert!(!command_line.unwrap().contains(password));
    assert!(!format!("{embedded:?}").contains(password));
}

#[tokio::test]
async fn it_comes_back_on_the_same_port_when_it_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(settings(dir.path())).await.unwrap();
    store_one(&embedded).await;
    let (url, pid) = (embedded.url(), embedded.pid().unwrap());

    signal(pid, Signal::SIGKILL);
    eventually(SOON, "another nats-server runs", async || {
        embedded.pid().is_some_and(|now| now != pid)
    })
    .await;
    assert_eq!(embedded.url(), url);
    eventually(SOON, "it listens again", async || {
        tokio::net::TcpStream::connect(url.trim_start_matches("nats://"))
            .await
            .is_ok()
    })
    .await;
    assert_eq!(stored(&embedded).await, 1);
}

#[tokio::test]
async fn a_data_directory_belongs_to_one_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let first = Embedded::start(settings(dir.path())).await.unwrap();
    let refused = Embedded::start(settings(dir.path())).await.unwrap_err();
    assert!(matches!(refused, EmbeddedError::InUse { .. }), "{refused}");
    // The refused one has harmed nothing.
    store_one(&first).await;
}

#[tokio::test]
async fn dropping_it_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(settings(dir.path())).await.unwrap();
    let pid = embedded.pid().unwrap();
    drop(embedded);
    eventually(SOON, "nats-server has ended", async || !runs(pid)).await;
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let with = |nats_server: PathBuf, data_dir: PathBuf| Settings {
        nats_server: Some(nats_server),
        ..settings(&data_dir)
    };
    let data = dir.path().join("data");

    let absent = Embedded::start(with(dir.path().join("absent"), data.clone())).await;
    assert!(
        matches!(absent, Err(EmbeddedError::NoVersion { .. })),
        "{absent:?}"
    );

    let old = script(dir.path(), "echo 'nats-server: v2.13.9'");
    let refused = Embedded::start(with(old, data.clone())).await.unwrap_err();
    assert!(matches!(refused, EmbeddedError::TooOld { .. }), "{refused}");
    assert!(refused.to_string().contains("2.13.9"), "{refused}");

    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let no_dir = Embedded::start(with(nats_server_binary(), file)).await;
    assert!(
        matches!(no_dir, Err(EmbeddedError::DataDir { .. })),
        "{no_dir:?}"
    );

    let broken = script(
        dir.path(),
        "[ $1 = --version ] && echo 'nats-server: v2.15.1'; exit 7",
    );
    let failed = Embedded::start(with(broken, data)).await.unwrap_err();
    assert!(matches!(failed, EmbeddedError::Start { .. }), "{failed}");
    assert!(failed.to_string().contains('7'), "{failed}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_nats_server_stays_behind_when_its_parent_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("nats.conf");
    fs::write(&config, "listen: \"127.0.0.1:-1\"").unwrap();
    // The shell stands in for a keywork that is killed; it says which process it started.
    let mut shell = Command::new("sh")
        .arg("-c")
        .arg(r#""$0" embedded-nats $$ "$1" "$2" 2>/dev/null & echo $!; wait"#)
        .arg(KEYWORK)
        .arg(nats_server_binary())
        .arg(&config)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    let name = format!("/proc/{pid}/comm");
    eventually(SOON, "the child has become nats-server", async || {
        fs::read_to_string(&name).is_ok_and(|name| name.trim() == "nats-server")
    })
    .await;

    shell.kill().unwrap();
    shell.wait().unwrap();
    eventually(SOON, "nats-server has ended with its parent", async || {
        !runs(pid)
    })
    .await;
}

#[test]
fn a_child_whose_parent_has_gone_starts_nothing() {
    let ended = Command::new(KEYWORK)
        .args(["embedded-nats", "1", "/bin/echo", "started"])
        .output()
        .unwrap();
    assert!(!ended.status.success());
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "");
}
