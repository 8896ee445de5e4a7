//! Offering one job: the builder, and the retry that keeps to one `request_id`.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use super::Client;
use crate::{
    Error, SubmitOutcome,
    backoff::Backoff,
    errors::FieldViolation,
    raw::{self, submit_request::Start},
    wire,
};

/// How long before its deadline a submit is tried for the last time. A try that were given less would tell nothing, and
/// hide what the one before told.
const LAST_TRY: Duration = Duration::from_millis(50);

/// A job to offer.
///
/// ```
/// use std::time::Duration;
/// use keywork_sdk::Submit;
///
/// let submit = Submit::new("reconcile", "cluster-eu-1")
///     .payload("v1")
///     .attribute("traceparent", "00-…")
///     .delay(Duration::from_secs(5));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Submit {
    request: raw::SubmitRequest,
    /// What the request cannot say, and is refused for before it is sent.
    faults: Vec<FieldViolation>,
}

impl Submit {
    /// A job of `queue`, about `key`, with an empty payload.
    pub fn new(queue: impl Into<String>, key: impl Into<String>) -> Self {
        Self::from(raw::SubmitRequest {
            queue: queue.into(),
            key: key.into(),
            ..Default::default()
        })
    }

    /// What the handler gets: at most the queue's limit, 512 KiB by default.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.request.payload = payload.into();
        self
    }

    /// Media type of the payload. Default: none.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.request.content_type = content_type.into();
        self
    }

    /// Adds one attribute.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.attributes.insert(name.into(), value.into());
        self
    }

    /// All attributes: at most 64, 16 KiB in all.
    #[must_use]
    pub fn attributes(mut self, attributes: HashMap<String, String>) -> Self {
        self.request.attributes = attributes;
        self
    }

    /// Names this submit; it becomes the job's id, and offering it again finds the same job. Default: the
    /// client makes one, and keeps it over its own retries.
    #[must_use]
    pub fn request_id(mut self, id: Uuid) -> Self {
        self.request.request_id = id.to_string();
        self
    }

    /// What to do when the key is busy. Default: [`OnConflict::Reject`].
    #[must_use]
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.request.on_conflict = raw::OnConflict::from(on_conflict).into();
        self
    }

    /// Start no sooner than this long from now; the key is taken at once. Not together with `start_at`.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        if matches!(self.request.start, Some(Start::StartAt(_))) {
            self.two_starts();
        }
        self.request.start = Some(Start::Delay(wire::from_duration(delay)));
        self
    }

    /// Start no sooner than at this time; the key is taken at once. Not together with `delay`.
    #[must_use]
    pub fn start_at(mut self, time: SystemTime) -> Self {
        if matches!(self.request.start, Some(Start::Delay(_))) {
            self.two_starts();
        }
        self.request.start = Some(Start::StartAt(time.into()));
        self
    }

    fn two_starts(&mut self) {
        let text = "must not be set together with delay";
        self.faults.push(FieldViolation::new("start_at", text));
    }

    /// Make it a dead letter when it has not started by then. Default: never.
    #[must_use]
    pub fn expires_at(mut self, time: SystemTime) -> Self {
        self.request.expires_at = Some(time.into());
        self
    }

    /// Attempts before it becomes a dead letter: 1 to 1,000. Default: the queue's.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        if attempts == 0 {
            let text = "must be from 1 to 1000, and is 0";
            self.faults.push(FieldViolation::new("max_attempts", text));
        }
        self.request.max_attempts = attempts;
        self
    }

    /// The first wait between attempts, and the longest. Default: the queue's.
    #[must_use]
    pub fn backoff(mut self, initial: Duration, max: Duration) -> Self {
        self.request.backoff = Some(raw::Backoff {
            initial: Some(wire::from_duration(initial)),
            max: Some(wire::from_duration(max)),
        });
        self
    }

    /// The request.
    ///
    /// # Errors
    /// It contradicts itself.
    pub(crate) fn into_request(self) -> Result<raw::SubmitRequest, Error> {
        self.check().map(|()| self.request)
    }

    fn check(&self) -> Result<(), Error> {
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(Error::invalid(self.faults.clone()))
        }
    }

    /// The request, with an id made where the caller gave none.
    pub(crate) fn into_offer(self) -> Offer {
        let mut submit = self;
        let own_id = submit.request.request_id.is_empty();
        if own_id {
            submit.request.request_id = Uuid::now_v7().to_string();
        }
        Offer { submit, own_id }
    }

    /// The queue that it is offered to.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.request.queue
    }

    /// The key that it is about.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.request.key
    }

    /// The attributes that it has so far.
    #[must_use]
    pub fn attributes_mut(&mut self) -> &mut HashMap<String, String> {
        &mut self.request.attributes
    }
}

impl From<raw::SubmitRequest> for Submit {
    fn from(request: raw::SubmitRequest) -> Self {
        Self {
            request,
            faults: Vec::new(),
        }
    }
}

/// A request that is ready to be sent, as often as it takes.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// With its `request_id`.
    pub(crate) submit: Submit,
    /// This crate made the id.
    pub(crate) own_id: bool,
}

impl Offer {
    pub(crate) fn request(&self) -> &raw::SubmitRequest {
        &self.submit.request
    }

