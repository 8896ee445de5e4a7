//! Steps of the scripted server: the SDK's fake one, told to misbehave.

use std::time::{Duration, Instant};

use keywork_sdk::{
    raw::{GoAwayReason, LostReason, SettlementOutcome},
    testing::{FakeServer, Seen, SubmitFault},
};
use serde_json::json;
use tokio::time::sleep;
use tonic::{Code, Status};

use super::{Played, Player, Stop, failed, queue::until};
use crate::scenario::{Lose, QueueSettings, Script, SeenWhat};

/// A server whose leases last as the scenario says.
pub(super) async fn start(settings: &QueueSettings) -> Result<FakeServer, String> {
    let mut builder = FakeServer::builder();
    if let Some(lease) = settings.lease_ms {
        builder = builder.lease_duration(Duration::from_millis(lease));
    }
    if let Some(grace) = settings.disconnect_grace_ms {
        builder = builder.disconnect_grace(Duration::from_millis(grace));
    }
    if let Some(wait) = settings.backoff_ms {
        builder = builder.retry_delay(Duration::from_millis(wait));
    }
    let started = builder.start().await;
    started.map_err(|error| format!("the scripted server did not start: {error}"))
}

impl Player<'_> {
    fn fake(&self) -> Result<&FakeServer, Stop> {
        match &self.fake {
            Some(fake) => Ok(fake),
            None => failed("only a scenario with the path `scripted` has a script"),
        }
    }

    pub(super) fn script(&mut self, script: &Script) -> Played {
        self.trace.note("script", &json!(format!("{script:?}")));
        let fake = self.fake()?;
        let script = &self.named(script);
        change(fake, script)?;
        if let Some(code) = &script.end_sessions {
            fake.end_sessions(status(code)?);
        }
        if let Some(reason) = &script.go_away {
            let reason = wire(reason, |name| {
                GoAwayReason::from_str_name(&format!("GO_AWAY_REASON_{name}"))
            })?;
            fake.go_away(reason, Duration::from_millis(script.reconnect_ms));
        }
        if let Some(Lose { key, reason, tell }) = &script.lose {
            let reason = wire(reason, |name| {
                LostReason::from_str_name(&format!("LOST_REASON_{name}"))
            })?;
            fake.lose_lease(&self.names.text("$queue"), key, reason, *tell);
        }
        Ok(())
    }

    /// The script with its names filled in.
    fn named(&self, script: &Script) -> Script {
        let texts = |texts: &[String]| texts.iter().map(|text| self.names.text(text)).collect();
        let text = |text: &Option<String>| text.as_ref().map(|text| self.names.text(text));
        Script {
            refuse_sessions: texts(&script.refuse_sessions),
            refuse_all: text(&script.refuse_all),
            settlement_answers: texts(&script.settlement_answers),
            submit_faults: texts(&script.submit_faults),
            end_sessions: text(&script.end_sessions),
            go_away: text(&script.go_away),
            lose: script.lose.as_ref().map(|lose| Lose {
                key: self.names.text(&lose.key),
                reason: self.names.text(&lose.reason),
                tell: lose.tell,
            }),
            ..script.clone()
        }
    }

    pub(super) fn seen_so_far(&self, what: SeenWhat) -> Result<usize, Stop> {
        Ok(count(&self.fake()?.seen(), what))
    }

    pub(super) async fn seen(
        &mut self,
        what: SeenWhat,
        least: usize,
        most: Option<usize>,
        within_ms: u64,
    ) -> Played {
        let fake = self.fake()?;
        let look = async || Some(json!(count(&fake.seen(), what)));
        let is_so =
            |found: &serde_json::Value| found.as_u64().is_some_and(|found| found >= least as u64);
        if let Err(found) = until(look, is_so, within_ms).await {
            return failed(format!("the server has seen {found} {what:?}, not {least}"));
        }
        let found = count(&fake.seen(), what);
        if most.is_some_and(|most| found > most) {
            return failed(format!(
                "the server has seen {found} {what:?}, more than {most:?}"
            ));
        }
        Ok(())
    }

    pub(super) async fn rate(
        &mut self,
        what: SeenWhat,
        least: usize,
        most: usize,
        for_ms: u64,
    ) -> Played {
        let fake = self.fake()?;
        let before = count(&fake.seen(), what);
        let begun = Instant::now();
        sleep(Duration::from_millis(for_ms)).await;
        let more = count(&fake.seen(), what) - before;
        let took = begun.elapsed();
        self.trace
            .note("rate", &json!({"what": format!("{what:?}"), "seen": more}));
        if (least..=most).contains(&more) {
            return Ok(());
        }
        failed(format!(
            "the server saw {more} {what:?} in {took:?}, not {least} to {most}"
        ))
    }
}

