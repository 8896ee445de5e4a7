//! Making, changing, looking at and deleting queues.

use keywork_jetstream::{
    ApiError,
    queues::{QueueError, QueueInfo},
};
use keywork_model::{QueueConfig, QueueName, Violation};

use crate::{
    engine::Engine,
    error::OpenError,
    lease::LostReason,
    peers::{self, PeerMessage},
    queue::Queue,
};

/// How an administrative call fails.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The queue cannot be served.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Several fields are wrong.
    #[error("{} fields of the configuration break a limit", .0.len())]
    Config(Vec<Violation>),
    /// There is one of that name that differs in these fields.
    #[error("the queue exists, with another {}", .0.join(", "))]
    Exists(Vec<&'static str>),
    /// It holds something, and `force` was not set.
    #[error(
        "the queue has {outstanding} outstanding jobs and {dead} dead letters: set force to delete them too"
    )]
    NotEmpty {
        /// Outstanding jobs.
        outstanding: u64,
        /// Dead letters.
        dead: u64,
    },
    /// NATS failed.
    #[error(transparent)]
    Nats(#[from] ApiError),
}

impl From<QueueError> for AdminError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Exists(fields) => Self::Exists(fields),
            QueueError::Unknown(_) | QueueError::Drift { .. } | QueueError::Api(_) => {
                Self::Open(error.into())
            }
        }
    }
}

/// How often a purge goes after jobs that were stored anew while it ran. One that slips through each
/// time would have to be retried as often within that moment.
const PURGE_AGAIN: usize = 100;
/// How many new jobs a purge looks through for one that was stored anew: more may come for ever.
const MOST_NEW: usize = 1_000;

/// A queue as people are shown it.
#[derive(Debug)]
pub struct QueueView {
    /// Its name.
    pub name: QueueName,
    /// As JetStream keeps it.
    pub info: QueueInfo,
    /// Dead letters.
    pub dead: u64,
    /// Sessions that serve it at this server.
    pub sessions: usize,
}

impl Engine {
    /// Makes a queue. `configure` changes the default configuration, and answers what it could not take:
    /// that is reported together with all limits that are broken.
    ///
    /// # Errors
    /// [`AdminError::Exists`] when there is one with another configuration.
    pub async fn create_queue(
        &self,
        name: &QueueName,
        configure: impl FnOnce(&mut QueueConfig) -> Vec<Violation> + Send,
    ) -> Result<QueueView, AdminError> {
        let config = self.checked(QueueConfig::default(), configure)?;
        self.nats()
            .create_queue(name, &config, self.options().replicas)
            .await?;
        self.queue(name).await
    }

    /// Changes a queue's configuration, in the way that [`Engine::create_queue`] makes one.
    ///
    /// # Errors
    /// [`OpenError::Unknown`] when it is not there.
    pub async fn update_queue(
        &self,
        name: &QueueName,
        configure: impl FnOnce(&mut QueueConfig) -> Vec<Violation> + Send,
    ) -> Result<QueueView, AdminError> {
        let info = self.nats().queue_info(name).await?;
        let config = self.checked(info.config, configure)?;
        // A longer lease needs JetStream's longer wait before anybody is promised it. A shorter wait
        // comes last, when no longer lease can be out: each server's upkeep sees to that.
        if config.ack_wait() > info.ack_wait {
            self.nats().set_ack_wait(name, config.ack_wait()).await?;
        }
        self.nats().update_queue(name, &config).await?;
        self.tell_changed(name).await;
        self.queue(name).await
    }

    fn checked(
        &self,
        mut config: QueueConfig,
        configure: impl FnOnce(&mut QueueConfig) -> Vec<Violation>,
    ) -> Result<QueueConfig, AdminError> {
        let mut bad = configure(&mut config);
        bad.extend(
            config
                .check(self.nats().max_payload())
                .err()
                .unwrap_or_default(),
        );
        if bad.is_empty() {
            Ok(config)
        } else {
            Err(AdminError::Config(bad))
        }
    }

