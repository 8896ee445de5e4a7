//! Heartbeats on their way: what each listed, when it was sent, and what its answer proves.
//!
//! Pure: time is an argument.

use std::{collections::VecDeque, time::Instant};

use super::leases::LeaseId;

/// The most leases that one heartbeat lists, so that its message stays under the usual limit of 4 MiB.
pub(crate) const LISTED: usize = 8_000;

/// One heartbeat that is not answered yet.
#[derive(Debug)]
struct Beat {
    sequence: u64,
    sent: Instant,
    leases: Vec<LeaseId>,
}

/// The heartbeats of a session.
#[derive(Debug)]
pub(crate) struct Beats {
    sequence: u64,
    unanswered: VecDeque<Beat>,
    basis: Instant,
}

impl Beats {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            sequence: 0,
            unanswered: VecDeque::new(),
            basis: now,
        }
    }

    /// A session opened whose Hello was sent then.
    pub(crate) fn opened(&mut self, hello_sent: Instant) {
        self.unanswered.clear();
        self.basis = hello_sent;
    }

    /// When the newest question was sent whose answer has arrived. What the server sends from now on was sent
    /// after that, so a time left that it tells counts from then at the earliest.
    pub(crate) fn basis(&self) -> Instant {
        self.basis
    }

    /// Notes a heartbeat that is being sent; gives its sequence.
    pub(crate) fn sent(&mut self, leases: Vec<LeaseId>, now: Instant) -> u64 {
        self.sequence += 1;
        self.unanswered.push_back(Beat {
            sequence: self.sequence,
            sent: now,
            leases,
        });
        self.sequence
    }

    /// The next heartbeat that an answer to `sequence` answers too: when it was sent, and what it listed.
    pub(crate) fn answered(&mut self, sequence: u64) -> Option<(Instant, Vec<LeaseId>)> {
        let beat = self
            .unanswered
            .pop_front_if(|beat| beat.sequence <= sequence)?;
        self.basis = beat.sent;
        Some((beat.sent, beat.leases))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_answer_answers_all_earlier_heartbeats_and_no_later_one() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut beats = Beats::new(start);
        for second in 1..=3 {
            beats.sent(Vec::new(), at(second));
        }
        assert!(beats.answered(2).is_some_and(|(sent, _)| sent == at(1)));
        assert!(beats.answered(2).is_some_and(|(sent, _)| sent == at(2)));
        assert!(beats.answered(2).is_none());
        assert_eq!(beats.basis(), at(2));
    }

    #[test]
    fn an_answer_of_an_earlier_session_proves_nothing() {
        let start = Instant::now();
        let mut beats = Beats::new(start);
        let sequence = beats.sent(Vec::new(), start);
        beats.opened(start + Duration::from_secs(9));
        assert!(beats.answered(sequence).is_none());
        assert_eq!(beats.basis(), start + Duration::from_secs(9));
    }
}
