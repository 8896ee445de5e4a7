//! Playing one scenario with one SDK: its steps in order, then the laws over the whole trace.

mod events;
mod figures;
mod queue;
mod scripted;
mod workers;
mod world;

pub(crate) use figures::Figure;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use keywork_sdk::{Client, testing::FakeServer};
use keywork_testkit::FaultProxy;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    laws,
    pattern::Names,
    process::Process,
    scenario::{Route, Scenario, Step},
    sdk::Sdk,
    trace::{Filter, Trace},
    world::{World, client},
};

/// How long a process may take to end after its stdin has.
const GOODBYE: Duration = Duration::from_secs(5);

/// Why a scenario was not played to its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something was not as the scenario says.
    Failed(String),
    /// The worker-under-test lacks something.
    Unsupported(String),
}

pub(crate) type Played = Result<(), Stop>;

/// How it went.
#[derive(Debug)]
pub(crate) enum Ending {
    Passed,
    Failed { why: String, trace: String },
    Skipped(String),
}

/// One scenario being played.
pub(crate) struct Player<'a> {
    scenario: &'a Scenario,
    sdk: &'a Sdk,
    route: Route,
    world: &'a World,
    proxy: FaultProxy,
    fake: Option<FakeServer>,
    /// The runner's own, straight to the server.
    client: Client,
    trace: Arc<Trace>,
    names: Names,
    workers: BTreeMap<String, Process>,
    calls: u64,
}

impl<'a> Player<'a> {
    pub(crate) async fn new(
        scenario: &'a Scenario,
        sdk: &'a Sdk,
        route: Route,
        world: &'a World,
        queue: &str,
    ) -> Result<Self, String> {
        let proxy = FaultProxy::start_http2(world.server.address()).await;
        let fake = match route {
            Route::Scripted => Some(scripted::start(&scenario.queue).await?),
            Route::Direct | Route::Proxied => None,
        };
        let endpoint = fake.as_ref().map_or_else(
            || world.server.endpoint(),
            |fake| fake.endpoint().to_owned(),
        );
        let client = client(&endpoint).map_err(|error| error.to_string())?;
        let mut names = Names::default();
        names.set("queue", json!(queue));
        Ok(Self {
            scenario,
            sdk,
            route,
            world,
            proxy,
            fake,
            client,
            trace: Arc::new(Trace::new()),
            names,
            workers: BTreeMap::new(),
            calls: 0,
        })
    }

    /// Plays it, and tells how it went.
    pub(crate) async fn play(mut self) -> Ending {
        let mut played = self.make_queue().await;
        if played.is_ok() {
            played = self.steps(&self.scenario.steps).await;
        }
        let farewell = self.end_workers().await;
        let broken = laws::broken(&self.trace.entries());
        let why = match played {
            Err(Stop::Unsupported(what)) => return Ending::Skipped(what),
            Err(Stop::Failed(why)) => Some(why),
            Ok(()) => farewell.or_else(|| (!broken.is_empty()).then(|| broken.join("; "))),
        };
        match why {
            None => Ending::Passed,
            Some(why) => Ending::Failed {
                why,
                trace: self.full_trace(),
            },
        }
    }

    async fn steps(&mut self, steps: &[Step]) -> Played {
        for (number, step) in steps.iter().enumerate() {
            // Steps can hold steps.
            Box::pin(self.step(step)).await.map_err(|stop| match stop {
                Stop::Failed(why) => Stop::Failed(format!("step {}: {why}", number + 1)),
                Stop::Unsupported(_) => stop,
            })?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Played {
        match step {
            Step::Start(start) => self.start(start).await,
            Step::Connect(connect) => self.connect(connect).await,
            Step::Tell(tell) => self.tell(tell).await,
            Step::Ask(ask) => self.ask(ask).await,
            Step::Finish(finish) => self.finish(finish).await,
            Step::Signal { worker, signal } => self.signal(worker, signal),
            Step::Expect(expect) => self.expect(expect).await,
            Step::Never(never) => self.never(never).await,
            Step::Quiet { for_ms, never } => self.quiet(*for_ms, never).await,
            Step::Mark { label } => {
                self.trace.label(label, None);
                Ok(())
            }
            Step::Submit(submit) => self.submit(submit).await,
            Step::Admin(admin) => self.admin(admin).await,
            Step::Job {
                key,
                state,
                attempt,
                within_ms,
            } => self.job(key, state, *attempt, *within_ms).await,
            Step::Left {
                outstanding,
                dead,
                within_ms,
            } => self.left(*outstanding, *dead, *within_ms).await,
            Step::Server { what } => self.server(*what).await,
            Step::Nats { what } => self.nats(*what).await,
            Step::Proxy { mode, ms } => self.set_proxy(*mode, *ms),
            Step::Script(script) => self.script(script),
            Step::Seen {
                what,
                least,
                most,
                more,
                within_ms,
            } => {
                let least = match more {
                    0 => *least,
                    more => self.seen_so_far(*what)? + more,
                };
                self.seen(*what, least, *most, *within_ms).await
            }
            Step::Rate {
                what,
                least,
                most,
                for_ms,
            } => self.rate(*what, *least, *most, *for_ms).await,
            Step::Repeat { over, steps } => self.repeat(over, steps).await,
        }
    }

    async fn repeat(&mut self, over: &[Value], steps: &[Step]) -> Played {
        for it in over {
            let it = self.filled(it);
            self.names.set("it", it);
            self.steps(steps).await?;
        }
        Ok(())
    }

    /// Ends every process that still runs, by its stdin; says which of them did not end.
    async fn end_workers(&mut self) -> Option<String> {
        let mut stuck = None;
        for (name, process) in &mut self.workers {
            if process.has_ended() {
                continue;
            }
            process.signal(Signal::SIGCONT);
            process.close();
            let filter = Filter {
                worker: Some(name.clone()),
                see: json!({"event": "exit"}),
                from: 0,
            };
            if self.trace.take(&filter, GOODBYE).await.is_none() {
                stuck = Some(format!("{name} did not end within 5 s after its stdin had"));
            }
        }
        stuck
    }

    /// The trace, with what workers wrote to stderr.
    fn full_trace(&self) -> String {
        let mut text = self.trace.print();
        for (name, process) in &self.workers {
            for line in process.log() {
                text.push_str(&format!("     {name} stderr: {line}\n"));
            }
        }
        text
    }

    fn filled(&self, value: &Value) -> Value {
        self.names.fill(value)
    }
}

/// A failure, as a step ends with it.
pub(crate) fn failed<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(why.into()))
}
