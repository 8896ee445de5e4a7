//! `docs/errors.md` lists every reason as the server sends it and as the SDK reads it.

use std::{fs, path::Path, time::Duration};

use keywork::errors::{Problem, Reason};
use tonic::{Code, Status};
use tonic_types::StatusExt;

struct Row {
    reason: String,
    status: String,
    retry: String,
    side_effects: String,
}

fn rows() -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors.md");
    let document = fs::read_to_string(path).expect("the document");
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let mut next = || cells.next().unwrap_or_default().to_owned();
        let row = Row {
            reason: next().replace('`', ""),
            status: next(),
            retry: next(),
            side_effects: next(),
        };
        let (meaning, advice) = (next(), next());
        assert!(!meaning.is_empty() && !advice.is_empty(), "{line}");
        row
    })
    .collect()
}

/// A code as gRPC writes it.
fn name(code: Code) -> String {
    let camel = format!("{code:?}");
    let mut name = String::new();
    for letter in camel.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[test]
fn the_documented_reasons_are_the_ones_that_are_sent() {
    let rows = rows();
    let listed: Vec<&str> = rows.iter().map(|row| &*row.reason).collect();
    let sent: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(listed, sent);
    for (row, reason) in rows.iter().zip(Reason::ALL) {
        let status = Status::from(Problem::new(reason, "it failed"));
        let info = status.get_details_error_info().expect("its ErrorInfo");
        assert_eq!(
            (&*info.reason, &*info.domain),
            (&*row.reason, "keywork.dev")
        );
        assert_eq!(name(status.code()), row.status, "{}", row.reason);

        let after = status.get_details_retry_info();
        let after = after.and_then(|info| info.retry_delay);
        let error = keywork_sdk::Error::from(status);
        let retry = match after {
            Some(after) => short(after),
            None if error.is_retryable() => "yes".to_owned(),
            None => "no".to_owned(),
        };
        assert_eq!(retry, row.retry, "{}", row.reason);
        assert!(after.is_none() || error.is_retryable(), "{}", row.reason);
        let side_effects = if error.has_no_side_effects() {
            "none"
        } else {
            "unknown"
        };
        assert_eq!(side_effects, row.side_effects, "{}", row.reason);
    }
}

fn short(time: Duration) -> String {
    format!("{time:?}")
}

#[test]
fn the_sdk_knows_every_reason() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk/rust/src/errors.rs");
    let source = fs::read_to_string(path).expect("the SDK's errors");
    for reason in Reason::ALL {
        let name = reason.as_str();
        let constant = format!("pub const {name}: &str = \"{name}\";");
        assert!(source.contains(&constant), "the SDK does not know {name}");
    }
}
