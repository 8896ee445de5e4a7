//! How the places of one session are shared among its queues. Pure.
//!
//! Each queue is due its part of the capacity. What a queue leaves, because nothing waits in it, goes to
//! those in which something waits, in turn. Turns are counted in virtual time, so that a session whose
//! capacity is too small for everybody's part still serves all its queues, each as often as its weight says.

/// One queue of a session.
#[derive(Clone, Debug)]
pub(crate) struct Portion {
    /// Its part of the session's weights: 0 to 1.
    share: f64,
    /// How many leases of it the session holds.
    held: u32,
    /// When its next turn could begin, in virtual time.
    next: f64,
}

/// All queues of a session.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    portions: Vec<Portion>,
    /// When the newest turn began.
    now: f64,
}

impl Shares {
    pub(crate) fn new(shares: impl IntoIterator<Item = f64>) -> Self {
        let portion = |share| Portion {
            share,
            held: 0,
            next: 0.0,
        };
        Self {
            portions: shares.into_iter().map(portion).collect(),
            now: 0.0,
        }
    }

    /// A lease of the queue `at` was given, in its turn.
    pub(crate) fn took(&mut self, at: usize) {
        let now = self.now;
        if let Some(portion) = self.portions.get_mut(at) {
            let begins = portion.next.max(now);
            portion.next = begins + 1.0 / portion.share;
            portion.held += 1;
            self.now = begins;
        }
    }

    /// The session goes on with a lease that it held before.
    pub(crate) fn resumed(&mut self, at: usize) {
        if let Some(portion) = self.portions.get_mut(at) {
            portion.held += 1;
        }
    }

    /// So many leases of the queue `at` ended.
    pub(crate) fn gave_back(&mut self, at: usize, places: u32) {
        if let Some(portion) = self.portions.get_mut(at) {
            portion.held = portion.held.saturating_sub(places);
        }
    }

    /// How many of `room` free places to offer to the queue `at`. `waits` says of a queue whether something
    /// waits in it, as far as is known; where nothing does, one place is enough to hear of the next job.
    pub(crate) fn offered(
        &self,
        room: u32,
        capacity: u32,
        at: usize,
        waits: impl Fn(usize) -> bool,
    ) -> u32 {
        if room == 0 {
            return 0;
        }
        if !waits(at) {
            return 1;
        }
        let mut turns: Vec<usize> = (0..self.portions.len()).filter(|i| waits(*i)).collect();
        turns.sort_by(|a, b| self.before(*a, *b));
        let (mut left, mut offered) = (room, 0);
        for turn in &turns {
            let due = self.due(*turn, capacity).min(left);
            left -= due;
            if *turn == at {
                offered = due;
            }
        }
        if turns.first() == Some(&at) {
            offered += left;
        }
        offered
    }

    /// Whose turn comes first; of two at the same time, the heavier one's.
    fn before(&self, a: usize, b: usize) -> std::cmp::Ordering {
        let (a, b) = (&self.portions[a], &self.portions[b]);
        let begins = |portion: &Portion| portion.next.max(self.now);
        begins(a)
            .total_cmp(&begins(b))
            .then(b.share.total_cmp(&a.share))
    }

    /// How many more places a queue is due: at least one in all, so that each is heard of.
    fn due(&self, at: usize, capacity: u32) -> u32 {
        let portion = &self.portions[at];
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is from 0 to 1, so the product is at most `capacity`"
        )]
        let part = (f64::from(capacity) * portion.share).round() as u32;
        part.max(1).saturating_sub(portion.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: fn(usize) -> bool = |_| true;
    const FIRST: fn(usize) -> bool = |at| at == 0;

    /// Serves whoever is offered a place, one at a time, and counts.
    fn serve(shares: &mut Shares, capacity: u32, turns: u32) -> [u32; 2] {
        let mut served = [0; 2];
        for _ in 0..turns {
            let offers = [0, 1].map(|at| shares.offered(1, capacity, at, BOTH));
            assert_eq!(offers.iter().sum::<u32>(), 1, "one place is offered once");
            let at = usize::from(offers[1] == 1);
            shares.took(at);
            shares.gave_back(at, 1);
            served[at] += 1;
        }
        served
    }

    #[test]
    fn each_queue_is_due_its_part_of_the_capacity() {
        let mut shares = Shares::new([0.75, 0.25]);
        assert_eq!([0, 1].map(|at| shares.offered(8, 8, at, BOTH)), [6, 2]);
        (0..6).for_each(|_| shares.took(0));
        (0..2).for_each(|_| shares.took(1));
        shares.gave_back(1, 1);
        assert_eq!([0, 1].map(|at| shares.offered(1, 8, at, BOTH)), [0, 1]);
    }

    #[test]
    fn a_queue_in_which_nothing_waits_leaves_its_part() {
        let shares = Shares::new([0.25, 0.75]);
        assert_eq!([0, 1].map(|at| shares.offered(8, 8, at, FIRST)), [8, 1]);
    }

    #[test]
    fn a_single_place_goes_round_by_weight() {
        assert_eq!(serve(&mut Shares::new([0.75, 0.25]), 1, 400), [300, 100]);
        assert_eq!(serve(&mut Shares::new([0.5, 0.5]), 1, 400), [200, 200]);
    }

    #[test]
    fn a_queue_that_was_idle_saves_nothing_up() {
        let mut shares = Shares::new([0.5, 0.5]);
        for _ in 0..1_000 {
            shares.took(0);
            shares.gave_back(0, 1);
        }
        let served = serve(&mut shares, 1, 10);
        assert_eq!(served, [5, 5]);
    }
}
