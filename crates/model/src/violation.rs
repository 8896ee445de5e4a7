//! What was wrong with one field of a request.

use std::fmt;

/// One field at fault, and the limit that it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field's path in the request, such as `config.lease_duration`.
    pub field: String,
    /// What is wrong, naming the limit.
    pub problem: String,
}

impl Violation {
    /// A violation of `field`.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// The same violation, of a field further down: `items[3]` and `key` make `items[3].key`.
    #[must_use]
    pub fn within(mut self, parent: &str) -> Self {
        self.field = format!("{parent}.{}", self.field);
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for Violation {}
