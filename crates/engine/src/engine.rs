//! The engine: the queues that are open on this server, its sessions, and its name among its peers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use keywork_jetstream::{
    ApiError, Nats, clock,
    pull::QueuePulls,
    queues::{QueueError, UNKNOWN_LOOKS, UNKNOWN_PAUSE},
    tasks::{Fate, Tasks},
};
use keywork_model::{
    QueueConfig, QueueName, WorkerId,
    token::{InvalidToken, LeaseFacts, TokenSecret},
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::{
    dispatch,
    error::OpenError,
    lease::{Lease, LostReason, Phase},
    peers,
    queue::Queue,
    session::{self, GoAway, GoAwayReason, Hello, OpenedSession, Session, SessionEvent},
    settle, upkeep,
};

/// How the engine behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many NATS nodes keep a queue that is made here.
    pub replicas: usize,
    /// Whether a queue is made when it is first named.
    pub make_queues: bool,
    /// The secret of lease tokens; `None`: one that the servers share through NATS.
    pub token_secret: Option<Vec<u8>>,
}

/// Why the engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// NATS failed.
    #[error("failed to read or write Keywork's settings in NATS: {0}")]
    Settings(#[from] ApiError),
    /// The secret is too short.
    #[error("the token secret must have at least 16 bytes")]
    Secret(#[from] InvalidToken),
    /// No subscription.
    #[error("failed to listen to other servers: {0}")]
    Peers(String),
}

/// The engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    nats: Nats,
    tasks: Tasks,
    options: Options,
    secret: TokenSecret,
    /// The secret, where the servers share it through NATS.
    shared_secret: Option<Vec<u8>>,
    /// Names this process among its peers: random, never used again.
    server: u64,
    queues: Mutex<HashMap<QueueName, Arc<Queue>>>,
    opening: Mutex<HashMap<QueueName, Arc<tokio::sync::Mutex<()>>>>,
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    by_id: HashMap<u64, Arc<Session>>,
    by_worker: HashMap<WorkerId, Vec<u64>>,
}

impl Engine {
    /// Starts the engine.
    ///
    /// # Errors
    /// Why it does not start.
    pub async fn start(nats: Nats, options: Options, tasks: Tasks) -> Result<Self, StartError> {
        nats.ensure_settings(options.replicas).await?;
        let secret = match &options.token_secret {
            Some(secret) => secret.clone(),
            None => shared_secret(&nats, rand::random::<[u8; 32]>().to_vec()).await?,
        };
        let inner = Inner {
            secret: TokenSecret::new(&secret)?,
            shared_secret: options.token_secret.is_none().then_some(secret),
            nats,
            tasks,
            options,
            server: rand::random(),
            queues: Mutex::default(),
            opening: Mutex::default(),
            sessions: Mutex::default(),
        };
        let engine = Self {
            inner: Arc::new(inner),
        };
        peers::listen(&engine)
            .await
            .map_err(|e| StartError::Peers(e.to_string()))?;
        let keeping = upkeep::keep(engine.clone());
        engine.tasks().start("keep", Fate::Vital, keeping);
        Ok(engine)
    }

