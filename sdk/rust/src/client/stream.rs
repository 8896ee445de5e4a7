//! Offering many jobs on one stream: pipelined, bounded in flight, and mended when it breaks.
//!
//! One task reads the offers, keeps those that are unanswered, and sends them again, with the same
//! `request_id`s, after the stream broke.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, stream};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

use super::{
    Client, Submit,
    submit::{Offer, Patience, again},
};
use crate::{Error, SubmitOutcome, raw, tasks};

/// The most offers that are unanswered at a time; servers stop reading at 4,096.
const WINDOW: usize = 4_000;
/// What one message holds at most.
const MESSAGE_OFFERS: usize = 256;
const MESSAGE_BYTES: usize = 1 << 20;
/// Answers that the caller has not taken yet.
const ANSWERS: usize = 1_024;
/// The least wait before an offer is made again after its own error.
const ITEM_PAUSE: Duration = Duration::from_millis(100);

/// One answer: the offer's place in the order of the offers, and how it ended.
type Answer = (usize, Result<SubmitOutcome, Error>);

impl Client {
    /// Offers many jobs, and answers in their order. A bad one spoils no other.
    ///
    /// Unanswered offers are made again, with the same `request_id`s, when the stream breaks; an offer whose
    /// answer is an error has failed for good or stayed unanswered for the client's submit deadline.
    pub async fn submit_many(
        &self,
        submits: impl IntoIterator<Item = Submit>,
    ) -> Vec<Result<SubmitOutcome, Error>> {
        // Made here, where what is around the caller (a span, say) can be seen by interceptors.
        let offers: Vec<Offer> = submits.into_iter().map(|one| self.prepare(one)).collect();
        let lost = Error::local(Code::Internal, "the submitting task ended early").with_doubt(true);
        let mut results = vec![Err(lost); offers.len()];
        let mut answers = self.pump(stream::iter(offers));
        while let Some((index, result)) = answers.next().await {
            results[index] = result;
        }
        results
    }

    /// Offers jobs as they come, and yields each answer, with the offer's place in the order, as soon as it
    /// is there. Dropping the answers ends it.
    ///
    /// Interceptors see each job when it is taken from `submits`.
    pub fn submit_stream<S>(&self, submits: S) -> ReceiverStream<Answer>
    where
        S: Stream<Item = Submit> + Send + 'static,
    {
        let client = self.clone();
        self.pump(submits.map(move |submit| client.prepare(submit)))
    }

    fn pump<S>(&self, offers: S) -> ReceiverStream<Answer>
    where
        S: Stream<Item = Offer> + Send + 'static,
    {
        let (answers, receiver) = mpsc::channel(ANSWERS);
        let pump = Pump {
            client: self.clone(),
            place: self.channels.place(),
            offers: offers.fuse().boxed(),
            exhausted: false,
            next: 0,
            flying: HashMap::new(),
            due: BTreeSet::new(),
            answers,
        };
        // Its fate: it ends when all is answered or when the receiver is dropped.
        drop(tasks::start(within_the_callers_trace(pump.run())));
        ReceiverStream::new(receiver)
    }
}

/// Interceptors that read the current trace find the caller's also in the task.
#[cfg(feature = "otel")]
fn within_the_callers_trace<T>(run: impl Future<Output = T>) -> impl Future<Output = T> {
    use opentelemetry::trace::FutureExt as _;
    run.with_current_context()
}

#[cfg(not(feature = "otel"))]
fn within_the_callers_trace<T>(run: impl Future<Output = T>) -> impl Future<Output = T> {
    run
}

/// The stream's state, which outlives any one connection.
struct Pump {
    client: Client,
    /// The server that the stream goes to.
    place: usize,
    offers: stream::BoxStream<'static, Offer>,
    exhausted: bool,
    next: u64,
    /// Unanswered, by correlation id.
    flying: HashMap<u64, Flying>,
    /// Those of them that are to be sent, and when.
    due: BTreeSet<(Instant, u64)>,
    answers: mpsc::Sender<Answer>,
}

struct Flying {
    offer: Offer,
    since: Instant,
    doubt: bool,
}

