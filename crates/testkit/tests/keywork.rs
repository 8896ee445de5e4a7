//! The Keywork server of the test kit, with a stand-in for its binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use keywork_testkit::KeyworkServer;
use tempfile::TempDir;

/// A script in the place of the `keywork` binary.
fn stand_in(script: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keywork");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (dir, path)
}

#[tokio::test]
#[should_panic(expected = "the port is taken")]
async fn a_start_that_fails_shows_what_was_written() {
    let (_dir, binary) = stand_in("echo 'the port is taken' >&2; exit 3");
    KeyworkServer::at(binary).start().await;
}

#[tokio::test]
async fn it_is_started_with_what_was_asked_and_ends_when_told() {
    // Python stands in for the port that it listens on.
    let (_dir, binary) = stand_in(
        r#"echo "$@ $COLOUR"
           exec python3 -c 'import socket, sys, time
host, port = sys.argv[1].split(":")
s = socket.create_server((host, int(port)))
time.sleep(60)' "$3""#,
    );
    let server = KeyworkServer::at(binary)
        .nats("nats://elsewhere")
        .env("COLOUR", "blue")
        .start()
        .await;
    let expected = format!(
        "serve --listen {} --nats-url nats://elsewhere blue",
        server.address()
    );
    assert_eq!(server.output().trim(), expected);
    assert!(server.terminate().await.is_some());
    assert_eq!(server.pid(), None);
    server.restart().await;
    server.kill();
}