    /// The connections to NATS.
    pub fn nats(&self) -> &Nats {
        &self.inner.nats
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.inner.tasks
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(crate) fn secret(&self) -> &TokenSecret {
        &self.inner.secret
    }

    pub(crate) fn server(&self) -> u64 {
        self.inner.server
    }

    /// Makes the servers' settings again where somebody deleted them.
    ///
    /// # Errors
    /// What failed.
    pub(crate) async fn keep_settings(&self) -> Result<(), QueueError> {
        let there = self.nats().has_settings().await?;
        if !there {
            tracing::warn!("the servers' settings were deleted: writing them again");
            self.nats().ensure_settings(self.options().replicas).await?;
        }
        if let Some(secret) = &self.inner.shared_secret
            && shared_secret(self.nats(), secret.clone()).await? != *secret
        {
            tracing::error!("another server made a new token secret: restart this one");
        }
        if !there {
            for queue in self.all_open() {
                queue.remember_again().await?;
            }
        }
        Ok(())
    }

    /// Opens a worker session.
    ///
    /// # Errors
    /// Why one of its queues cannot be served.
    pub async fn lease(&self, hello: Hello) -> Result<OpenedSession, OpenError> {
        session::open(self, hello).await
    }

    // ---- queues ----

    /// A queue that is open already.
    pub(crate) fn open_already(&self, name: &QueueName) -> Option<Arc<Queue>> {
        self.inner.queues.lock().get(name).map(Arc::clone)
    }

    /// All open queues.
    pub(crate) fn all_open(&self) -> Vec<Arc<Queue>> {
        self.inner.queues.lock().values().map(Arc::clone).collect()
    }

    /// Opens a queue, making it where that is allowed.
    pub(crate) async fn open(&self, name: &QueueName) -> Result<Arc<Queue>, OpenError> {
        self.open_or(name, self.options().make_queues).await
    }

    /// Opens a queue to accept jobs or to lease them: refused while it has drifted.
    pub(crate) async fn open_sound(&self, name: &QueueName) -> Result<Arc<Queue>, OpenError> {
        let queue = self.open(name).await?;
        match queue.drift() {
            Some(drift) => Err(OpenError::Drift(drift)),
            None => Ok(queue),
        }
    }

    /// Opens a queue that exists.
    pub(crate) async fn open_existing(&self, name: &QueueName) -> Result<Arc<Queue>, OpenError> {
        self.open_or(name, false).await
    }

    /// Opens the queue of a lease that was given. While nodes come and go one may not know the queue for a
    /// moment, so before the lease's deadline that is not believed at once.
    pub(crate) async fn open_leased(&self, facts: &LeaseFacts) -> Result<Arc<Queue>, OpenError> {
        self.close_older(facts).await;
        let mut opened = self.open_existing(&facts.queue).await;
        for _ in 0..UNKNOWN_LOOKS {
            if !matches!(opened, Err(OpenError::Unknown(_))) || facts.valid_until <= clock::now() {
                break;
            }
            sleep(UNKNOWN_PAUSE).await;
            opened = self.open_existing(&facts.queue).await;
        }
        opened
    }

    /// Closes the lease's queue where this server has not heard yet that it was deleted and made anew.
    pub(crate) async fn close_older(&self, facts: &LeaseFacts) {
        let open = self.open_already(&facts.queue);
        let Some(queue) = open.filter(|queue| queue.jobs.incarnation() < facts.incarnation) else {
            return;
        };
        let info = queue.jobs.info().await;
        if info.is_ok_and(|info| info.incarnation != queue.jobs.incarnation()) {
            self.close_queue(&queue);
        }
    }

    async fn open_or(&self, name: &QueueName, make: bool) -> Result<Arc<Queue>, OpenError> {
        if let Some(queue) = self.open_already(name) {
            return Ok(queue);
        }
        let turn = {
            let mut opening = self.inner.opening.lock();
            Arc::clone(opening.entry(name.clone()).or_default())
        };
        let _turn = turn.lock().await;
        if let Some(queue) = self.open_already(name) {
            return Ok(queue);
        }
        let opened = self.open_now(name, make).await;
        self.inner.opening.lock().remove(name);
        opened
    }

    async fn open_now(&self, name: &QueueName, make: bool) -> Result<Arc<Queue>, OpenError> {
        let jobs = match self.nats().open_queue(name).await {
            Err(QueueError::Unknown(_)) if make => {
                let config = QueueConfig::default();
                self.nats()
                    .create_queue(name, &config, self.options().replicas)
                    .await?
            }
            opened => opened?,
        };
        let info = jobs.info().await?;
        let stop = self.tasks().stopping().child_token();
        let pulls = QueuePulls::open(jobs.clone()).await;
        let pulls = pulls.map_err(|_| ApiError::Failed(keywork_jetstream::Failure::NotSent))?;
        let queue = Arc::new(Queue::new(jobs, &info, stop));
        // The clean-up of a restart that nobody saw comes before the first job is served. Where it fails
        // now, the dispatcher tries again before it asks for anything.
        if let Err(error) = queue.check_restart().await {
            tracing::warn!(queue = %name, %error, "failed to look for a restart of NATS");
        }
        self.inner
            .queues
            .lock()
            .insert(name.clone(), Arc::clone(&queue));
        let dispatching = dispatch::run(self.clone(), Arc::clone(&queue), pulls);
        self.tasks().start("dispatch", Fate::Vital, dispatching);
        let keeping = upkeep::run(self.clone(), Arc::clone(&queue));
        self.tasks().start("upkeep", Fate::Vital, keeping);
        Ok(queue)
    }

    /// Forgets a queue that was deleted, and tells those who hold its leases.
    pub(crate) fn close_queue(&self, queue: &Arc<Queue>) {
        {
            let mut queues = self.inner.queues.lock();
            if queues
                .get(&*queue.name)
                .is_some_and(|open| Arc::ptr_eq(open, queue))
            {
                queues.remove(&*queue.name);
            }
        }
        queue.stop.cancel();
        let (lost, sessions) = {
            let mut state = queue.state.lock();
            let lost = state.leases.lose_all(u64::MAX, LostReason::Cancelled);
            (lost, state.roster.sessions())
        };
        queue.tell_lost(self, &lost, LostReason::Cancelled);
        for session in sessions {
            send_away(&session, GoAwayReason::QueueDeleted, Duration::from_secs(2));
        }
    }

    // ---- sessions ----

    pub(crate) fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.inner.sessions.lock().by_id.get(&id).map(Arc::clone)
    }

