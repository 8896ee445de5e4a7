//! The one writer: results to stdout, for people or as JSON lines; complaints and progress to stderr.

use std::{
    fmt::Display,
    io::{self, ErrorKind, IsTerminal, Write},
};

use clap::ValueEnum;
use serde_json::Value;

use super::failure::{Doing, Failure};

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Human,
    /// One JSON object a line, with the names of the proto
    Json,
}

/// Writes results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    format: Format,
}

impl Output {
    pub(super) fn new(format: Format) -> Self {
        Self { format }
    }

    pub(super) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// Writes one result, in the form that was asked for.
    pub(super) fn result(self, human: impl Display, json: &Value) -> Result<(), Failure> {
        match self.format {
            Format::Human => write_line(&human),
            Format::Json => write_line(json),
        }
    }

    /// Writes many results: a table for people, who are told `none` where it is empty; a line each as JSON.
    pub(super) fn table(
        self,
        head: &[&str],
        rows: &[Vec<String>],
        json: impl Iterator<Item = Value>,
        none: &str,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Human if rows.is_empty() => {
                Self::complain(none);
                Ok(())
            }
            Format::Human => write_line(&table(head, rows)),
            Format::Json => json.into_iter().try_for_each(|value| write_line(&value)),
        }
    }

    /// Says something to the person at the terminal.
    pub(super) fn complain(text: &str) {
        // There is nobody to tell when stderr is gone.
        let _ = writeln!(io::stderr().lock(), "keywork: {text}");
    }

    /// Shows how far long work has come, in place, if somebody is looking.
    pub(super) fn progress(text: &str) {
        let stderr = io::stderr();
        if stderr.is_terminal() {
            let _ = write!(stderr.lock(), "\r\x1b[K{text}");
        }
    }
}

/// Who reads a pipe may leave early: that is no failure.
fn write_line(text: &impl Display) -> Result<(), Failure> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.doing("write the result"),
    }
}

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| shown(cell)).collect())
        .collect();
    let all = || std::iter::once(&head).chain(&rows);
    let width = |column: usize| {
        all()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let lines = all().map(|row| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Names and what they are, aligned; empty values are left out.
pub(super) fn fields(pairs: &[(&str, String)]) -> String {
    let given = || pairs.iter().filter(|(_, value)| !value.is_empty());
    let width = given().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = given().map(|(name, value)| format!("{name:<width$}  {}", shown_lines(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Text of somebody else, such as a key, on one line: what a terminal would act upon or not show is escaped.
pub(super) fn shown(text: &str) -> String {
    let escaped = text.escape_debug().to_string();
    // Quotes harm nobody: nothing is quoted here.
    escaped.replace("\\'", "'").replace("\\\"", "\"")
}

/// The same, where the text's own lines and tabs may stay, such as in a payload.
fn shown_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| line.split('\t').map(shown));
    lines
        .map(|cells| cells.collect::<Vec<_>>().join("\t"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// So many of something.
pub(super) fn counted(number: u64, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {one}{plural}", thousands(number))
}

/// A number with its thousands apart.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(thousands),
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn what_a_terminal_would_act_upon_is_escaped() {
        assert_eq!(
            shown("cluster-eu-1/ü😀 it's \"so\""),
            "cluster-eu-1/ü😀 it's \"so\""
        );
        assert_eq!(shown("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        assert_eq!(shown("\u{202e}\u{200b}"), "\\u{202e}\\u{200b}");
        assert_eq!(shown_lines("a\tb\nc\u{7}"), "a\tb\nc\\u{7}");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [
            vec!["a".to_owned(), "1".to_owned()],
            vec!["longer".to_owned(), "2".to_owned()],
        ];
        assert_eq!(
            table(&["NAME", "N"], &rows),
            "NAME    N\na       1\nlonger  2"
        );
    }
}