fn count(seen: &Seen, what: SeenWhat) -> usize {
    match what {
        SeenWhat::Streams => seen.streams,
        SeenWhat::Hellos => seen.hellos.len(),
        SeenWhat::Heartbeats => seen.heartbeats,
        SeenWhat::Settlements => seen.settlements.len(),
        SeenWhat::Delivered => seen.delivered.len(),
        SeenWhat::Drains => seen.drains,
        SeenWhat::Submits => seen.submits.len(),
        SeenWhat::Expired => seen.expired,
        SeenWhat::Sessions => seen.sessions,
    }
}

fn change(fake: &FakeServer, script: &Script) -> Played {
    let refused: Vec<Status> = statuses(&script.refuse_sessions)?;
    let always = script
        .refuse_all
        .as_ref()
        .map(|code| status(code))
        .transpose()?;
    let faults = script.submit_faults.iter().map(|name| fault(name));
    let faults: Vec<SubmitFault> = faults.collect::<Result<_, _>>()?;
    let answers = script.settlement_answers.iter().map(|name| {
        wire(name, |name| {
            SettlementOutcome::from_str_name(&format!("SETTLEMENT_OUTCOME_{name}"))
        })
    });
    let answers: Vec<SettlementOutcome> = answers.collect::<Result<_, _>>()?;
    fake.script(|now| {
        now.refuse_sessions.extend(refused);
        now.submit_faults.extend(faults);
        now.settlement_answers.extend(answers);
        set(&mut now.unwelcome_sessions, script.unwelcome_sessions);
        set(&mut now.ignore_heartbeats, script.ignore_heartbeats);
        set(
            &mut now.unconfirmed_heartbeats,
            script.unconfirmed_heartbeats,
        );
        set(&mut now.silent, script.silent);
        set(&mut now.beyond_capacity, script.beyond_capacity);
        set(
            &mut now.unanswered_settlements,
            script.unanswered_settlements,
        );
        set(&mut now.refuse_all_sessions, always);
    });
    Ok(())
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn fault(name: &str) -> Result<SubmitFault, Stop> {
    Ok(match name {
        "unavailable" => SubmitFault::Unavailable,
        "answer_lost" => SubmitFault::AnswerLost,
        "broken" => SubmitFault::Broken,
        code => match status(code)? {
            Some(status) => SubmitFault::Refused(status),
            None => return failed(format!("{code} is no fault of a submit")),
        },
    })
}

fn statuses(codes: &[String]) -> Result<Vec<Status>, Stop> {
    let all = codes.iter().map(|code| status(code));
    Ok(all
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect())
}

/// The status of a gRPC code's name; none for `OK` and for no name.
fn status(name: &str) -> Result<Option<Status>, Stop> {
    if name.is_empty() || name == "OK" {
        return Ok(None);
    }
    let mut codes = (1..=16).map(Code::from_i32);
    match codes.find(|code| plain(&format!("{code:?}")) == plain(name)) {
        Some(code) => Ok(Some(Status::new(code, "as the script says"))),
        None => failed(format!("there is no gRPC code {name}")),
    }
}

fn plain(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}

fn wire<T>(name: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, Stop> {
    match read(name) {
        Some(value) => Ok(value),
        None => failed(format!("the contract has no {name}")),
    }
}