    /// All sessions of a worker on this server, closed ones with leases included.
    pub(crate) fn sessions_of(&self, worker: &WorkerId) -> Vec<Arc<Session>> {
        let sessions = self.inner.sessions.lock();
        let ids = sessions
            .by_worker
            .get(worker)
            .map_or(&[][..], Vec::as_slice);
        ids.iter()
            .filter_map(|id| sessions.by_id.get(id).map(Arc::clone))
            .collect()
    }

    /// Makes a session known.
    pub(crate) fn admit(&self, session: &Arc<Session>) {
        let mut sessions = self.inner.sessions.lock();
        sessions.by_id.insert(session.id, Arc::clone(session));
        sessions
            .by_worker
            .entry(session.worker.clone())
            .or_default()
            .push(session.id);
    }

    /// Forgets sessions that are closed and hold nothing.
    pub(crate) fn forget_closed(&self) {
        let mut holding = std::collections::HashSet::new();
        for queue in self.all_open() {
            holding.extend(queue.state.lock().leases.holders());
        }
        let mut sessions = self.inner.sessions.lock();
        sessions
            .by_id
            .retain(|id, session| !session.is_closed() || holding.contains(id));
        let Sessions { by_id, by_worker } = &mut *sessions;
        by_worker.retain(|_, ids| {
            ids.retain(|id| by_id.contains_key(id));
            !ids.is_empty()
        });
    }

    /// A lease of this session ended: it has room for another.
    pub(crate) fn give_back_place(&self, queue: &Queue, session: u64) {
        self.give_back_places(queue, session, 1);
    }

    /// So many leases of this session ended.
    pub(crate) fn give_back_places(&self, queue: &Queue, session: u64, places: u32) {
        if let Some(session) = self.session(session) {
            session.give_back(queue, places);
            session.refresh();
        }
    }

    /// Asks all sessions to go, as the server stops.
    pub fn send_sessions_away(&self, grace: Duration) {
        let sessions: Vec<_> = self
            .inner
            .sessions
            .lock()
            .by_id
            .values()
            .map(Arc::clone)
            .collect();
        for session in sessions {
            send_away(&session, GoAwayReason::Draining, grace);
        }
    }

    /// How many sessions are open.
    pub fn open_sessions(&self) -> usize {
        self.inner
            .sessions
            .lock()
            .by_id
            .values()
            .filter(|s| !s.is_closed())
            .count()
    }

