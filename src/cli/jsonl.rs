//! `keywork submit --jsonl`: offers many jobs, one JSON object a line, on one stream.
//!
//! Lines are read as fast as they are answered; a bad line or a refused job spoils no other.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read as _},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::StreamExt;
use keywork_model::limits;
use keywork_sdk::{Client, Error, Submit, SubmitOutcome};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    duration,
    failure::{Doing, Failure, Kind},
    output::{Output, thousands},
    submit::{Args, Conflict, Options, error_json, outcome_json, request_id, time},
};

/// Lines read ahead.
const AHEAD: usize = 1_024;
/// The longest line. A payload of a MiB takes at most six times its size.
const LINE_BYTES: usize = 16 << 20;
/// How often progress is shown.
const PROGRESS: Duration = Duration::from_millis(200);

/// One line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    payload: Option<String>,
    payload_base64: Option<String>,
    #[serde(default)]
    attributes: HashMap<String, String>,
    content_type: Option<String>,
    request_id: Option<String>,
    delay: Option<String>,
    start_at: Option<String>,
    expires_at: Option<String>,
    max_attempts: Option<u32>,
    on_conflict: Option<Conflict>,
}

impl Line {
    /// What the line offers; `options` hold where it does not say otherwise.
    fn submit(self, queue: &str, options: &Options) -> Result<Submit, String> {
        let starts = self.delay.is_some() || self.start_at.is_some();
        let options = if starts {
            &options.without_start()
        } else {
            options
        };
        let mut submit = options.apply(Submit::new(queue, self.key));
        for (name, value) in self.attributes {
            submit = submit.attribute(name, value);
        }
        if let Some(content_type) = self.content_type {
            submit = submit.content_type(content_type);
        }
        if let Some(id) = self.request_id {
            submit = submit.request_id(in_field("request_id", request_id(&id))?);
        }
        if let Some(delay) = self.delay {
            submit = submit.delay(in_field("delay", duration::parse(&delay))?);
        }
        if let Some(at) = self.start_at {
            submit = submit.start_at(in_field("start_at", time(&at))?);
        }
        if let Some(at) = self.expires_at {
            submit = submit.expires_at(in_field("expires_at", time(&at))?);
        }
        if let Some(attempts) = self.max_attempts {
            let most = limits::MAX_ATTEMPTS;
            if !(1..=most).contains(&attempts) {
                return Err(format!("max_attempts: must be from 1 to {most}"));
            }
            submit = submit.max_attempts(attempts);
        }
        if let Some(conflict) = self.on_conflict {
            submit = submit.on_conflict(conflict.into());
        }
        Ok(submit.payload(payload(self.payload, self.payload_base64)?))
    }
}

fn in_field<T>(field: &str, read: Result<T, String>) -> Result<T, String> {
    read.map_err(|problem| format!("{field}: {problem}"))
}

fn payload(text: Option<String>, base64: Option<String>) -> Result<Vec<u8>, String> {
    match (text, base64) {
        (Some(_), Some(_)) => Err("payload and payload_base64 are both given".to_owned()),
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(base64)) => STANDARD
            .decode(base64)
            .map_err(|error| format!("payload_base64: {error}")),
        (None, None) => Ok(Vec::new()),
    }
}

/// What the reader found.
type Read = (u64, Result<Submit, String>);

/// How the lines ended.
#[derive(Debug, Default)]
struct Tally {
    created: u64,
    other: u64,
    busy: u64,
    failed: u64,
}

impl Tally {
    fn all(&self) -> u64 {
        self.created + self.other + self.busy + self.failed
    }

    fn count(&mut self, result: &Result<SubmitOutcome, Error>) {
        *match result {
            Ok(SubmitOutcome::Created(_)) => &mut self.created,
            Ok(SubmitOutcome::AlreadyOutstanding(_)) => &mut self.busy,
            Ok(_) => &mut self.other,
            Err(_) => &mut self.failed,
        } += 1;
    }

    fn text(&self, elapsed: Duration) -> String {
        let other = if self.other > 0 {
            format!("{} accepted before, ", thousands(self.other))
        } else {
            String::new()
        };
        format!(
            "{} offered in {}: {} created, {other}{} busy, {} failed",
            thousands(self.all()),
            duration::show(elapsed),
            thousands(self.created),
            thousands(self.busy),
            thousands(self.failed),
        )
    }

    fn json(&self) -> Value {
        json!({"offered": self.all(), "created": self.created, "accepted_before": self.other,
               "busy": self.busy, "failed": self.failed})
    }
}

pub(super) async fn run(args: Args, client: &Client, output: Output) -> Result<ExitCode, Failure> {
    let path = args.jsonl.clone().unwrap_or_else(|| "-".into());
    let input = open(&path).doing(format_args!("read {}", path.display()))?;
    let (lines, read) = mpsc::channel(AHEAD);
    let (queue, options) = (args.queue.clone(), args.options.clone());
    let reader = tokio::task::spawn_blocking(move || read_all(input, &queue, &options, &lines));
    let tally = offer_all(client, output, read).await?;
    match reader.await {
        Ok(ended) => ended.doing(format_args!("read {}", path.display()))?,
        Err(_) => {
            return Err(Failure::new(
                Kind::Failed,
                format!("read {}", path.display()),
            ));
        }
    }
    Ok(if tally.failed > 0 {
        Kind::Partly.into()
    } else {
        ExitCode::SUCCESS
    })
}

