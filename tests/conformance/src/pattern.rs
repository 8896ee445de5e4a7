//! Whether an event is the one that a step means, and the names in a step that stand for something. Pure.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Names that steps may use as `$name`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(HashMap<String, Value>);

impl Names {
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// The value with every `$name` replaced. A text that is nothing but a name becomes its value, of its kind.
    pub(crate) fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill_text(text),
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(members) => Value::Object(self.fill_members(members)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    pub(crate) fn fill_members(&self, members: &Map<String, Value>) -> Map<String, Value> {
        let filled = members.iter();
        filled
            .map(|(name, value)| (name.clone(), self.fill(value)))
            .collect()
    }

    pub(crate) fn text(&self, text: &str) -> String {
        plain(&self.fill_text(text))
    }

    fn fill_text(&self, text: &str) -> Value {
        if let Some(value) = text.strip_prefix('$').and_then(|name| self.0.get(name)) {
            return value.clone();
        }
        let mut filled = text.to_owned();
        // The longest names first: `$queue2` is no `$queue`.
        let mut names: Vec<&String> = self.0.keys().collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        for name in names.iter().filter(|_| text.contains('$')) {
            filled = filled.replace(&format!("${name}"), &plain(&self.0[*name]));
        }
        Value::String(filled)
    }
}

/// A text without its quotes; anything else as JSON has it.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether `event` has all that `pattern` has. `{ least = 1, most = 2 }` is a range, `{ not = … }` anything else,
/// `{ any = […] }` one of several, `{ like = "…" }` a text that contains another.
pub(crate) fn matches(pattern: &Value, event: &Value) -> bool {
    match (pattern, event) {
        (Value::Object(wanted), _) if is_comparison(wanted) => wanted
            .iter()
            .all(|(how, bound)| compares(how, bound, event)),
        (Value::Object(wanted), Value::Object(_)) => wanted
            .iter()
            .all(|(name, value)| matches(value, &event[name])),
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(w, f)| matches(w, f))
        }
        (Value::Number(wanted), Value::Number(found)) => wanted.as_f64() == found.as_f64(),
        (wanted, found) => wanted == found,
    }
}

fn is_comparison(members: &Map<String, Value>) -> bool {
    const WORDS: [&str; 5] = ["least", "most", "not", "any", "like"];
    !members.is_empty() && members.keys().all(|name| WORDS.contains(&name.as_str()))
}

fn compares(how: &str, bound: &Value, found: &Value) -> bool {
    let number = found.as_f64().zip(bound.as_f64());
    match how {
        "least" => number.is_some_and(|(found, bound)| found >= bound),
        "most" => number.is_some_and(|(found, bound)| found <= bound),
        "not" => !matches(bound, found),
        "any" => bound
            .as_array()
            .is_some_and(|all| all.iter().any(|one| matches(one, found))),
        _ => found
            .as_str()
            .zip(bound.as_str())
            .is_some_and(|(found, bound)| found.contains(bound)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pattern_needs_what_it_names_and_no_more() {
        let event = json!({"event": "started", "key": "k", "attempt": 2});
        assert!(matches(&json!({"event": "started"}), &event));
        assert!(matches(
            &json!({"attempt": {"least": 2, "most": 2}}),
            &event
        ));
        assert!(!matches(&json!({"attempt": {"not": 2}}), &event));
        assert!(!matches(&json!({"reason": "x"}), &event));
        assert!(matches(&json!({"key": {"any": ["j", "k"]}}), &event));
    }

    #[test]
    fn names_are_replaced_and_keep_their_kind() {
        let mut names = Names::default();
        names.set("queue", json!("q"));
        names.set("fencing", json!(7));
        let filled = names.fill(&json!({"a": "$fencing", "b": "$queue-b", "c": ["$queue"]}));
        assert_eq!(filled, json!({"a": 7, "b": "q-b", "c": ["q"]}));
    }
}