    /// Says that this server stops with no lease out, where that is so: then a restart of NATS after it
    /// needs no wait. Call it when all sessions have ended.
    pub async fn record_clean_stop(&self) {
        if !peers::alone(self).await {
            return;
        }
        for queue in self.all_open() {
            if let Err(error) = queue.record_clean_stop().await {
                tracing::debug!(queue = %queue.name, %error, "failed to record a clean stop");
            }
        }
    }

    // ---- handing back ----

    /// Gives held leases back that no worker may go on with, at no attempt's cost.
    pub(crate) fn hand_back(&self, queue: &Arc<Queue>, sequences: Vec<u64>) {
        let lost: Vec<(u64, Lease)> = {
            let mut state = queue.state.lock();
            let lose = |n| Some((n, state.leases.lose(n, LostReason::Superseded)?));
            sequences.into_iter().filter_map(lose).collect()
        };
        for (sequence, lease) in lost {
            self.give_back_place(queue, lease.session);
            let queue = Arc::clone(queue);
            self.tasks()
                .start("hand-back", Fate::OneCaller, async move {
                    if let Err(error) = settle::hand_back(&queue, sequence).await {
                        // JetStream gives it to others when its wait runs out.
                        tracing::warn!(queue = %queue.name, %error, "failed to hand a job back");
                    }
                });
        }
    }

    /// Gives all held leases of a session back.
    pub(crate) fn hand_back_all(&self, session: &Session) {
        for served in &session.queues {
            let held = served.queue.state.lock().leases.held_by(session.id);
            self.hand_back(&served.queue, held);
        }
    }

    /// The stream broke: where a queue has a disconnect grace, the session's leases go to others after it.
    pub(crate) fn begin_grace(&self, session: &Session) {
        let now = Instant::now();
        for served in &session.queues {
            let Some(grace) = served.queue.config().disconnect_grace else {
                continue;
            };
            let mut state = served.queue.state.lock();
            for sequence in state.leases.held_by(session.id) {
                if let Some(lease) = state.leases.get_mut(sequence) {
                    lease.give_up_at = Some(now + grace);
                }
            }
        }
    }

    /// Gives leases up whose worker broke off.
    pub(crate) fn give_up(&self, queue: &Arc<Queue>, given_up: Vec<(u64, Lease)>) {
        for (sequence, lease) in given_up {
            self.give_back_place(queue, lease.session);
            let broke_at = queue.config().disconnect_grace.unwrap_or_default();
            let since = clock::now().minus(broke_at);
            let (engine, queue) = (self.clone(), Arc::clone(queue));
            self.tasks().start("give-up", Fate::OneCaller, async move {
                // Its worker may have gone on with it at another server.
                if peers::who_holds(&engine, &queue.name, sequence)
                    .await
                    .is_some()
                {
                    queue.state.lock().leases.remove(sequence);
                    return;
                }
                let config = queue.config();
                if let Err(error) = settle::give_up(&queue, sequence, &config, since).await {
                    tracing::warn!(queue = %queue.name, %error, "failed to give a job up");
                }
            });
        }
    }

    /// Another server ended a lease of ours.
    pub(crate) fn ended_elsewhere(&self, name: &QueueName, sequence: u64) {
        let Some(queue) = self.open_already(name) else {
            return;
        };
        let held = {
            let state = queue.state.lock();
            state
                .leases
                .get(sequence)
                .is_some_and(|lease| lease.phase == Phase::Held)
        };
        if held {
            queue.end_leases(self, &[sequence]);
        }
    }
}

/// The secret that all servers share: this one where there is none yet.
async fn shared_secret(nats: &Nats, ours: Vec<u8>) -> Result<Vec<u8>, ApiError> {
    nats.set_once("token-secret", ours).await
}

/// Asks a session to go. One that has ended does not need to know.
pub(crate) fn send_away(session: &Session, reason: GoAwayReason, grace: Duration) {
    let reconnect_delay = Duration::from_millis(rand::random_range(50..1_000));
    drop(session.tell(SessionEvent::GoAway(GoAway {
        reason,
        grace,
        reconnect_delay,
    })));
}