/// Why a connection's part ended.
enum End {
    /// All is answered, or nobody listens.
    Done,
    Broken(Error),
}

impl Pump {
    async fn run(mut self) {
        let mut patience = Patience::new(&self.client, self.deadline());
        loop {
            while self.flying.is_empty() {
                // There is nothing to connect for, and nothing that has waited.
                if self.is_done() || self.wait_for_offer().await.is_err() {
                    return;
                }
                patience.renew(self.deadline());
            }
            let error = match self.connection(&mut patience).await {
                End::Done => return,
                End::Broken(error) => error,
            };
            self.flying
                .values_mut()
                .for_each(|flying| flying.doubt |= !error.has_no_side_effects());
            if let Err(error) = patience.after(error).await {
                return self.give_up(error).await;
            }
            let now = Instant::now();
            self.due = self.flying.keys().map(|id| (now, *id)).collect();
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.client.options().submit_deadline
    }

    fn is_done(&self) -> bool {
        (self.exhausted && self.flying.is_empty()) || self.answers.is_closed()
    }

    /// Until there is an offer, or there will be none.
    async fn wait_for_offer(&mut self) -> Result<(), End> {
        let answers = self.answers.clone();
        tokio::select! {
            offer = self.offers.next(), if !self.exhausted => self.took(offer).await,
            () = answers.closed() => Err(End::Done),
        }
    }

    /// Works on one stream until everything is answered or it breaks.
    async fn connection(&mut self, patience: &mut Patience) -> End {
        if self.is_done() {
            return End::Done;
        }
        let (sender, requests) = mpsc::channel(2);
        let channels = Arc::clone(&self.client.channels);
        self.place = channels.place();
        let mut client = self.client.raw();
        let limit = self.client.options().call_timeout;
        let opened = self.client.options().limit(patience.deadline());
        let mut inbound =
            match timeout(opened, client.submit_stream(ReceiverStream::new(requests))).await {
                Ok(Ok(response)) => response.into_inner(),
                Ok(Err(status)) => return End::Broken(channels.error(self.place, status)),
                Err(_) => return End::Broken(channels.unanswered(self.place)),
            };
        let mut heard = Instant::now();
        loop {
            let idle = self.flying.is_empty();
            if let Err(end) = self.take_ready().await {
                return end;
            }
            if self.is_done() {
                return End::Done;
            }
            let step = self.step(&sender, &mut inbound, heard + limit).await;
            // While no answer is due, neither silence nor patience counts.
            if idle || matches!(step, Ok(true)) {
                heard = Instant::now();
                patience.renew(self.deadline());
            }
            if let Err(end) = step {
                return end;
            }
        }
    }

    /// One event. True: the server answered something.
    async fn step(
        &mut self,
        sender: &mpsc::Sender<raw::SubmitStreamRequest>,
        inbound: &mut Streaming<raw::SubmitStreamResponse>,
        silence: Instant,
    ) -> Result<bool, End> {
        let now = Instant::now();
        let due = self.due.first().map(|(when, _)| *when);
        let answers = self.answers.clone();
        tokio::select! {
            biased;
            message = inbound.message() => return self.answered(message).await.map(|()| true),
            () = answers.closed() => return Err(End::Done),
            permit = sender.reserve(), if due.is_some_and(|when| when <= now) => match permit {
                Ok(permit) => permit.send(self.message(now)),
                // The outbound half is gone; the inbound one will say why.
                Err(_) => return self.answered(inbound.message().await).await.map(|()| true),
            },
            offer = self.offers.next(), if self.has_room() => self.took(offer).await?,
            () = sleep_until(due.unwrap_or(silence)), if due.is_some_and(|when| when > now) => {}
            () = sleep_until(silence), if !self.flying.is_empty() => {
                return Err(End::Broken(Error::unanswered("the server fell silent on the submit stream")));
            }
        }
        Ok(false)
    }

    fn has_room(&self) -> bool {
        !self.exhausted && self.flying.len() < WINDOW
    }

    /// Takes what the caller has ready, up to a message's worth, without waiting for more.
    async fn take_ready(&mut self) -> Result<(), End> {
        while self.has_room() && self.due.len() < MESSAGE_OFFERS {
            let Some(offer) = self.offers.next().now_or_never() else {
                return Ok(());
            };
            self.took(offer).await?;
        }
        Ok(())
    }

    async fn took(&mut self, offer: Option<Offer>) -> Result<(), End> {
        let Some(offer) = offer else {
            self.exhausted = true;
            return Ok(());
        };
        let id = self.next;
        self.next += 1;
        if let Err(error) = offer.check() {
            return self.answer(id, &offer, Err(error)).await;
        }
        let since = Instant::now();
        let flying = Flying {
            offer,
            since,
            doubt: false,
        };
        self.flying.insert(id, flying);
        self.due.insert((since, id));
        Ok(())
    }

    /// The next message: what is due, as far as it fits.
    fn message(&mut self, now: Instant) -> raw::SubmitStreamRequest {
        let mut offers = Vec::new();
        let mut bytes = 0;
        while let Some((when, correlation_id)) = self.due.first().copied() {
            if when > now || offers.len() == MESSAGE_OFFERS || bytes > MESSAGE_BYTES {
                break;
            }
            self.due.pop_first();
            if let Some(flying) = self.flying.get(&correlation_id) {
                let submit = flying.offer.request().clone();
                bytes += submit.payload.len();
                offers.push(raw::SubmitOffer {
                    correlation_id,
                    submit: Some(submit),
                });
            }
        }
        raw::SubmitStreamRequest { offers }
    }

    async fn answered(
        &mut self,
        message: Result<Option<raw::SubmitStreamResponse>, tonic::Status>,
    ) -> Result<(), End> {
        let ended = || Error::unanswered("the server ended the submit stream");
        let message = match message {
            Ok(Some(message)) => message,
            Ok(None) => return Err(End::Broken(ended())),
            Err(status) => {
                let error = self.client.channels.error(self.place, status);
                return Err(End::Broken(error));
            }
        };
        for result in message.results {
            self.result(result).await?;
        }
        Ok(())
    }

    async fn result(&mut self, result: raw::SubmitOfferResult) -> Result<(), End> {
        let id = result.correlation_id;
        let patience = self.client.options().submit_deadline;
        let Some(flying) = self.flying.get_mut(&id) else {
            return Ok(());
        };
        let answer = flying.offer.read(result.result);
        if let Err(error) = &answer
            && error.is_outage()
        {
            let pause = error.retry_after().unwrap_or_default().max(ITEM_PAUSE);
            flying.doubt |= !error.has_no_side_effects();
            if let Some(again) = again(Instant::now(), pause, flying.since + patience) {
                self.client.channels.warn_of_outage(self.place, error);
                self.due.insert((again, id));
                return Ok(());
            }
        }
        let Some(Flying { offer, doubt, .. }) = self.flying.remove(&id) else {
            return Ok(());
        };
        let result = answer.map_err(|error| error.with_doubt(doubt));
        self.answer(id, &offer, result).await
    }

    async fn answer(
        &mut self,
        id: u64,
        offer: &Offer,
        result: Result<SubmitOutcome, Error>,
    ) -> Result<(), End> {
        let result = self.client.conclude(offer, result);
        let index = usize::try_from(id).unwrap_or(usize::MAX);
        self.answers
            .send((index, result))
            .await
            .map_err(|_| End::Done)
    }

    /// No server could be reached for too long, or it refuses the stream: everything ends with that error.
    async fn give_up(mut self, error: Error) {
        let flying = std::mem::take(&mut self.flying);
        for (id, flying) in flying {
            let told = error.clone().with_doubt(flying.doubt);
            if self.answer(id, &flying.offer, Err(told)).await.is_err() {
                return;
            }
        }
        let unsent = error.of_nothing_sent();
        while let Some(offer) = self.offers.next().await {
            let told = offer.check().and(Err(unsent.clone()));
            if self.answer(self.next, &offer, told).await.is_err() {
                return;
            }
            self.next += 1;
        }
    }
}
