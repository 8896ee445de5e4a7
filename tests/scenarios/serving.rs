//! `keywork serve`: what it says when it cannot start, and the NATS that it brings along.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Output, Stdio},
};

use keywork::proto::SettlementOutcome;
use keywork_testkit::{KeyworkServer, NatsServer, eventually, free_port, nats_server_binary};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{net::TcpStream, process::Command, time::timeout};

use crate::support::{
    KEYWORK, SOON, ack, client, complete, create, job, make_queue, offer, pull, short_lease, submit,
};

/// Runs `keywork serve` to its end, which must come by itself.
async fn serve(args: &[&str]) -> Output {
    let command = Command::new(KEYWORK)
        .arg("serve")
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(SOON * 2, command).await;
    output.expect("an end in time").expect("keywork runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What it said beside its log, which must be one line.
fn one_line(output: &Output) -> String {
    let text = stderr(output);
    let said: Vec<&str> = text.lines().filter(|line| !is_log(line)).collect();
    assert_eq!(said.len(), 1, "one clear line: {text}");
    assert!(!text.contains("panicked"), "{text}");
    said[0].to_owned()
}

fn is_log(line: &str) -> bool {
    ["INFO", "WARN", "ERROR"]
        .iter()
        .any(|level| line.contains(&format!(" {level} ")))
}

#[tokio::test(flavor = "multi_thread")]
async fn all_wrong_settings_are_reported_at_once_and_no_port_is_bound() {
    let port = free_port();
    // Held, so that binding it would be told as a fault of its own.
    let _held = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
    let listen = format!("127.0.0.1:{port}");
    let output = serve(&[
        "--listen",
        &listen,
        "--replicas",
        "2",
        "--stop-grace",
        "soon",
        "--subject-prefix",
        "Not.A.Prefix",
    ])
    .await;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let text = stderr(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    for (flag, value) in [
        ("--replicas", "2"),
        ("--stop-grace", "soon"),
        ("--subject-prefix", ""),
    ] {
        let line = lines.iter().find(|line| line.starts_with(flag));
        assert!(line.is_some_and(|l| l.contains(value)), "{flag}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_told_before_anything_is_started() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let held = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let listen = held.local_addr().expect("an address").to_string();
    let args = ["--listen", &listen, "--data-dir", path(&data)];
    let output = serve(&args).await;
    assert_eq!(output.status.code(), Some(1));
    let line = one_line(&output);
    assert!(line.contains(&listen), "{line}");
    assert!(line.starts_with("failed to listen"), "{line}");
    assert!(!data.exists(), "nothing is made for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_that_cannot_be_used_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("a-file");
    fs::write(&file, "").expect("a file");
    let data = file.join("below");
    let binary = nats_server_binary();
    let args = [
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        path(&data),
        "--nats-server",
        path(&binary),
    ];
    let output = serve(&args).await;
    assert_eq!(output.status.code(), Some(1));
    let line = one_line(&output);
    assert!(line.contains(path(&data)), "{line}");
    assert!(line.starts_with("failed to"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nats_server_that_is_not_there_or_no_nats_server_is_told() {
    for (binary, named) in [
        ("/nowhere/nats-server", "/nowhere"),
        ("/bin/true", "/bin/true"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        let args = ["--data-dir", path(&data), "--nats-server", binary];
        let output = serve(&[&args[..], &["--listen", "127.0.0.1:0"]].concat()).await;
        assert_eq!(output.status.code(), Some(1));
        let line = one_line(&output);
        assert!(line.contains(named), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nats_that_cannot_be_reached_is_told() {
    let url = format!("nats://127.0.0.1:{}", free_port());
    let args = ["--nats-url", &url, "--listen", "127.0.0.1:0"];
    let output = serve(&[&args[..], &["--nats-connect-within", "1s"]].concat()).await;
    assert_eq!(output.status.code(), Some(1));
    let line = one_line(&output);
    assert!(line.contains(&url), "{line}");
    assert!(line.starts_with("failed to reach NATS"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nats_that_refuses_the_credential_or_has_no_jetstream_is_told() {
    let guarded = NatsServer::start().await;
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("bare.conf");
    let port = free_port();
    fs::write(&config, format!("listen: \"127.0.0.1:{port}\"")).expect("a file");
    let bare = Command::new(nats_server_binary())
        .arg("--config")
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    let _bare = bare.expect("nats-server runs");
    eventually(SOON, "nats-server listens", async || {
        TcpStream::connect(("127.0.0.1", port)).await.is_ok()
    })
    .await;
    let url = format!("nats://127.0.0.1:{port}");
    let output = serve(&["--nats-url", &url, "--listen", "127.0.0.1:0"]).await;
    assert_eq!(output.status.code(), Some(1));
    let line = one_line(&output);
    assert!(line.contains("JetStream"), "{line}");

    let missing = dir.path().join("missing.creds");
    let url = guarded.url();
    let args = ["--nats-url", &url, "--nats-credentials", path(&missing)];
    let output = serve(&[&args[..], &["--listen", "127.0.0.1:0"]].concat()).await;
    assert_eq!(output.status.code(), Some(1));
    let line = one_line(&output);
    assert!(line.contains("credentials"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_server_that_still_waits_for_its_nats() {
    let url = format!("nats://127.0.0.1:{}", free_port());
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut waiting = Command::new(KEYWORK)
        .args(["serve", "--listen", &listen, "--nats-url", &url])
        .args(["--nats-connect-within", "5m"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("keywork runs");
    eventually(SOON, "it has begun to start", async || {
        TcpStream::connect(&listen).await.is_ok()
    })
    .await;
    let pid = waiting.id().expect("it runs").cast_signed();
    kill(Pid::from_raw(pid), Signal::SIGTERM).expect("a signal");
    let status = timeout(SOON, waiting.wait()).await.expect("an end in time");
    assert!(
        status.expect("its status").success(),
        "it was asked to stop"
    );
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// A server with a NATS of its own, on this data directory.
async fn embedded(data: &Path) -> KeyworkServer {
    KeyworkServer::at(KEYWORK)
        .arg("--data-dir")
        .arg(data)
        .arg("--nats-server")
        .arg(nats_server_binary())
        .start()
        .await
}

/// The process of the nats-server that a server started.
fn nats_of(server: &KeyworkServer) -> Option<u32> {
    let pid = server.pid()?;
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let children = tasks.flatten().filter_map(|task| {
        let children = fs::read_to_string(task.path().join("children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    });
    children.filter(|child| is_nats(*child)).last()
}

fn is_nats(pid: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    name.trim() == "nats-server" && !status.contains("State:\tZ")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_nats_keeps_its_jobs_and_never_outlives_its_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let server = embedded(&data).await;
    // A single NATS that was killed forgets leases: what is old waits for a while, by the lease's length.
    make_queue(&server, "kept", short_lease()).await;
    let mut first = client(&server).await;
    let kept = create(&mut first, "kept", "k").await;
    // Synced every second: what is answered survives the end of the process, if not of the machine.
    let nats = nats_of(&server).expect("a nats-server of its own");
    server.kill();
    eventually(SOON, "no orphan is left", async || !is_nats(nats)).await;

    server.restart().await;
    let mut again = client(&server).await;
    let seen = job(&mut again, "kept", "k")
        .await
        .expect("the job is there");
    assert_eq!(seen.id, kept.id);
    let (outcome, holder) = offer(&mut again, submit("kept", "k", "again")).await;
    assert_eq!(outcome, keywork::proto::SubmitOutcome::AlreadyOutstanding);
    assert_eq!(holder.id, kept.id);
    let leased = pull(&mut again, "kept", SOON * 2)
        .await
        .expect("it is served");
    assert_eq!(leased.attempt, 1);
    let settled = ack(&mut again, &leased.lease_token, complete()).await;
    assert_eq!(settled, SettlementOutcome::Settled);

    create(&mut again, "kept", "second").await;
    let nats = nats_of(&server).expect("a nats-server of its own");
    let status = server.terminate().await.expect("it ran");
    assert!(status.success(), "{status}");
    assert!(!is_nats(nats), "it ends with its server, not after it");

    server.restart().await;
    let mut last = client(&server).await;
    assert!(
        job(&mut last, "kept", "k").await.is_none(),
        "it was settled"
    );
    assert!(job(&mut last, "kept", "second").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_nats_that_is_killed_comes_back_with_its_jobs() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = embedded(dir.path()).await;
    let mut client = client(&server).await;
    create(&mut client, "back", "k").await;
    let nats = nats_of(&server).expect("a nats-server of its own");
    kill(Pid::from_raw(nats.cast_signed()), Signal::SIGKILL).expect("a signal");
    eventually(SOON, "another one runs", async || {
        nats_of(&server).is_some_and(|now| now != nats)
    })
    .await;
    eventually(SOON, "keys are taken again", async || {
        client.submit(submit("back", "other", "x")).await.is_ok()
    })
    .await;
    assert!(job(&mut client, "back", "k").await.is_some());
}
