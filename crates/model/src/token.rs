//! Lease tokens and session tickets: opaque to those who hold them, sealed so that no one can make or alter one.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{QueueName, UnixMillis, limits};

/// Bytes of a MAC that are kept: 128 bits.
const MAC_BYTES: usize = 16;
const LEASE_VERSION: u8 = 1;
const TICKET_VERSION: u8 = 2;
const LEASE_FIXED: usize = 1 + 7 * 8;
const TICKET_FIXED: usize = 1 + 3 * 8;
const ORIGIN_BYTES: usize = 2 * 8;

/// Most sessions that a ticket names: a worker that moves more often while it holds one job proves no
/// more than the job's token does.
pub const TICKET_ORIGINS: usize = 8;

/// The secret that seals tokens. All servers of one NATS share it.
#[derive(Clone)]
pub struct TokenSecret(Hmac<Sha256>);

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// The token is malformed, forged or altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease token is malformed or was not made by these servers")]
pub struct InvalidToken;

/// What a lease token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    /// The queue.
    pub queue: QueueName,
    /// Which making of the queue's stream: a queue that is deleted and made again differs.
    pub incarnation: u64,
    /// The job's stream sequence: the lease itself, and its fencing number.
    pub sequence: u64,
    /// The delivery's sequence, for the ack's subject.
    pub consumer_sequence: u64,
    /// The server that gave the lease.
    pub server: u64,
    /// The session that was given it.
    pub session: u64,
    /// When it was given.
    pub issued_at: UnixMillis,
    /// Until when it was good when this token was made.
    pub valid_until: UnixMillis,
}

/// What a session ticket says: until when the leases of a session were extended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketFacts {
    /// The server.
    pub server: u64,
    /// The session.
    pub session: u64,
    /// Until when every lease that its last answered heartbeat listed is good.
    pub extended_until: UnixMillis,
    /// The sessions, each with its server, whose leases it goes on with. At most [`TICKET_ORIGINS`].
    pub origins: Vec<(u64, u64)>,
}

impl TicketFacts {
    /// Whether it speaks for a lease that this session of this server was given.
    pub fn covers(&self, server: u64, session: u64) -> bool {
        let origin = (server, session);
        (self.server, self.session) == origin || self.origins.contains(&origin)
    }
}

impl TokenSecret {
    /// A secret from at least 16 random bytes.
    ///
    /// # Errors
    /// [`InvalidToken`] when it is shorter.
    pub fn new(secret: &[u8]) -> Result<Self, InvalidToken> {
        if secret.len() < 16 {
            return Err(InvalidToken);
        }
        Hmac::new_from_slice(secret)
            .map(Self)
            .map_err(|_| InvalidToken)
    }

    /// Seals a lease's facts into a token.
    pub fn seal_lease(&self, facts: &LeaseFacts) -> Bytes {
        let queue = facts.queue.as_str().as_bytes();
        let mut token = BytesMut::with_capacity(LEASE_FIXED + queue.len() + MAC_BYTES);
        token.put_u8(LEASE_VERSION);
        token.put_u64(facts.incarnation);
        token.put_u64(facts.sequence);
        token.put_u64(facts.consumer_sequence);
        token.put_u64(facts.server);
        token.put_u64(facts.session);
        token.put_u64(facts.issued_at.0);
        token.put_u64(facts.valid_until.0);
        token.put_slice(queue);
        self.seal(token)
    }

    /// Opens a lease token.
    ///
    /// # Errors
    /// [`InvalidToken`] when these servers did not make it.
    pub fn open_lease(&self, token: &[u8]) -> Result<LeaseFacts, InvalidToken> {
        let mut body = self.open(token, LEASE_VERSION)?;
        if body.len() < LEASE_FIXED || token.len() > limits::TOKEN_BYTES {
            return Err(InvalidToken);
        }
        let mut number = || body.get_u64();
        let (incarnation, sequence, consumer_sequence) = (number(), number(), number());
        let (server, session, issued_at, valid_until) = (number(), number(), number(), number());
        let queue = std::str::from_utf8(body).map_err(|_| InvalidToken)?;
        Ok(LeaseFacts {
            queue: QueueName::parse(queue).map_err(|_| InvalidToken)?,
            incarnation,
            sequence,
            consumer_sequence,
            server,
            session,
            issued_at: UnixMillis(issued_at),
            valid_until: UnixMillis(valid_until),
        })
    }

