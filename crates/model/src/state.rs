//! The job's states and what moves it from one to the next. `docs/state-machine.md` shows this table.

/// Where a job is in its life. All but [`State::Ended`] hold the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Accepted, with a start that is still to come.
    Scheduled,
    /// Waiting for a worker.
    Queued,
    /// A worker holds its lease, or held one that has not been dealt with yet.
    Leased,
    /// An attempt ended without success; the next one waits for its time.
    Retrying,
    /// On its way to the dead letters.
    Dying,
    /// Ended: the key is free.
    Ended,
}

/// What happens to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// Its time came.
    Due,
    /// A session was given its lease.
    Lease,
    /// Settled as complete.
    Complete,
    /// Settled as retry, or its lease ran out, with attempts left.
    Retry,
    /// Given back: released, handed back or never told to a worker. Costs no attempt.
    Release,
    /// Failed, out of attempts, expired before its start, or unreadable.
    Doom,
    /// Stored among the dead letters.
    DeadLetter,
    /// The queue was purged or deleted.
    Purge,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Scheduled,
        Self::Queued,
        Self::Leased,
        Self::Retrying,
        Self::Dying,
        Self::Ended,
    ];

    /// The state after `event`, or `None` where the event cannot happen in this state.
    pub fn after(self, event: Event) -> Option<Self> {
        match (self, event) {
            (Self::Scheduled | Self::Retrying, Event::Due)
            | (Self::Queued | Self::Leased, Event::Release) => Some(Self::Queued),
            (Self::Queued, Event::Lease) => Some(Self::Leased),
            (Self::Leased, Event::Retry) => Some(Self::Retrying),
            (Self::Scheduled | Self::Queued | Self::Leased, Event::Doom) => Some(Self::Dying),
            (Self::Leased, Event::Complete)
            | (Self::Dying, Event::DeadLetter)
            | (
                Self::Scheduled | Self::Queued | Self::Leased | Self::Retrying | Self::Dying,
                Event::Purge,
            ) => Some(Self::Ended),
            (Self::Scheduled, Event::Lease | Event::Complete | Event::Retry | Event::Release)
            | (Self::Queued, Event::Due | Event::Complete | Event::Retry)
            | (Self::Leased, Event::Due | Event::Lease)
            | (
                Self::Retrying,
                Event::Lease | Event::Complete | Event::Retry | Event::Release | Event::Doom,
            )
            | (
                Self::Dying,
                Event::Due
                | Event::Lease
                | Event::Complete
                | Event::Retry
                | Event::Release
                | Event::Doom,
            )
            | (Self::Scheduled | Self::Queued | Self::Leased | Self::Retrying, Event::DeadLetter)
            | (
                Self::Ended,
                Event::Due
                | Event::Lease
                | Event::Complete
                | Event::Retry
                | Event::Release
                | Event::Doom
                | Event::DeadLetter
                | Event::Purge,
            ) => None,
        }
    }

    /// Whether a job in this state holds its key.
    pub fn holds_key(self) -> bool {
        self != Self::Ended
    }
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Due,
        Self::Lease,
        Self::Complete,
        Self::Retry,
        Self::Release,
        Self::Doom,
        Self::DeadLetter,
        Self::Purge,
    ];
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn law_2_every_state_can_reach_its_end() {
        for start in State::ALL {
            let mut reached = vec![start];
            for _ in State::ALL {
                let next: Vec<_> = reached
                    .iter()
                    .flat_map(|state| Event::ALL.iter().filter_map(|event| state.after(*event)))
                    .collect();
                reached.extend(next);
            }
            assert!(reached.contains(&State::Ended), "{start:?} is stuck");
        }
    }

    proptest! {
        #[test]
        fn nothing_finished_comes_back(events in proptest::collection::vec(0..Event::ALL.len(), 0..40)) {
            let (mut state, mut ended) = (State::Queued, false);
            for event in events.into_iter().map(|i| Event::ALL[i]) {
                if let Some(next) = state.after(event) {
                    prop_assert!(!ended, "{event:?} moved an ended job");
                    state = next;
                }
                ended = state == State::Ended;
            }
        }
    }
}
