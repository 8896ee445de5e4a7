//! Dead letters: looked at, submitted again, deleted.

use keywork_jetstream::{ApiError, Stored, api::Published, clock, dead::DeadLetter};
use keywork_model::{Job, JobKey, Mark, QueueName, limits};

use crate::{
    engine::Engine,
    error::OpenError,
    submit::{SubmitAnswer, SubmitError, finish_leftover, still_full},
    view::JobState,
};

/// A page of dead letters.
#[derive(Debug)]
pub struct DeadPage {
    /// The dead letters, oldest first.
    pub letters: Vec<DeadLetter>,
    /// Where the next page begins; `None`: there are no more.
    pub next: Option<u64>,
    /// The attempts of a job that has no limit of its own.
    pub max_attempts: u32,
}

/// How one redrive ended.
#[derive(Debug)]
pub struct Redriven {
    /// The dead letter.
    pub sequence: u64,
    /// What became of it; `None`: it is not there.
    pub result: Option<Result<SubmitAnswer, SubmitError>>,
}

impl Engine {
    /// Dead letters from a sequence on, of one key where it is given: as many as one message takes.
    ///
    /// # Errors
    /// What failed.
    pub async fn dead(
        &self,
        queue: &QueueName,
        from: u64,
        count: usize,
        key: Option<&JobKey>,
    ) -> Result<DeadPage, OpenError> {
        let queue = self.open_existing(queue).await?;
        let subject = key.map(|key| queue.jobs.subject(key));
        let (mut letters, mut next) = (Vec::new(), Some(from));
        let mut bytes = 0;
        while let Some(at) = next {
            let Some(letter) = queue.jobs.dead_from(at, subject.as_deref()).await? else {
                next = None;
                break;
            };
            bytes += letter.job.message_bytes();
            let too_large = bytes > limits::MESSAGE_BYTES && !letters.is_empty();
            if letters.len() == count || too_large {
                next = Some(letter.sequence);
                break;
            }
            next = Some(letter.sequence + 1);
            letters.push(letter);
        }
        Ok(DeadPage {
            letters,
            next,
            max_attempts: queue.config().max_attempts,
        })
    }

    /// Submits dead letters again, with attempts counted from 1. One whose key is busy stays.
    ///
    /// # Errors
    /// What failed before the first one.
    pub async fn redrive(
        &self,
        queue: &QueueName,
        which: Vec<u64>,
        most: usize,
    ) -> Result<Vec<Redriven>, OpenError> {
        let which = if which.is_empty() {
            self.oldest_dead(queue, most).await?
        } else {
            which
        };
        let mut results = Vec::with_capacity(which.len());
        for sequence in which {
            let result = self.redrive_one(queue, sequence).await.transpose();
            results.push(Redriven { sequence, result });
        }
        Ok(results)
    }

    async fn oldest_dead(&self, queue: &QueueName, most: usize) -> Result<Vec<u64>, OpenError> {
        let (mut oldest, mut next) = (Vec::new(), Some(1));
        while let Some(from) = next.filter(|_| oldest.len() < most) {
            let page = self.dead(queue, from, most - oldest.len(), None).await?;
            oldest.extend(page.letters.iter().map(|letter| letter.sequence));
            next = page.next;
        }
        Ok(oldest)
    }

    /// The dedupe id is made from the dead letter, so that a redrive that is tried again after a crash
    /// neither runs the job twice nor leaves the dead letter.
    async fn redrive_one(
        &self,
        name: &QueueName,
        sequence: u64,
    ) -> Result<Option<SubmitAnswer>, SubmitError> {
        let queue = self.open_existing(name).await?;
        if let Some(drift) = queue.drift() {
            return Err(OpenError::Drift(drift).into());
        }
        let Some(letter) = queue.jobs.dead_letter(sequence).await? else {
            return Ok(None);
        };
        let job = Job {
            attempt: 1,
            submitted_at: clock::now(),
            not_before: None,
            expires_at: None,
            reseated: false,
            mark: Mark::None,
            ..letter.job
        };
        let subject = queue.jobs.subject(&job.key);
        // A full queue still says of a busy key that it is busy.
        let free = queue.full() && queue.jobs.read_key(&subject).await?.is_none();
        if free && still_full(&queue).await {
            let limit = queue.config().max_depth;
            return Err(SubmitError::QueueFull { limit });
        }
        let dedupe = format!("{}.redrive.{sequence}", job.id);
        for _ in 0..3 {
            match queue
                .jobs
                .submit_now(subject.clone(), &job, Some(dedupe.clone()))
                .await
            {
                Published::Stored(_) | Published::Duplicate(_) => {
                    queue.jobs.delete_dead(sequence).await?;
                    queue.count_accepted();
                    let view = queue.plain_view(job, JobState::Queued);
                    return Ok(Some(SubmitAnswer::Created(Box::new(view))));
                }
                Published::KeyBusy | Published::WrongLast(_) | Published::InFlight => {
                    let Some(stored) = queue.jobs.read_key(&subject).await? else {
                        continue;
                    };
                    if !finish_leftover(&queue, &stored).await? {
                        return Ok(Some(busy(&queue, stored).await));
                    }
                }
                Published::Failed(failure) => return Err(ApiError::Failed(failure).into()),
                Published::Refused(refusal) | Published::Full(refusal) => {
                    return Err(ApiError::Refused(refusal).into());
                }
            }
        }
        Err(ApiError::Failed(keywork_jetstream::Failure::NoResponders).into())
    }

    /// Deletes dead letters: these, or all where none is named. Answers how many were there.
    ///
    /// # Errors
    /// What failed.
    pub async fn delete_dead(
        &self,
        queue: &QueueName,
        which: Option<Vec<u64>>,
    ) -> Result<u64, OpenError> {
        let queue = self.open_existing(queue).await?;
        let Some(which) = which else {
            return Ok(queue.jobs.purge_dead().await?);
        };
        let mut deleted = 0;
        for sequence in which {
            deleted += u64::from(queue.jobs.delete_dead(sequence).await?);
        }
        Ok(deleted)
    }
}

async fn busy(queue: &crate::queue::Queue, stored: Stored) -> SubmitAnswer {
    let state = queue.state_now(&stored).await;
    SubmitAnswer::AlreadyOutstanding(Box::new(queue.view(stored, state)))
}
