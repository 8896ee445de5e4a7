//! Offering up to a thousand jobs in one call.

use tokio::time::{Instant, timeout};

use super::{
    Client, Submit,
    submit::{Offer, Patience},
};
use crate::{Error, SubmitOutcome, raw};

impl Client {
    /// Offers up to 1,000 jobs in one call, and answers in their order. A bad one spoils no other. While
    /// servers are away the call is repeated, with the same `request_id`s.
    ///
    /// For more of them, or without waiting for the slowest: [`Client::submit_many`].
    ///
    /// # Errors
    /// The call failed as a whole.
    pub async fn submit_batch(
        &self,
        submits: impl IntoIterator<Item = Submit>,
    ) -> Result<Vec<Result<SubmitOutcome, Error>>, Error> {
        let offers: Vec<Offer> = submits.into_iter().map(|one| self.prepare(one)).collect();
        let sent = offers.iter().filter(|offer| offer.check().is_ok());
        let items: Vec<_> = sent.map(|offer| offer.request().clone()).collect();
        let answered = match items.is_empty() {
            // There is nothing to ask a server.
            true => Ok(raw::SubmitBatchResponse::default()),
            false => {
                self.batch_until_answered(raw::SubmitBatchRequest { items })
                    .await
            }
        };
        let response = match answered {
            Ok(response) => response,
            Err(error) => {
                for offer in &offers {
                    let _ = self.conclude(offer, Err(error.clone()));
                }
                return Err(error);
            }
        };
        let mut results = response.results.into_iter();
        Ok(offers
            .iter()
            .map(|offer| {
                let result = offer.check().and_then(|()| offer.read(results.next()));
                self.conclude(offer, result)
            })
            .collect())
    }

    async fn batch_until_answered(
        &self,
        request: raw::SubmitBatchRequest,
    ) -> Result<raw::SubmitBatchResponse, Error> {
        let mut patience = Patience::new(self, Instant::now() + self.options().submit_deadline);
        loop {
            let place = self.channels.place();
            let mut client = self.raw();
            let call = client.submit_batch(request.clone());
            let limit = self.options().limit(patience.deadline());
            let error = match timeout(limit, call).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => self.channels.error(place, status),
                Err(_) => self.channels.unanswered(place),
            };
            patience.after(error).await?;
        }
    }
}