    /// One queue.
    ///
    /// # Errors
    /// [`OpenError::Unknown`] when it is not there.
    pub async fn queue(&self, name: &QueueName) -> Result<QueueView, AdminError> {
        let info = match self.nats().queue_info(name).await {
            // Opening makes what was deleted of it by hand, such as its consumer.
            Err(QueueError::Unknown(_)) => self.open_existing(name).await?.jobs.info().await?,
            info => info?,
        };
        let dead = self.nats().count_dead(name).await?;
        let open = self.open_already(name);
        let sessions = open.map_or(0, |queue| queue.state.lock().roster.len());
        Ok(QueueView {
            name: name.clone(),
            info,
            dead,
            sessions,
        })
    }

    /// The names of all queues, in order.
    ///
    /// # Errors
    /// What failed.
    pub async fn queue_names(&self) -> Result<Vec<QueueName>, AdminError> {
        Ok(self.nats().queue_names().await?)
    }

    /// Deletes a queue.
    ///
    /// # Errors
    /// [`AdminError::NotEmpty`] when it holds something and `force` is not set.
    pub async fn delete_queue(&self, name: &QueueName, force: bool) -> Result<(), AdminError> {
        let view = self.queue(name).await?;
        let outstanding = view.info.messages;
        if !force && (outstanding > 0 || view.dead > 0) {
            return Err(AdminError::NotEmpty {
                outstanding,
                dead: view.dead,
            });
        }
        self.nats().delete_queue(name).await?;
        if let Some(queue) = self.open_already(name) {
            self.close_queue(&queue);
        }
        self.tell_changed(name).await;
        Ok(())
    }

    /// Stops a queue's deliveries, or goes on with them.
    ///
    /// # Errors
    /// [`OpenError::Unknown`] when it is not there.
    pub async fn pause_queue(
        &self,
        name: &QueueName,
        pause: bool,
    ) -> Result<QueueView, AdminError> {
        self.nats().pause_queue(name, pause).await?;
        self.tell_changed(name).await;
        self.queue(name).await
    }

    /// Ends all outstanding jobs of a queue without running them. Answers how many.
    ///
    /// # Errors
    /// [`OpenError::Unknown`] when it is not there.
    pub async fn purge_queue(&self, name: &QueueName) -> Result<u64, AdminError> {
        let queue = self.open_existing(name).await?;
        let mut up_to = queue.jobs.info().await?.last_sequence;
        let mut purged = queue.purge(up_to).await?;
        // A job that was stored anew at that very moment has a sequence beyond.
        for _ in 0..PURGE_AGAIN {
            if !queue.moved_beyond(up_to).await? {
                break;
            }
            up_to = queue.jobs.info().await?.last_sequence;
            purged += queue.purge(up_to).await?;
        }
        let lost = queue
            .state
            .lock()
            .leases
            .lose_all(up_to, LostReason::Cancelled);
        queue.tell_lost(self, &lost, LostReason::Cancelled);
        let message = PeerMessage::Purged {
            queue: name.to_string(),
            up_to,
        };
        peers::tell_all(self, &message).await;
        Ok(purged)
    }

    async fn tell_changed(&self, name: &QueueName) {
        peers::tell_all(
            self,
            &PeerMessage::Changed {
                queue: name.to_string(),
            },
        )
        .await;
    }
}

impl Queue {
    /// Whether a job that was stored anew lies beyond a sequence. It may move on while this looks, and
    /// only ever ahead, so this looks up to the end.
    async fn moved_beyond(&self, sequence: u64) -> Result<bool, ApiError> {
        let mut from = sequence + 1;
        for _ in 0..MOST_NEW {
            let Some(stored) = self.jobs.read_from(from).await? else {
                return Ok(false);
            };
            if stored.from.is_some() {
                return Ok(true);
            }
            from = stored.sequence + 1;
        }
        Ok(false)
    }
}