    /// Seals a ticket's facts.
    pub fn seal_ticket(&self, facts: &TicketFacts) -> Bytes {
        let origins = facts.origins.iter().take(TICKET_ORIGINS);
        let room = TICKET_FIXED + origins.len() * ORIGIN_BYTES + MAC_BYTES;
        let mut token = BytesMut::with_capacity(room);
        token.put_u8(TICKET_VERSION);
        token.put_u64(facts.server);
        token.put_u64(facts.session);
        token.put_u64(facts.extended_until.0);
        for (server, session) in origins {
            token.put_u64(*server);
            token.put_u64(*session);
        }
        self.seal(token)
    }

    /// Opens a ticket.
    ///
    /// # Errors
    /// [`InvalidToken`] when these servers did not make it.
    pub fn open_ticket(&self, token: &[u8]) -> Result<TicketFacts, InvalidToken> {
        let mut body = self.open(token, TICKET_VERSION)?;
        let origins = body.len().checked_sub(TICKET_FIXED - 1);
        let origins = origins.ok_or(InvalidToken)? / ORIGIN_BYTES;
        if body.len() != TICKET_FIXED - 1 + origins * ORIGIN_BYTES {
            return Err(InvalidToken);
        }
        Ok(TicketFacts {
            server: body.get_u64(),
            session: body.get_u64(),
            extended_until: UnixMillis(body.get_u64()),
            origins: (0..origins)
                .map(|_| (body.get_u64(), body.get_u64()))
                .collect(),
        })
    }

    fn seal(&self, mut body: BytesMut) -> Bytes {
        let mac = self.mac(&body).finalize().into_bytes();
        body.put_slice(&mac[..MAC_BYTES]);
        body.freeze()
    }

    fn open<'a>(&self, token: &'a [u8], version: u8) -> Result<&'a [u8], InvalidToken> {
        let split = token.len().checked_sub(MAC_BYTES).ok_or(InvalidToken)?;
        let (body, mac) = token.split_at(split);
        self.mac(body)
            .verify_truncated_left(mac)
            .map_err(|_| InvalidToken)?;
        match body.split_first() {
            Some((first, rest)) if *first == version => Ok(rest),
            Some(_) | None => Err(InvalidToken),
        }
    }

    fn mac(&self, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(body);
        mac
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secret() -> TokenSecret {
        TokenSecret::new(&[7; 32]).expect("a secret")
    }

    fn facts(queue: &str, n: [u64; 7]) -> LeaseFacts {
        LeaseFacts {
            queue: QueueName::parse(queue).expect("a name"),
            incarnation: n[0],
            sequence: n[1],
            consumer_sequence: n[2],
            server: n[3],
            session: n[4],
            issued_at: UnixMillis(n[5]),
            valid_until: UnixMillis(n[6]),
        }
    }

    #[test]
    fn a_ticket_is_no_lease_and_a_lease_is_no_ticket() {
        let ticket = TicketFacts {
            server: 1,
            session: 2,
            extended_until: UnixMillis(3),
            origins: vec![(4, 5), (6, 7)],
        };
        let sealed = secret().seal_ticket(&ticket);
        assert_eq!(secret().open_ticket(&sealed), Ok(ticket));
        assert_eq!(secret().open_lease(&sealed), Err(InvalidToken));
        let lease = secret().seal_lease(&facts("q", [1; 7]));
        assert_eq!(secret().open_ticket(&lease), Err(InvalidToken));
    }

    #[test]
    fn the_longest_token_is_within_its_limit() {
        let token = secret().seal_lease(&facts(&"q".repeat(64), [u64::MAX; 7]));
        assert!(token.len() <= limits::TOKEN_BYTES, "{}", token.len());
    }

    proptest! {
        #[test]
        fn a_token_comes_back_as_it_was_sealed(queue in "[a-z0-9][a-z0-9_-]{0,63}", n: [u64; 7]) {
            let facts = facts(&queue, n);
            prop_assert_eq!(secret().open_lease(&secret().seal_lease(&facts)), Ok(facts));
        }

        #[test]
        fn an_altered_token_is_refused(n: [u64; 7], at: prop::sample::Index, bit in 0u8..8) {
            let mut token = secret().seal_lease(&facts("reconcile", n)).to_vec();
            let at = at.index(token.len());
            token[at] ^= 1 << bit;
            prop_assert_eq!(secret().open_lease(&token), Err(InvalidToken));
        }

        #[test]
        fn noise_is_refused(noise: Vec<u8>) {
            prop_assert_eq!(secret().open_lease(&noise), Err(InvalidToken));
            prop_assert_eq!(secret().open_ticket(&noise), Err(InvalidToken));
        }
    }
}