    /// Whether it is to be sent.
    ///
    /// # Errors
    /// It contradicts itself: it is answered with this.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.submit.check()
    }

    /// Reads the result of one item of a batch or a stream.
    pub(crate) fn read(&self, result: Option<raw::SubmitResult>) -> Result<SubmitOutcome, Error> {
        match result.and_then(|result| result.result) {
            Some(raw::submit_result::Result::Response(response)) => {
                SubmitOutcome::read(response, self.own_id)
            }
            Some(raw::submit_result::Result::Error(error)) => Err(Error::of_item(error)),
            None => SubmitOutcome::read(raw::SubmitResponse::default(), self.own_id),
        }
    }
}

/// What to do when the key has an outstanding job already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnConflict {
    /// Answer [`SubmitOutcome::AlreadyOutstanding`].
    #[default]
    Reject,
    /// Run the key once more after the current job, with the newest payload.
    Rerun,
    /// Take the place of a job that has not started.
    Replace,
    /// Answer with an error of the code `ALREADY_EXISTS`.
    Fail,
}

impl From<OnConflict> for raw::OnConflict {
    fn from(on_conflict: OnConflict) -> Self {
        match on_conflict {
            OnConflict::Reject => Self::Reject,
            OnConflict::Rerun => Self::Rerun,
            OnConflict::Replace => Self::Replace,
            OnConflict::Fail => Self::Fail,
        }
    }
}

impl Client {
    /// Offers one job. While servers are away it tries again, with the same `request_id`, until the
    /// client's submit deadline.
    ///
    /// # Errors
    /// The job was refused, or no server answered in time; [`Error::has_no_side_effects`] says whether the
    /// job may have been accepted.
    pub async fn submit(&self, submit: Submit) -> Result<SubmitOutcome, Error> {
        let offer = self.prepare(submit);
        let result = match offer.check() {
            Ok(()) => self.submit_until_answered(&offer).await,
            Err(error) => Err(error),
        };
        self.conclude(&offer, result)
    }

    /// Makes an offer of what interceptors have seen.
    pub(super) fn prepare(&self, mut submit: Submit) -> Offer {
        self.options().interceptors.before(&mut submit);
        submit.into_offer()
    }

    /// Lets interceptors see how an offer ended.
    pub(super) fn conclude(
        &self,
        offer: &Offer,
        result: Result<SubmitOutcome, Error>,
    ) -> Result<SubmitOutcome, Error> {
        self.options().interceptors.after(&offer.submit, &result);
        result
    }

    async fn submit_until_answered(&self, offer: &Offer) -> Result<SubmitOutcome, Error> {
        let deadline = Instant::now() + self.options().submit_deadline;
        let mut patience = Patience::new(self, deadline);
        loop {
            let error = match self.submit_once(offer, deadline).await {
                Ok(response) => return SubmitOutcome::read(response, offer.own_id),
                Err(error) => error,
            };
            patience.after(error).await?;
        }
    }

    async fn submit_once(
        &self,
        offer: &Offer,
        deadline: Instant,
    ) -> Result<raw::SubmitResponse, Error> {
        let place = self.channels.place();
        let mut client = self.raw();
        let limit = self.options().limit(deadline);
        match timeout(limit, client.submit(offer.request().clone())).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.channels.error(place, status)),
            Err(_) => Err(self.channels.unanswered(place)),
        }
    }
}

/// When what failed now is tried again: after the pause, and where that were too late, shortly before the deadline. None:
/// the last try has been made.
pub(crate) fn again(now: Instant, pause: Duration, deadline: Instant) -> Option<Instant> {
    let last = deadline.checked_sub(LAST_TRY)?;
    (now < last).then(|| last.min(now + pause))
}

/// How long a call that is safe to repeat is repeated.
#[derive(Debug)]
pub(crate) struct Patience {
    client: Client,
    /// The server in use when the try began: the one to turn away from.
    place: usize,
    deadline: Instant,
    backoff: Backoff,
    /// Some try may have had an effect.
    doubt: bool,
}

impl Patience {
    pub(crate) fn new(client: &Client, deadline: Instant) -> Self {
        Self {
            client: client.clone(),
            place: client.channels.place(),
            deadline,
            backoff: Backoff::default(),
            doubt: false,
        }
    }

    /// Something was answered: count from here again.
    pub(crate) fn renew(&mut self, deadline: Instant) {
        self.deadline = deadline;
        self.backoff.reset();
    }

    /// When the last try must have been answered.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Waits before the next try, at the next server; hands the error back where another try is no use or the last one
    /// has been made.
    pub(crate) async fn after(&mut self, error: Error) -> Result<(), Error> {
        self.doubt |= !error.has_no_side_effects();
        let pause = self
            .backoff
            .next()
            .max(error.retry_after().unwrap_or_default());
        let again = again(Instant::now(), pause, self.deadline).filter(|_| error.is_outage());
        let Some(again) = again else {
            return Err(error.with_doubt(self.doubt));
        };
        self.client.channels.warn_of_outage(self.place, &error);
        self.client.channels.turn_away(self.place);
        sleep_until(again).await;
        self.place = self.client.channels.place();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pause_is_cut_so_that_a_try_is_made_shortly_before_the_deadline() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let pause = Duration::from_millis(700);
        assert_eq!(again(at(0), pause, at(2_000)), Some(at(700)));
        assert_eq!(again(at(1_400), pause, at(2_000)), Some(at(1_950)));
        assert_eq!(again(at(1_950), pause, at(2_000)), None);
        assert_eq!(again(at(2_100), pause, at(2_000)), None);
    }
}
