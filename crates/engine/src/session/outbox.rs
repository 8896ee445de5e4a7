//! What waits to be sent to a worker. It gathers while the worker does not read, so that a message
//! carries all that is there.

use std::collections::VecDeque;

use keywork_model::fit_in_message;

use crate::{
    lease::{Granted, Lost},
    session::{Output, SettleResult},
};

/// Most items of one message.
const ITEMS: usize = 256;
/// What may wait in all. A worker that leaves so much unread is cut off: its leases go back.
const MOST_WAITING: usize = 200_000;

/// What waits to be sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    deliveries: VecDeque<Granted>,
    results: VecDeque<SettleResult>,
    lost: VecDeque<Lost>,
    answers: VecDeque<Output>,
    drained: bool,
}

impl Outbox {
    pub(super) fn deliver(&mut self, granted: Vec<Granted>) {
        self.deliveries.extend(granted);
    }

    pub(super) fn result(&mut self, result: SettleResult) {
        self.results.push_back(result);
    }

    pub(super) fn lost(&mut self, lost: Vec<Lost>) {
        self.lost.extend(lost);
    }

    /// A heartbeat's answer, or a request to go.
    pub(super) fn answer(&mut self, output: Output) {
        self.answers.push_back(output);
    }

    /// Says that nothing is delivered any more, after what waits.
    pub(super) fn drained(&mut self) {
        self.drained = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting() == 0 && !self.drained
    }

    pub(super) fn overflows(&self) -> bool {
        self.waiting() > MOST_WAITING
    }

    fn waiting(&self) -> usize {
        self.deliveries.len() + self.results.len() + self.lost.len() + self.answers.len()
    }

    /// The next message: answers first, for they are few and waited for.
    pub(super) fn next(&mut self) -> Option<Output> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        if !self.lost.is_empty() {
            return Some(Output::Lost(take(&mut self.lost, ITEMS)));
        }
        if self.results.len() >= self.deliveries.len() && !self.results.is_empty() {
            return Some(Output::Results(take(&mut self.results, ITEMS)));
        }
        if !self.deliveries.is_empty() {
            let jobs = self
                .deliveries
                .iter()
                .take(ITEMS)
                .map(|granted| &granted.job);
            let fitting = fit_in_message(jobs);
            return Some(Output::Deliveries(take(&mut self.deliveries, fitting)));
        }
        std::mem::take(&mut self.drained).then_some(Output::DrainAck)
    }

    /// Deliveries that were never sent.
    pub(super) fn unsent(&mut self) -> Vec<Granted> {
        self.deliveries.drain(..).collect()
    }
}

fn take<T>(queue: &mut VecDeque<T>, most: usize) -> Vec<T> {
    queue.drain(..queue.len().min(most)).collect()
}
