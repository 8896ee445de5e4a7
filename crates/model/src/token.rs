//! Lease tokens and session tickets: opaque to those who hold them, sealed so that no one can make or alter one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{QueueName, UnixMillis, limits};

/// Bytes of a MAC that are kept: 128 bits.
const MAC_BYTES: usize = 16;
const LEASE_VERSION: u8 = 1;
const TICKET_VERSION: u8 = 3;
const LEASE_FIXED: usize = 1 + 7 * 8;

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

/// What a session ticket says: until when each lease of a session was extended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketFacts {
    /// The server that made it, and may know better.
    pub server: u64,
    /// Each queue's extended leases.
    pub queues: Vec<QueueProof>,
}

/// The extended leases of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueProof {
    /// The queue.
    pub queue: QueueName,
    /// Which making of its stream.
    pub incarnation: u64,
    /// Leases by their sequences, under the time until when they are good: those that one heartbeat extended share one.
    pub until: BTreeMap<UnixMillis, BTreeSet<u64>>,
}

impl TicketFacts {
    /// Until when a lease is good; none where the ticket says nothing of it.
    pub fn until(&self, lease: &LeaseFacts) -> Option<UnixMillis> {
        let of = |q: &&QueueProof| q.queue == lease.queue && q.incarnation == lease.incarnation;
        let times = &self.queues.iter().find(of)?.until;
        let listed = times
            .iter()
            .rev()
            .find(|(_, leases)| leases.contains(&lease.sequence));
        listed.map(|(until, _)| *until)
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

    /// Seals a ticket's facts. About three bytes a lease: their sequences lie close together.
    pub fn seal_ticket(&self, facts: &TicketFacts) -> Bytes {
        let mut token = BytesMut::new();
        token.put_u8(TICKET_VERSION);
        token.put_u64(facts.server);
        for proof in &facts.queues {
            put_number(&mut token, proof.queue.as_str().len() as u64);
            token.put_slice(proof.queue.as_str().as_bytes());
            token.put_u64(proof.incarnation);
            put_number(&mut token, proof.until.len() as u64);
            for (until, leases) in &proof.until {
                token.put_u64(until.0);
                put_number(&mut token, leases.len() as u64);
                leases.iter().fold(0, |before, sequence| {
                    put_number(&mut token, sequence - before);
                    *sequence
                });
            }
        }
        self.seal(token)
    }

    /// Opens a ticket.
    ///
    /// # Errors
    /// [`InvalidToken`] when these servers did not make it.
    pub fn open_ticket(&self, token: &[u8]) -> Result<TicketFacts, InvalidToken> {
        let mut body = self.open(token, TICKET_VERSION)?;
        let server = body.try_get_u64().map_err(|_| InvalidToken)?;
        let mut queues = Vec::new();
        while body.has_remaining() {
            queues.push(QueueProof::read(&mut body)?);
        }
        Ok(TicketFacts { server, queues })
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

impl QueueProof {
    fn read(body: &mut &[u8]) -> Result<Self, InvalidToken> {
        let name = usize::try_from(get_number(body)?).map_err(|_| InvalidToken)?;
        let (name, rest) = body.split_at_checked(name).ok_or(InvalidToken)?;
        let name = std::str::from_utf8(name).map_err(|_| InvalidToken)?;
        *body = rest;
        let mut proof = Self {
            queue: QueueName::parse(name).map_err(|_| InvalidToken)?,
            incarnation: body.try_get_u64().map_err(|_| InvalidToken)?,
            until: BTreeMap::new(),
        };
        for _ in 0..get_number(body)? {
            let until = UnixMillis(body.try_get_u64().map_err(|_| InvalidToken)?);
            let (mut leases, mut sequence) = (BTreeSet::new(), 0u64);
            for _ in 0..get_number(body)? {
                let step = get_number(body)?;
                sequence = sequence.checked_add(step).ok_or(InvalidToken)?;
                leases.insert(sequence);
            }
            proof.until.insert(until, leases);
        }
        Ok(proof)
    }
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn put_number(body: &mut BytesMut, mut number: u64) {
    while number >= 0x80 {
        body.put_u8((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    body.put_u8((number & 0x7f) as u8);
}

fn get_number(body: &mut &[u8]) -> Result<u64, InvalidToken> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = body.try_get_u8().map_err(|_| InvalidToken)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(InvalidToken)
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

    fn ticket(queue: &str, until: BTreeMap<UnixMillis, BTreeSet<u64>>) -> TicketFacts {
        let proof = QueueProof {
            queue: QueueName::parse(queue).expect("a name"),
            incarnation: 1,
            until,
        };
        TicketFacts {
            server: 1,
            queues: vec![proof],
        }
    }

    #[test]
    fn a_ticket_is_no_lease_and_a_lease_is_no_ticket() {
        let ticket = ticket(
            "q",
            BTreeMap::from([(UnixMillis(3), BTreeSet::from([4, 5]))]),
        );
        let sealed = secret().seal_ticket(&ticket);
        assert_eq!(secret().open_ticket(&sealed), Ok(ticket));
        assert_eq!(secret().open_lease(&sealed), Err(InvalidToken));
        let lease = secret().seal_lease(&facts("q", [1; 7]));
        assert_eq!(secret().open_ticket(&lease), Err(InvalidToken));
    }

    #[test]
    fn a_ticket_speaks_for_the_leases_that_it_lists_alone() {
        let two = BTreeMap::from([
            (UnixMillis(30), BTreeSet::from([4])),
            (UnixMillis(50), BTreeSet::from([5])),
        ]);
        let ticket = ticket("q", two);
        let lease =
            |queue, incarnation, sequence| facts(queue, [incarnation, sequence, 0, 0, 0, 0, 0]);
        assert_eq!(ticket.until(&lease("q", 1, 4)), Some(UnixMillis(30)));
        assert_eq!(ticket.until(&lease("q", 1, 5)), Some(UnixMillis(50)));
        assert_eq!(ticket.until(&lease("q", 1, 6)), None);
        assert_eq!(ticket.until(&lease("q", 2, 4)), None);
        assert_eq!(ticket.until(&lease("p", 1, 4)), None);
    }

    #[test]
    fn a_ticket_of_many_leases_is_small() {
        let leases = (0..50_000)
            .map(|n| 1_700_000_000_000_000 + n * 90)
            .collect();
        let ticket = ticket("q", BTreeMap::from([(UnixMillis(3), leases)]));
        let sealed = secret().seal_ticket(&ticket);
        assert!(sealed.len() < 100_000, "{}", sealed.len());
        assert_eq!(secret().open_ticket(&sealed), Ok(ticket));
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
        fn a_ticket_comes_back_as_it_was_sealed(until: BTreeMap<u64, BTreeSet<u64>>) {
            let until = until.into_iter().map(|(n, leases)| (UnixMillis(n), leases)).collect();
            let ticket = ticket("reconcile", until);
            prop_assert_eq!(secret().open_ticket(&secret().seal_ticket(&ticket)), Ok(ticket));
        }

        #[test]
        fn noise_is_refused(noise: Vec<u8>) {
            prop_assert_eq!(secret().open_lease(&noise), Err(InvalidToken));
            prop_assert_eq!(secret().open_ticket(&noise), Err(InvalidToken));
        }
    }
}
