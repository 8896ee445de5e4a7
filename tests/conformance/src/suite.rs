//! Playing every scenario with every SDK, a few at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    args::Args,
    play::{Ending, Player},
    say,
    scenario::{Route, Scenario},
    sdk::Sdk,
    world::World,
};

/// One scenario, one SDK, one path.
#[derive(Clone, Debug)]
struct Case {
    sdk: Arc<Sdk>,
    scenario: Arc<Scenario>,
    route: Route,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Fail {
        why: String,
        trace: String,
    },
    Skipped {
        why: String,
    },
    /// It failed, as the SDK's list says that it does.
    KnownFailing {
        why: String,
    },
}

impl Verdict {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail { .. } => "FAIL",
            Self::Skipped { .. } => "skipped",
            Self::KnownFailing { .. } => "known",
        }
    }

    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Pass => "",
            Self::Fail { why, .. } | Self::Skipped { why } | Self::KnownFailing { why } => why,
        }
    }
}

/// What came of a case.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) sdk: String,
    pub(crate) scenario: String,
    pub(crate) route: Route,
    pub(crate) verdict: Verdict,
    pub(crate) took: Duration,
}

/// Servers that no case uses at the moment.
#[derive(Debug, Default)]
struct Worlds(Mutex<Vec<World>>);

impl Worlds {
    async fn take(&self) -> World {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(world) => world,
            None => World::start().await,
        }
    }

    /// Takes a world back if both of its servers still run.
    fn give_back(&self, world: World) {
        let ended = world.server.ended().is_some();
        if ended || world.server.pid().is_none() || world.nats.pid().is_none() {
            return;
        }
        world.server.resume();
        world.nats.resume();
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(world);
    }
}

/// Plays everything that the arguments ask for. Within a `LocalSet`.
pub(crate) async fn run(
    args: &Args,
    sdks: &[Arc<Sdk>],
    scenarios: &[Arc<Scenario>],
) -> Vec<Record> {
    let worlds = Arc::new(Worlds::default());
    let permits = Arc::new(Semaphore::new(args.jobs.max(1)));
    let mut running = JoinSet::new();
    let mut ids = BTreeMap::new();
    for (number, case) in cases(args, sdks, scenarios).into_iter().enumerate() {
        let (worlds, permits, played) = (worlds.clone(), permits.clone(), case.clone());
        let task = running.spawn_local(async move {
            // The semaphore is never closed.
            let _permit = permits.acquire_owned().await;
            play(&played, number, &worlds).await
        });
        ids.insert(task.id(), case);
    }
    let mut records = Vec::new();
    while let Some(ended) = running.join_next_with_id().await {
        let record = match ended {
            Ok((_, record)) => record,
            Err(error) => panicked(&ids[&error.id()], error.to_string()),
        };
        tell(&record);
        records.push(record);
    }
    records
}

/// The long ones first, so that none of them is left for the end.
fn cases(args: &Args, sdks: &[Arc<Sdk>], scenarios: &[Arc<Scenario>]) -> Vec<Case> {
    let mut cases = Vec::new();
    for scenario in scenarios {
        for route in routes(args, scenario) {
            cases.extend(sdks.iter().map(|sdk| Case {
                sdk: sdk.clone(),
                scenario: scenario.clone(),
                route,
            }));
        }
    }
    cases.sort_by_key(|case| std::cmp::Reverse(case.scenario.seconds));
    cases
}

fn routes(args: &Args, scenario: &Scenario) -> Vec<Route> {
    let wanted = |route: &Route| match route {
        Route::Direct => !args.proxied,
        Route::Proxied => !args.direct,
        Route::Scripted => !args.direct && !args.proxied,
    };
    let routes = if args.quick {
        scenario.quick.into_iter().collect()
    } else {
        scenario.paths.clone()
    };
    routes.into_iter().filter(wanted).collect()
}

async fn play(case: &Case, number: usize, worlds: &Worlds) -> Record {
    let begun = Instant::now();
    let missing = case.scenario.needs.iter();
    let mut missing = missing.filter(|need| !case.sdk.capabilities.contains(need));
    let verdict = match missing.next() {
        Some(need) => Verdict::Skipped {
            why: format!("it has no `{need}`"),
        },
        None => judge(case, play_in_world(case, number, worlds).await),
    };
    Record {
        sdk: case.sdk.name.clone(),
        scenario: case.scenario.id.clone(),
        route: case.route,
        verdict,
        took: begun.elapsed(),
    }
}

async fn play_in_world(case: &Case, number: usize, worlds: &Worlds) -> Ending {
    let world = worlds.take().await;
    let queue = format!("{}-{}-{number}", case.sdk.name, case.scenario.id).to_lowercase();
    let ending = match Player::new(&case.scenario, &case.sdk, case.route, &world, &queue).await {
        Ok(player) => player.play().await,
        Err(why) => Ending::Failed {
            why,
            trace: String::new(),
        },
    };
    worlds.give_back(world);
    ending
}

/// A known failure must fail.
fn judge(case: &Case, ending: Ending) -> Verdict {
    let known = case.sdk.known(&case.scenario.id);
    match (ending, known) {
        (Ending::Passed, None) => Verdict::Pass,
        (Ending::Passed, Some(reason)) => Verdict::Fail {
            why: format!("it passed, and is listed as known failing: {reason}"),
            trace: String::new(),
        },
        (Ending::Failed { .. }, Some(reason)) => Verdict::KnownFailing {
            why: reason.to_owned(),
        },
        (Ending::Failed { why, trace }, None) => Verdict::Fail { why, trace },
        (Ending::Skipped(why), _) => Verdict::Skipped { why },
    }
}

fn panicked(case: &Case, why: String) -> Record {
    Record {
        sdk: case.sdk.name.clone(),
        scenario: case.scenario.id.clone(),
        route: case.route,
        verdict: Verdict::Fail {
            why,
            trace: String::new(),
        },
        took: Duration::ZERO,
    }
}

fn tell(record: &Record) {
    let Record {
        sdk,
        scenario,
        route,
        verdict,
        took,
    } = record;
    let (word, why) = (verdict.word(), verdict.why());
    let seconds = took.as_secs_f64();
    say(&format!(
        "{word:<8} {sdk:<11} {scenario:<5} {:<9} {seconds:>6.1} s  {why}",
        route.name()
    ));
    if let Verdict::Fail { trace, .. } = verdict {
        say(trace);
    }
}
