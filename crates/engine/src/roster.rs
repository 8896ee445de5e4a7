//! The sessions that serve one queue, and whose turn it is. Pure but for each session's own count.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::session::Session;

#[derive(Debug)]
struct Member {
    session: Arc<Session>,
    /// This queue's part of the session's weights.
    share: f64,
    /// How many jobs of this queue it has room for.
    offered: u32,
    /// Whether it stands in the line.
    in_line: bool,
}

/// The sessions of one queue. Jobs go round those that have room.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    members: HashMap<u64, Member>,
    line: VecDeque<u64>,
    offered: u64,
}

impl Roster {
    /// Adds a session with its part of the session's weights.
    pub(crate) fn add(&mut self, session: Arc<Session>, share: f64) {
        let id = session.id;
        self.members.insert(
            id,
            Member {
                session,
                share,
                offered: 0,
                in_line: false,
            },
        );
        self.refresh(id);
    }

    /// Removes a session: it is given nothing more.
    pub(crate) fn remove(&mut self, id: u64) {
        if let Some(member) = self.members.remove(&id) {
            self.offered -= u64::from(member.offered);
        }
    }

    /// Looks at a session's room again.
    pub(crate) fn refresh(&mut self, id: u64) {
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        let offered = part(member.session.room(), member.share);
        self.offered = self.offered - u64::from(member.offered) + u64::from(offered);
        member.offered = offered;
        if offered > 0 && !member.in_line {
            member.in_line = true;
            self.line.push_back(id);
        }
    }

    /// How many jobs all sessions have room for.
    pub(crate) fn room(&self) -> usize {
        usize::try_from(self.offered).unwrap_or(usize::MAX)
    }

    /// Takes one place of the session whose turn it is.
    pub(crate) fn take(&mut self) -> Option<Arc<Session>> {
        while let Some(id) = self.line.pop_front() {
            let Some(member) = self.members.get_mut(&id) else {
                continue;
            };
            member.in_line = false;
            let session = Arc::clone(&member.session);
            let taken = session.try_take();
            self.refresh(id);
            if taken {
                return Some(session);
            }
        }
        None
    }

    /// How many sessions there are.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// All sessions.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.members
            .values()
            .map(|member| Arc::clone(&member.session))
            .collect()
    }
}

/// A queue's part of a session's room: at least one place where there is any, so that a session of
/// little capacity still hears of all its queues.
fn part(room: u32, share: f64) -> u32 {
    if room == 0 {
        return 0;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share is from 0 to 1, so the product is at most `room`"
    )]
    let part = (f64::from(room) * share) as u32;
    part.clamp(1, room)
}
