//! The sessions that serve one queue, and whose turn it is. Pure but for each session's own count.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::session::Session;

#[derive(Debug)]
struct Member {
    session: Arc<Session>,
    /// Which of the session's queues this one is.
    at: usize,
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
    /// How many sessions serve other queues too.
    shared: usize,
}

impl Roster {
    /// Adds a session; this is its queue `at`.
    pub(crate) fn add(&mut self, session: Arc<Session>, at: usize) {
        let id = session.id;
        self.shared += usize::from(session.queues.len() > 1);
        self.members.insert(
            id,
            Member {
                session,
                at,
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
            self.shared -= usize::from(member.session.queues.len() > 1);
        }
    }

    /// Looks at a session's room again.
    pub(crate) fn refresh(&mut self, id: u64) {
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        let offered = member.session.room_for(member.at);
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
            let taken = session.try_take(member.at);
            self.refresh(id);
            if taken {
                return Some(session);
            }
        }
        None
    }

    /// The sessions that serve other queues too.
    pub(crate) fn shared(&self) -> Vec<Arc<Session>> {
        if self.shared == 0 {
            return Vec::new();
        }
        let mut sessions = self.sessions();
        sessions.retain(|session| session.queues.len() > 1);
        sessions
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
