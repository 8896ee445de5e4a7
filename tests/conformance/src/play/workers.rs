//! Steps that speak to worker processes.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};

use super::{Played, Player, Stop, failed};
use crate::{
    process::Process,
    scenario::{Ask, Connect, Finish, Route, Start, Tell},
    trace::Filter,
};

/// How long a process may take to start and to connect: some runtimes are slow on a busy machine.
const START: Duration = Duration::from_secs(30);
/// Commands whose queue is the scenario's, where they do not say otherwise.
const ABOUT_A_QUEUE: [&str; 3] = ["submit", "submit_many", "throughput"];

impl Player<'_> {
    pub(super) async fn start(&mut self, start: &Start) -> Played {
        let worker = self.names.text(&start.worker);
        self.connect_as(&worker, start.via, &start.client).await?;
        let mut command = json!({
            "do": "start",
            "queues": start.queues.as_ref().map_or_else(|| json!(["$queue"]), Value::clone),
            "concurrency": start.concurrency,
        });
        let options = [
            ("worker_id", start.worker_id.clone().map(Value::from)),
            (
                "shutdown_grace_ms",
                start.shutdown_grace_ms.map(Value::from),
            ),
            ("handler", start.handler.clone().map(Value::from)),
            ("interceptors", start.interceptors.map(Value::from)),
        ];
        for (name, value) in options {
            if let Some(value) = value {
                command[name] = self.filled(&value);
            }
        }
        let command = self.filled(&command);
        self.send(&worker, command).await?;
        if start.ready {
            let ready = json!({"event": "state", "state": "ready"});
            self.await_event(Some(&worker), ready, START).await?;
        }
        Ok(())
    }

    pub(super) async fn connect(&mut self, connect: &Connect) -> Played {
        self.connect_as(&connect.worker, connect.via, &connect.client)
            .await
    }

    async fn connect_as(
        &mut self,
        name: &str,
        via: Option<Route>,
        client: &Map<String, Value>,
    ) -> Played {
        let process = Process::start(name, &self.sdk.run, &self.sdk.root, self.trace.clone());
        let process = match process {
            Ok(process) => process,
            Err(error) => return failed(format!("failed to start {name}: {error}")),
        };
        // A name may be used again once its process has ended.
        self.workers.insert(name.to_owned(), process);
        self.await_event(Some(name), json!({"event": "hello"}), START)
            .await?;
        let mut command = self.names.fill_members(client);
        command.insert("do".into(), "connect".into());
        if !command.contains_key("endpoints") {
            command.insert("endpoints".into(), json!([self.endpoint(via)]));
        }
        self.send(name, Value::Object(command)).await?;
        self.await_event(Some(name), json!({"event": "connected"}), START)
            .await
    }

    fn endpoint(&self, via: Option<Route>) -> String {
        match via.unwrap_or(self.route) {
            Route::Direct => self.world.server.endpoint(),
            Route::Proxied => format!("http://{}", self.proxy.address()),
            Route::Scripted => self
                .fake
                .as_ref()
                .map(|fake| fake.endpoint().to_owned())
                .unwrap_or_default(),
        }
    }

    pub(super) async fn tell(&mut self, tell: &Tell) -> Played {
        let command = self.command(&tell.command);
        self.send(&tell.worker, command).await
    }

    /// The command with its names filled in, and with the scenario's queue where it names none.
    fn command(&self, command: &Map<String, Value>) -> Value {
        let mut command = self.names.fill_members(command);
        let queue = self.names.fill(&json!("$queue"));
        let what = command
            .get("do")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if ABOUT_A_QUEUE.contains(&what) {
            command.entry("queue").or_insert(queue);
        } else if what == "call" {
            let args = command.entry("args").or_insert_with(|| json!({}));
            if let Some(args) = args.as_object_mut() {
                args.entry("queue").or_insert(queue);
            }
        }
        Value::Object(command)
    }

    pub(super) async fn ask(&mut self, ask: &Ask) -> Played {
        self.calls += 1;
        let call = format!("c{}", self.calls);
        let mut command = self.command(&ask.command);
        command["call"] = json!(call);
        self.send(&ask.worker, command).await?;
        let filter = Filter {
            worker: Some(ask.worker.clone()),
            see: json!({"call": call}),
            from: 0,
        };
        let within = Duration::from_millis(ask.within_ms);
        let Some((_, answer)) = self.trace.take(&filter, within).await else {
            return failed(format!(
                "{} was not answered within {} ms",
                json!(ask.command),
                ask.within_ms
            ));
        };
        let see = self.filled(&ask.see);
        if !crate::pattern::matches(&see, &answer.event) {
            return match unsupported(&answer.event) {
                Some(what) => Err(Stop::Unsupported(what)),
                None => failed(format!("the answer {} is not {see}", answer.event)),
            };
        }
        self.save(&ask.save, &answer.event);
        Ok(())
    }

    pub(super) async fn finish(&mut self, finish: &Finish) -> Played {
        for key in &finish.keys {
            let mut command =
                json!({"do": "finish", "key": self.names.text(key), "with": finish.with});
            if let Some(delay) = finish.delay_ms {
                command["delay_ms"] = json!(delay);
            }
            if let Some(text) = &finish.text {
                command["text"] = json!(text);
            }
            self.send(&finish.worker, command).await?;
        }
        Ok(())
    }

    pub(super) fn signal(&mut self, worker: &str, signal: &str) -> Played {
        let Some(process) = self.workers.get(worker) else {
            return failed(format!("there is no worker {worker}"));
        };
        let Ok(signal) = format!("SIG{signal}").parse::<Signal>() else {
            return failed(format!("there is no signal {signal}"));
        };
        process.signal(signal);
        Ok(())
    }

    pub(super) async fn send(&mut self, worker: &str, command: Value) -> Played {
        match self.workers.get_mut(worker) {
            Some(process) => {
                process.send(&command).await;
                Ok(())
            }
            None => failed(format!("there is no worker {worker}")),
        }
    }
}

/// What a worker-under-test says that it cannot do.
pub(super) fn unsupported(event: &Value) -> Option<String> {
    (event["event"] == "error" && event["code"] == "UNSUPPORTED").then(|| {
        let message = event["message"].as_str().unwrap_or_default();
        format!("the worker-under-test does not support it: {message}")
    })
}
