//! The results as a table, SDK × scenario, and as JSON.

use std::{collections::BTreeSet, fmt::Write, fs, io, path::Path, sync::Arc};

use serde_json::{Value, json};

use crate::{
    scenario::Scenario,
    sdk::Sdk,
    suite::{Record, Verdict},
};

/// How much of a scenario's title the table shows.
const TITLE: usize = 60;

/// The table, and under it why something was skipped or failed.
pub(crate) fn print(records: &[Record], sdks: &[Arc<Sdk>], scenarios: &[Arc<Scenario>]) -> String {
    let mut text = String::from("\n");
    let mut line = format!("{:<6} {:<TITLE$}", "", "");
    for sdk in sdks {
        line.push_str(&format!(" {:<10}", sdk.name));
    }
    text.push_str(line.trim_end());
    text.push('\n');
    for scenario in scenarios {
        let cells: Vec<&str> = sdks
            .iter()
            .map(|sdk| cell(records, &sdk.name, &scenario.id))
            .collect();
        if cells.iter().all(|cell| cell.is_empty()) {
            continue;
        }
        let title: String = scenario.title.chars().take(TITLE).collect();
        let mut line = format!("{:<6} {title:<TITLE$}", scenario.id);
        for cell in cells {
            line.push_str(&format!(" {cell:<10}"));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&notes(records));
    text.push_str(&summary(records));
    text
}

/// The worst of an SDK's results in a scenario.
fn cell<'a>(records: &'a [Record], sdk: &str, scenario: &str) -> &'a str {
    let of = records
        .iter()
        .filter(|record| record.sdk == sdk && record.scenario == scenario);
    let words: Vec<&str> = of.map(|record| record.verdict.word()).collect();
    let order = ["FAIL", "known", "skipped", "pass"];
    order
        .into_iter()
        .find(|word| words.contains(word))
        .unwrap_or_default()
}

fn notes(records: &[Record]) -> String {
    let with_reason = records
        .iter()
        .filter(|record| record.verdict != Verdict::Pass);
    let lines: BTreeSet<String> = with_reason
        .map(|record| {
            let Record {
                sdk,
                scenario,
                route,
                verdict,
                ..
            } = record;
            let (word, why) = (verdict.word(), verdict.why());
            format!("{word}: {sdk} {scenario} {}: {why}\n", route.name())
        })
        .collect();
    let mut text = String::from("\n");
    text.extend(lines);
    text
}

fn summary(records: &[Record]) -> String {
    let mut text = String::from("conformance:");
    for word in ["pass", "FAIL", "skipped", "known"] {
        let count = records.iter().filter(|r| r.verdict.word() == word).count();
        // Writing to a String cannot fail.
        let _ = write!(text, " {count} {word},");
    }
    text.trim_end_matches(',').to_owned()
}

pub(crate) fn all_well(records: &[Record]) -> bool {
    !records.is_empty()
        && !records
            .iter()
            .any(|record| matches!(record.verdict, Verdict::Fail { .. }))
}

/// Writes the results to a file.
pub(crate) fn write(path: &Path, records: &[Record], sdks: &[Arc<Sdk>]) -> io::Result<()> {
    let result = |record: &Record| -> Value {
        let trace = match &record.verdict {
            Verdict::Fail { trace, .. } => trace.as_str(),
            Verdict::Pass | Verdict::Skipped { .. } | Verdict::KnownFailing { .. } => "",
        };
        json!({
            "sdk": record.sdk,
            "scenario": record.scenario,
            "path": record.route.name(),
            "result": record.verdict.word(),
            "why": record.verdict.why(),
            "ms": u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX),
            "trace": trace,
        })
    };
    let sdk = |sdk: &Arc<Sdk>| {
        json!({
            "sdk": sdk.name,
            "version": sdk.version,
            "runtime": sdk.runtime,
            "capabilities": sdk.capabilities,
        })
    };
    let all = json!({
        "passed": all_well(records),
        "sdks": sdks.iter().map(sdk).collect::<Vec<_>>(),
        "results": records.iter().map(result).collect::<Vec<_>>(),
    });
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, format!("{all:#}\n"))
}
