//! Which requests are answered: each must be, once.

use crate::error::Error;

/// Which of so many requests are answered.
#[derive(Debug)]
pub(super) struct Confirmed {
    seen: Vec<bool>,
    count: u64,
}

impl Confirmed {
    /// None of `all`, which are numbered from 0.
    pub(super) fn none_of(all: u64) -> Self {
        let all = usize::try_from(all).unwrap_or(usize::MAX);
        let seen = vec![false; all];
        Self { seen, count: 0 }
    }

    /// How many are answered.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Takes in the answer to one. A second answer, or one to no request, is an error.
    pub(super) fn confirm(&mut self, number: u64) -> Result<(), Error> {
        let seen = usize::try_from(number)
            .ok()
            .and_then(|at| self.seen.get_mut(at));
        match seen {
            Some(seen) if !*seen => {
                *seen = true;
                self.count += 1;
                Ok(())
            }
            Some(_) | None => Err(Error::wrong(format!("a second answer to {number}"))),
        }
    }
}
