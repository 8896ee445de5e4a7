//! The client commands, as a shell sees them, against a fake server.

mod admin;
mod json_lines;
mod serve;
mod submits;
mod usage;
mod work;

use std::{
    io::Write,
    process::{Child, Command, Output, Stdio},
};

use keywork_sdk::{
    Submit,
    testing::{FakeServer, SubmitFault},
    worker::Worker,
};
use serde_json::Value;

type Tested = Result<(), Box<dyn std::error::Error>>;

fn keywork(server: &FakeServer, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keywork"));
    command.args(args).env("KEYWORK_SERVER", server.endpoint());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command to its end, away from the test's own runtime.
async fn run(server: &FakeServer, args: &[&str], stdin: impl AsRef<[u8]>) -> Output {
    let mut child = keywork(server, args).spawn().expect("the binary starts");
    let stdin = stdin.as_ref().to_owned();
    let ended = tokio::task::spawn_blocking(move || {
        let mut pipe = child.stdin.take().expect("stdin is piped");
        // A command that ends without reading has its reasons.
        let _ = pipe.write_all(&stdin);
        drop(pipe);
        child.wait_with_output()
    });
    ended.await.expect("no panic").expect("the command ends")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = text(&output.stdout);
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a JSON line"))
        .collect()
}

/// Ends the test, and not only its patience, where something never comes.
async fn within<T>(what: &str, coming: impl Future<Output = T>) -> T {
    match tokio::time::timeout(std::time::Duration::from_secs(20), coming).await {
        Ok(came) => came,
        Err(_) => panic!("waited in vain: {what}"),
    }
}