fn open(path: &Path) -> std::io::Result<Box<dyn BufRead + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    Ok(Box::new(BufReader::new(std::fs::File::open(path)?)))
}

fn parse(line: &[u8]) -> Result<Line, String> {
    let text = std::str::from_utf8(line)
        .map_err(|error| format!("it is not UTF-8 after byte {}", error.valid_up_to()))?;
    // The only line that the parser sees is not the line of the file.
    serde_json::from_str(text).map_err(|error| {
        error
            .to_string()
            .replace(" at line 1 column ", " at column ")
    })
}

/// The next line without its end; of one that is too long, only that. `None`: the input has ended.
fn next_line(input: &mut dyn BufRead) -> std::io::Result<Option<Result<Vec<u8>, String>>> {
    let mut line = Vec::new();
    let most = u64::try_from(LINE_BYTES).unwrap_or(u64::MAX);
    if input.take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() == LINE_BYTES && !line.ends_with(b"\n") {
        input.skip_until(b'\n')?;
        return Ok(Some(Err(format!("it has more than {LINE_BYTES} bytes"))));
    }
    Ok(Some(Ok(line)))
}

/// Reads until the end, or until nobody wants more.
fn read_all(
    mut input: Box<dyn BufRead + Send>,
    queue: &str,
    options: &Options,
    lines: &mpsc::Sender<Read>,
) -> std::io::Result<()> {
    let mut number = 0;
    while let Some(line) = next_line(&mut input)? {
        number += 1;
        if line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty()) {
            continue;
        }
        let parsed = line.and_then(|line| parse(&line));
        let submit = parsed.and_then(|line| line.submit(queue, options));
        if lines.blocking_send((number, submit)).is_err() {
            break;
        }
    }
    Ok(())
}

/// Offers what is read, and tells each answer.
async fn offer_all(
    client: &Client,
    output: Output,
    mut read: mpsc::Receiver<Read>,
) -> Result<Tally, Failure> {
    let start = Instant::now();
    let mut tally = Tally::default();
    let numbers = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (bad, mut bad_lines) = mpsc::unbounded_channel();
    let noted = numbers.clone();
    let offers = futures::stream::poll_fn(move |context| read.poll_recv(context)).filter_map(
        move |(number, submit)| {
            let good = match submit {
                Ok(submit) => {
                    if let Ok(mut noted) = noted.lock() {
                        noted.push(number);
                    }
                    Some(submit)
                }
                Err(problem) => {
                    // The receiver lives as long as this stream.
                    let _ = bad.send((number, problem));
                    None
                }
            };
            std::future::ready(good)
        },
    );
    let mut answers = client.submit_stream(offers);
    let mut shown = start;
    loop {
        tokio::select! {
            answer = answers.next() => match answer {
                Some((index, result)) => {
                    tally.count(&result);
                    let number = numbers.lock().ok().and_then(|numbers| numbers.get(index).copied());
                    tell(output, number.unwrap_or_default(), &result)?;
                }
                None => break,
            },
            Some((number, problem)) = bad_lines.recv() => tell_bad(output, &mut tally, number, &problem)?,
        }
        if shown.elapsed() >= PROGRESS {
            shown = Instant::now();
            Output::progress(&tally.text(start.elapsed()));
        }
    }
    while let Ok((number, problem)) = bad_lines.try_recv() {
        tell_bad(output, &mut tally, number, &problem)?;
    }
    Output::progress("");
    summary(output, &tally, start.elapsed())?;
    Ok(tally)
}

/// People see the failures; machines see every answer.
fn tell(output: Output, line: u64, result: &Result<SubmitOutcome, Error>) -> Result<(), Failure> {
    match result {
        Ok(answer) if output.is_json() => {
            let mut value = outcome_json(answer);
            value["line"] = json!(line);
            output.result("", &value)
        }
        Err(error) if output.is_json() => {
            output.result("", &json!({"line": line, "error": error_json(error)}))
        }
        Ok(_) => Ok(()),
        Err(error) => {
            Output::complain(&format!("failed to submit line {line}: {error}"));
            Ok(())
        }
    }
}

fn tell_bad(output: Output, tally: &mut Tally, line: u64, problem: &str) -> Result<(), Failure> {
    tally.failed += 1;
    if output.is_json() {
        return output.result("", &json!({"line": line, "error": {"message": problem}}));
    }
    Output::complain(&format!("failed to read line {line}: {problem}"));
    Ok(())
}

fn summary(output: Output, tally: &Tally, elapsed: Duration) -> Result<(), Failure> {
    output.result(tally.text(elapsed), &json!({"summary": tally.json()}))
}
