//! Offering jobs: one at a time, or many in flight.

use std::{collections::HashMap, sync::Arc};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use keywork_jetstream::{ApiError, Completions, Failure, Reply, Stored, api::Published, clock};
use keywork_model::{Job, JobId, Mark, QueueName, Submission, Violation, decide};
use tokio::time::{Duration, Instant, sleep};

use crate::{
    engine::Engine,
    error::OpenError,
    queue::Queue,
    settle,
    view::{JobState, JobView},
};

/// How long a submit is tried again while its key is in motion or no leader answers.
const TRY_FOR: Duration = Duration::from_secs(4);

/// What to do when the key is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Answer with the job that holds it.
    Reject,
    /// Answer with an error that names it.
    Fail,
}

/// How a submit ended.
#[derive(Clone, Debug)]
pub enum SubmitAnswer {
    /// The job was accepted.
    Created(Box<JobView>),
    /// This request id was accepted before.
    Duplicate(Box<JobView>),
    /// The key has a job: this one.
    AlreadyOutstanding(Box<JobView>),
}

/// How a submit failed.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The queue cannot be served.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The request is wrong.
    #[error(transparent)]
    Invalid(#[from] Violation),
    /// The key has a job, and the caller wanted an error then.
    #[error("the key has an outstanding job: {}", .0.job.id)]
    KeyBusy(Box<JobView>),
    /// The queue is as deep as it may be.
    #[error("the queue has reached its limit of {limit} outstanding jobs")]
    QueueFull {
        /// The limit.
        limit: u64,
    },
    /// NATS failed.
    #[error(transparent)]
    Nats(#[from] ApiError),
}

/// An offer on its way.
#[derive(Debug)]
struct Offer {
    queue: Arc<Queue>,
    subject: String,
    job: Job,
    dedupe: Option<String>,
    on_conflict: OnConflict,
    began: Instant,
}

type Concluded = Result<SubmitAnswer, SubmitError>;

impl Engine {
    /// Offers one job.
    ///
    /// # Errors
    /// How it failed, and so whether anything may have happened.
    pub async fn submit(
        &self,
        queue: &QueueName,
        submission: Submission,
        on_conflict: OnConflict,
    ) -> Concluded {
        let queue = self.open_sound(queue).await?;
        let offer = prepare(&queue, submission, on_conflict)?;
        if queue.full() {
            return refuse_full(self, offer).await;
        }
        let published = offer.publish().await;
        conclude(self, offer, published).await
    }
}

/// Many offers in flight, answered in any order.
pub struct Submits {
    engine: Engine,
    completions: Completions<(u64, Offer)>,
    slow: FuturesUnordered<BoxFuture<'static, Slow>>,
    /// How many offers those are, and the crowds.
    slow_offers: usize,
    /// Offers that wait for the next look at their busy key, while one is under way.
    crowds: HashMap<BusyKey, Vec<(u64, Offer)>>,
}

/// A stream's making and a subject in it.
type BusyKey = (u64, String);

/// What takes longer than one answer of JetStream's.
enum Slow {
    /// One offer ended.
    Ended(u64, Concluded),
    /// The look at a busy key: what holds it, if anything was found.
    Looked(BusyKey, Vec<(u64, Offer)>, Option<Box<JobView>>),
}

impl std::fmt::Debug for Submits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Submits")
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

impl Submits {
    /// Nothing in flight.
    pub fn new(engine: &Engine) -> Self {
        let completions = Completions::default();
        Self {
            engine: engine.clone(),
            completions,
            slow: FuturesUnordered::new(),
            slow_offers: 0,
            crowds: HashMap::new(),
        }
    }

    /// How many answers are still to come.
    pub fn in_flight(&self) -> usize {
        self.completions.len() + self.slow_offers
    }

    /// Offers one job. What can be said at once is answered; everything else comes from
    /// [`Submits::answers`], under `id`.
    ///
    /// # Errors
    /// How it failed at once.
    pub fn offer(
        &mut self,
        id: u64,
        name: &QueueName,
        submission: Submission,
        on_conflict: OnConflict,
    ) -> Result<(), SubmitError> {
        let open = self.engine.open_already(name);
        let Some(queue) = open.filter(|queue| queue.sound() && !queue.full()) else {
            let (engine, name) = (self.engine.clone(), name.clone());
            self.go_slow(async move { (id, engine.submit(&name, submission, on_conflict).await) });
            return Ok(());
        };
        let offer = prepare(&queue, submission, on_conflict)?;
        let (ticket, (_, offer)) = self.completions.remember((id, offer));
        let (subject, dedupe) = (offer.subject.clone(), offer.dedupe.clone());
        queue.jobs.submit(ticket, subject, &offer.job, dedupe);
        Ok(())
    }

    /// Waits for answers and takes all that are there. Can be dropped while it waits, and loses nothing.
    pub async fn answers(&mut self) -> Vec<(u64, Concluded)> {
        loop {
            tokio::select! {
                replies = self.completions.ready() => {
                    let answers = self.take(replies);
                    if !answers.is_empty() {
                        return answers;
                    }
                }
                Some(slow) = self.slow.next(), if !self.slow.is_empty() => {
                    let answers = match slow {
                        Slow::Ended(id, answer) => vec![(id, answer)],
                        Slow::Looked(key, offers, found) => self.looked(key, offers, found),
                    };
                    self.slow_offers -= answers.len();
                    if !answers.is_empty() {
                        return answers;
                    }
                }
            }
        }
    }

    fn take(&mut self, replies: Vec<((u64, Offer), Reply)>) -> Vec<(u64, Concluded)> {
        let mut answers = Vec::with_capacity(replies.len());
        let mut busy: HashMap<BusyKey, Vec<(u64, Offer)>> = HashMap::new();
        for ((id, offer), reply) in replies {
            let engine = self.engine.clone();
            match reply.published() {
                Published::Stored(_) => answers.push((id, Ok(offer.created()))),
                Published::KeyBusy => {
                    let key = (offer.queue.jobs.incarnation(), offer.subject.clone());
                    busy.entry(key).or_default().push((id, offer));
                }
                published @ (Published::Duplicate(_)
                | Published::Full(_)
                | Published::WrongLast(_)
                | Published::InFlight
                | Published::Refused(_)
                | Published::Failed(_)) => {
                    self.go_slow(async move { (id, conclude(&engine, offer, published).await) });
                }
            }
        }
        for (key, offers) in busy {
            self.slow_offers += offers.len();
            match self.crowds.get_mut(&key) {
                Some(crowd) => crowd.extend(offers),
                None => self.look(key, offers),
            }
        }
        answers
    }

    fn go_slow(&mut self, future: impl Future<Output = (u64, Concluded)> + Send + 'static) {
        self.slow_offers += 1;
        self.slow.push(Box::pin(async move {
            let (id, answer) = future.await;
            Slow::Ended(id, answer)
        }));
    }

    /// Looks at what holds a key, for all these offers at once. Those that find it busy meanwhile gather
    /// for the next look, for this one may have been too early for them.
    fn look(&mut self, key: BusyKey, offers: Vec<(u64, Offer)>) {
        self.crowds.insert(key.clone(), Vec::new());
        self.slow.push(Box::pin(async move {
            let found = match offers.first() {
                Some((_, offer)) => occupant(offer).await,
                None => Ok(None),
            };
            Slow::Looked(key, offers, found.ok().flatten().map(Box::new))
        }));
    }

    /// Answers the offers that a look was for. Where it found nothing or failed, each goes on by itself.
    fn looked(
        &mut self,
        key: BusyKey,
        offers: Vec<(u64, Offer)>,
        found: Option<Box<JobView>>,
    ) -> Vec<(u64, Concluded)> {
        if let Some(crowd) = self.crowds.remove(&key).filter(|crowd| !crowd.is_empty()) {
            self.look(key, crowd);
        }
        if let Some(view) = found {
            let answer = |(id, offer): (u64, Offer)| (id, offer.busy((*view).clone()));
            return offers.into_iter().map(answer).collect();
        }
        self.slow_offers -= offers.len();
        for (id, offer) in offers {
            let engine = self.engine.clone();
            self.go_slow(async move { (id, conclude(&engine, offer, Published::KeyBusy).await) });
        }
        Vec::new()
    }
}

fn prepare(
    queue: &Arc<Queue>,
    submission: Submission,
    on_conflict: OnConflict,
) -> Result<Offer, SubmitError> {
    let now = clock::now();
    submission.check(&queue.config(), now)?;
    let dedupe = submission.request_id.map(|id| id.to_string());
    let id = submission
        .request_id
        .unwrap_or_else(|| JobId::new(now, rand::random()));
    let subject = queue.jobs.subject(&submission.key);
    let job = Job {
        id,
        key: submission.key,
        payload: submission.payload,
        content_type: submission.content_type,
        attributes: submission.attributes,
        attempt: 1,
        max_attempts: submission.max_attempts,
        backoff: submission.backoff,
        submitted_at: now,
        not_before: submission.not_before.filter(|at| *at > now),
        expires_at: submission.expires_at,
        last_error: String::new(),
        reseated: false,
        mark: Mark::None,
    };
    let queue = Arc::clone(queue);
    Ok(Offer {
        queue,
        subject,
        job,
        dedupe,
        on_conflict,
        began: Instant::now(),
    })
}

impl Offer {
    async fn publish(&self) -> Published {
        let (subject, dedupe) = (self.subject.clone(), self.dedupe.clone());
        self.queue.jobs.submit_now(subject, &self.job, dedupe).await
    }

    fn created(self) -> SubmitAnswer {
        self.queue.count_accepted();
        let waits = self.job.not_before.is_some();
        let state = if waits {
            JobState::Scheduled
        } else {
            JobState::Queued
        };
        SubmitAnswer::Created(Box::new(self.queue.plain_view(self.job, state)))
    }

    /// The job that holds the key may be this submit's own: JetStream forgets an id when its window is
    /// over, and when it restarts after the job was stored anew.
    fn busy(&self, view: JobView) -> Concluded {
        if self.dedupe.is_some() && view.job.id == self.job.id {
            return Ok(SubmitAnswer::Duplicate(Box::new(view)));
        }
        match self.on_conflict {
            OnConflict::Reject => Ok(SubmitAnswer::AlreadyOutstanding(Box::new(view))),
            OnConflict::Fail => Err(SubmitError::KeyBusy(Box::new(view))),
        }
    }
}

/// Makes JetStream's answer the caller's, asking again where it says neither yes nor no.
async fn conclude(engine: &Engine, offer: Offer, mut published: Published) -> Concluded {
    let mut pause = Duration::from_millis(1);
    loop {
        let over = offer.began.elapsed() >= TRY_FOR;
        match published {
            Published::Stored(_) => return Ok(offer.created()),
            Published::Duplicate(sequence) => return duplicate(offer, sequence).await,
            Published::KeyBusy | Published::WrongLast(_) | Published::Full(_) => {
                if let Some(view) = occupant(&offer).await? {
                    return offer.busy(view);
                }
                if let Published::Full(refusal) = published {
                    return Err(ApiError::Refused(refusal).into());
                }
                if over {
                    return Err(ApiError::Failed(Failure::NoResponders).into());
                }
            }
            Published::Failed(Failure::NoResponders) if !over => {
                // Perhaps the queue was deleted: then it is made anew, or unknown.
                if gone(&offer.queue).await {
                    engine.close_queue(&offer.queue);
                    return again(engine, offer).await;
                }
            }
            Published::InFlight if !over => {}
            Published::InFlight => return Err(ApiError::Failed(Failure::TimedOut).into()),
            Published::Failed(failure) => return Err(ApiError::Failed(failure).into()),
            Published::Refused(refusal) => return Err(ApiError::Refused(refusal).into()),
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(250));
        published = offer.publish().await;
    }
}

async fn gone(queue: &Queue) -> bool {
    matches!(
        queue.jobs.info().await,
        Err(keywork_jetstream::queues::QueueError::Unknown(_))
    )
}

/// Offers the same job to a queue that was deleted meanwhile.
async fn again(engine: &Engine, offer: Offer) -> Concluded {
    let queue = engine.open_sound(&offer.queue.name).await?;
    let offer = Offer { queue, ..offer };
    match offer.publish().await {
        Published::Stored(_) => Ok(offer.created()),
        Published::Duplicate(sequence) => duplicate(offer, sequence).await,
        Published::KeyBusy => match occupant(&offer).await? {
            Some(view) => offer.busy(view),
            None => Err(ApiError::Failed(Failure::NoResponders).into()),
        },
        Published::Failed(failure) => Err(ApiError::Failed(failure).into()),
        Published::Refused(refusal) | Published::Full(refusal) => {
            Err(ApiError::Refused(refusal).into())
        }
        Published::WrongLast(_) | Published::InFlight => {
            Err(ApiError::Failed(Failure::NoResponders).into())
        }
    }
}

/// The job that holds the key. What only seems to hold it is finished on the way: then there is none, and
/// the submit may be tried again.
async fn occupant(offer: &Offer) -> Result<Option<JobView>, SubmitError> {
    let queue = &offer.queue;
    let Some(stored) = queue.jobs.read_key(&offer.subject).await? else {
        return Ok(None);
    };
    if finish_leftover(queue, &stored).await? {
        return Ok(None);
    }
    let state = queue.state_now(&stored).await;
    Ok(Some(queue.view(stored, state)))
}

/// Finishes what a crash left under a key, or a job that nobody can start any more. Answers whether the
/// key is free now.
pub(crate) async fn finish_leftover(queue: &Queue, stored: &Stored) -> Result<bool, ApiError> {
    match stored.job.mark {
        Mark::Tombstone => settle::remove(queue, stored).await?,
        Mark::Doomed(reason) => {
            let (subject, sequence) = (&stored.subject, stored.sequence);
            settle::finish_dead(queue, subject, sequence, &stored.job, reason).await?;
            true
        }
        Mark::None if decide::expired(&stored.job, clock::now()) => {
            return expire(queue, stored).await;
        }
        Mark::None => return Ok(false),
    };
    Ok(true)
}

/// A job that is too late to start and was never delivered: no server would lease it now.
async fn expire(queue: &Queue, stored: &Stored) -> Result<bool, ApiError> {
    let Ok(info) = queue.jobs.info().await else {
        return Ok(false);
    };
    if stored.sequence <= info.delivered && stored.job.not_before.is_none() {
        return Ok(false);
    }
    let error = "not started before expires_at".into();
    settle::doom(queue, stored, keywork_model::DeadReason::Expired, error).await?;
    Ok(true)
}

async fn duplicate(offer: Offer, sequence: u64) -> Concluded {
    let queue = Arc::clone(&offer.queue);
    if let Some(stored) = queue.jobs.read_key_twice(&offer.subject).await?
        && stored.job.id == offer.job.id
        && stored.job.mark == Mark::None
    {
        let state = queue.state_now(&stored).await;
        return Ok(SubmitAnswer::Duplicate(Box::new(queue.view(stored, state))));
    }
    if let Some(first) = queue.jobs.read_sequence(sequence).await?
        && first.subject != offer.subject
    {
        let problem = "was used for another key within the dedupe window";
        return Err(Violation::new("request_id", problem).into());
    }
    let ended = queue.plain_view(offer.job, JobState::Ended);
    Ok(SubmitAnswer::Duplicate(Box::new(ended)))
}

/// Whether a queue that was full by what was known of it is so by what JetStream has.
pub(crate) async fn still_full(queue: &Queue) -> bool {
    let before = queue.before_read();
    if let Ok(info) = queue.jobs.info().await {
        queue.learn(&info, before);
    }
    queue.full()
}

/// A full queue still says of a busy key that it is busy, and of an offer that was accepted before that
/// it was.
async fn refuse_full(engine: &Engine, offer: Offer) -> Concluded {
    let queue = Arc::clone(&offer.queue);
    if let Some(view) = occupant(&offer).await? {
        return offer.busy(view);
    }
    if !still_full(&queue).await {
        let published = offer.publish().await;
        return conclude(engine, offer, published).await;
    }
    if let Some(id) = &offer.dedupe
        && let Some(sequence) = queue.jobs.remembered(id).await.map_err(ApiError::from)?
    {
        return duplicate(offer, sequence).await;
    }
    Err(SubmitError::QueueFull {
        limit: queue.config().max_depth,
    })
}
