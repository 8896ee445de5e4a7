//! What servers tell each other, by plain NATS messages: fast and not kept. Nothing that matters
//! depends on one arriving.

use std::time::Duration;

use async_nats::{Client, Subscriber};
use bytes::Bytes;
use futures::StreamExt;

use crate::{api::Failure, connect::Nats};

/// The subscription of one server.
#[derive(Debug)]
pub struct PeerInbox {
    client: Client,
    all: Subscriber,
    own: Subscriber,
}

/// One message from a peer.
#[derive(Debug)]
pub struct PeerCall {
    /// What it says.
    pub body: Bytes,
    reply: Option<(Client, async_nats::Subject)>,
}

impl PeerCall {
    /// Answers it, where an answer is wanted.
    pub async fn answer(self, body: Vec<u8>) {
        if let Some((client, reply)) = self.reply
            && let Err(error) = client.publish(reply, body.into()).await
        {
            tracing::debug!(%error, "failed to answer a peer");
        }
    }
}

impl PeerInbox {
    /// The next message.
    pub async fn next(&mut self) -> Option<PeerCall> {
        let message = tokio::select! {
            message = self.all.next() => message,
            message = self.own.next() => message,
        }?;
        let reply = message.reply.map(|reply| (self.client.clone(), reply));
        Some(PeerCall {
            body: message.payload,
            reply,
        })
    }
}

impl Nats {
    /// Hears what peers say to all and to this server.
    ///
    /// # Errors
    /// Why there is no subscription.
    pub async fn peer_inbox(&self, server: u64) -> Result<PeerInbox, async_nats::SubscribeError> {
        let client = self.pulling().clone();
        let all = client.subscribe(self.names().all_peers()).await?;
        let own = client.subscribe(self.names().peer(server)).await?;
        Ok(PeerInbox { client, all, own })
    }

    /// Tells all servers, this one included.
    pub async fn tell_all(&self, body: Vec<u8>) {
        let subject = self.names().all_peers();
        if let Err(error) = self.pulling().publish(subject, body.into()).await {
            tracing::debug!(%error, "failed to tell peers");
        }
    }

    /// Tells one server.
    pub async fn tell(&self, server: u64, body: Vec<u8>) {
        let subject = self.names().peer(server);
        if let Err(error) = self.pulling().publish(subject, body.into()).await {
            tracing::debug!(%error, "failed to tell a peer");
        }
    }

    /// Asks one server.
    ///
    /// # Errors
    /// [`Failure::NoResponders`] when it is not there.
    pub async fn ask(
        &self,
        server: u64,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<Bytes, Failure> {
        let subject = self.names().peer(server);
        self.settling()
            .request(subject, None, body.into(), within)
            .await
            .0
    }

    /// Asks all servers and takes the first answer; those with nothing to say keep silent.
    ///
    /// # Errors
    /// [`Failure::TimedOut`] when nobody answered.
    pub async fn ask_all(&self, body: Vec<u8>, within: Duration) -> Result<Bytes, Failure> {
        let subject = self.names().all_peers();
        self.settling()
            .request(subject, None, body.into(), within)
            .await
            .0
    }
}
