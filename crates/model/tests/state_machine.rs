//! `docs/state-machine.md` shows the transitions as they are.

use std::{fs, path::Path};

use keywork_model::state::{Event, State};

/// The cells of the rows that begin with `first`, without their backquotes.
fn row(document: &str, first: &str) -> Vec<Vec<String>> {
    let rows = document
        .lines()
        .filter(|line| line.starts_with(&format!("| {first} |")));
    let cells = |line: &str| {
        let inner = line.trim_matches('|').split('|');
        inner.map(|cell| cell.trim().replace('`', "")).collect()
    };
    rows.map(cells).collect()
}

#[test]
fn the_documented_transitions_are_the_real_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-machine.md");
    let document = fs::read_to_string(path).expect("the document");
    let (_, table) = document.split_once("## Transitions").expect("the table");
    let header = &row(&table.replace("| |", "| events |"), "events")[0];
    let events: Vec<String> = Event::ALL.iter().map(|e| format!("{e:?}")).collect();
    assert_eq!(header[1..], events[..]);
    for state in State::ALL {
        let rows = row(table, &format!("`{state:?}`"));
        assert_eq!(rows.len(), 1, "one row for {state:?}");
        for (event, cell) in Event::ALL.iter().zip(&rows[0][1..]) {
            let after = state.after(*event);
            let expected = after.map_or("–".to_owned(), |after| format!("{after:?}"));
            assert_eq!(*cell, expected, "{state:?} after {event:?}");
        }
    }
}

#[test]
fn every_state_and_every_event_is_explained() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-machine.md");
    let document = fs::read_to_string(path).expect("the document");
    let (explained, _) = document.split_once("## Transitions").expect("the table");
    let names = State::ALL.iter().map(|state| format!("{state:?}"));
    let names = names.chain(Event::ALL.iter().map(|event| format!("{event:?}")));
    for name in names {
        assert_eq!(row(explained, &format!("`{name}`")).len(), 1, "{name}");
    }
}
