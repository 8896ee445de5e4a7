//! The Rust SDK's worker-under-test: reads commands from stdin, writes events to stdout, one JSON object a line.
//!
//! The protocol is in `tests/conformance/README.md`. Nothing here decides anything: what the runner sees is what
//! the SDK does.

mod calls;
mod command;
mod desk;
mod emit;
mod handlers;
mod intercept;
mod submits;
mod work;

use std::{process::ExitCode, sync::Arc};

use keywork_sdk::{Client, Worker};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader, stdin},
    runtime::Runtime,
    task::JoinSet,
};

use command::{Command, Connect, Envelope};
use desk::Desk;
use emit::{emit, fault, refuse};

/// What scenarios may ask of this SDK.
const CAPABILITIES: &[&str] = &[
    "worker",
    "submit",
    "submit_many",
    "call",
    "burn",
    "settled_event",
    "signals",
    "interceptors",
    "trace",
];

fn main() -> ExitCode {
    emit(&json!({
        "event": "hello",
        "sdk": "rust",
        "version": env!("CARGO_PKG_VERSION"),
        "runtime": "tokio",
        "capabilities": CAPABILITIES,
    }));
    if std::env::args().any(|argument| argument == "--list-capabilities") {
        return ExitCode::SUCCESS;
    }
    match Runtime::new() {
        Ok(runtime) => {
            let code = runtime.block_on(Program::default().run());
            // A thread may still wait for a line from stdin.
            runtime.shutdown_background();
            code
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// The client and the worker that commands have made so far.
#[derive(Default)]
struct Program {
    client: Option<Client>,
    worker: Option<Worker>,
    desk: Arc<Desk>,
    /// Calls under way.
    calls: JoinSet<()>,
    /// The worker's `run()`, with the process's exit code.
    running: JoinSet<ExitCode>,
}

impl Program {
    async fn run(mut self) -> ExitCode {
        let mut lines = BufReader::new(stdin()).lines();
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { return ExitCode::SUCCESS };
                    let Some(Envelope { call, command }) = Envelope::read(&line) else { continue };
                    if matches!(command, Command::Exit) {
                        return ExitCode::SUCCESS;
                    }
                    self.obey(call, command);
                }
                Some(code) = self.running.join_next() => return code.unwrap_or(ExitCode::FAILURE),
                Some(_) = self.calls.join_next() => {}
            }
        }
    }

    fn obey(&mut self, call: String, command: Command) {
        match command {
            Command::Connect(connect) => self.connect(&call, connect),
            Command::Start(start) => match self.client.clone() {
                Some(client) => {
                    let worker = work::build(client, start, self.desk.clone());
                    self.worker = Some(worker.clone());
                    self.running.spawn(work::run(worker));
                }
                None => not_connected(&call),
            },
            Command::Submit(one) => {
                self.beside(call, |client, call| submits::one(client, call, one))
            }
            Command::SubmitMany(many) => {
                self.beside(call, |client, call| submits::many(client, call, many));
            }
            Command::Throughput(much) => {
                self.beside(call, |client, call| submits::throughput(client, call, much));
            }
            Command::Call(rpc) => self.beside(call, |client, call| calls::run(client, call, rpc)),
            Command::Finish(finish) => {
                if !self.desk.finish(finish) {
                    refuse(&call, "NOT_WAITING", "no handler of this key waits");
                }
            }
            Command::Drain => self.with_worker(&call, |worker| worker.drain()),
            Command::ReleaseAll => self.with_worker(&call, |worker| worker.release_all()),
            Command::Healthy => self.with_worker(&call, |worker| {
                emit(&json!({"event": "healthy", "call": call, "value": worker.healthy()}));
            }),
            Command::Stats => self.with_worker(&call, |worker| work::tell_stats(worker, &call)),
            Command::Exit => {}
        }
    }

    fn connect(&mut self, call: &str, connect: Connect) {
        match connect.client() {
            Ok(client) => {
                self.client = Some(client);
                emit(&json!({"event": "connected", "call": call}));
            }
            Err(error) => fault(call, &error),
        }
    }

    /// Runs a call beside whatever comes next.
    fn beside<F>(&mut self, call: String, start: impl FnOnce(Client, String) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match self.client.clone() {
            Some(client) => drop(self.calls.spawn(start(client, call))),
            None => not_connected(&call),
        }
    }

    fn with_worker(&self, call: &str, act: impl FnOnce(&Worker)) {
        match &self.worker {
            Some(worker) => act(worker),
            None => refuse(call, "UNSUPPORTED", "no worker was started"),
        }
    }
}

fn not_connected(call: &str) {
    refuse(call, "UNSUPPORTED", "connect comes first");
}
