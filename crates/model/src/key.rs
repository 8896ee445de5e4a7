//! Keys, and their place in a subject.

use std::{borrow::Cow, fmt};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::{Violation, limits};

/// What a subject's token may hold as it is; every other byte is percent-encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-');

/// What a job is about: unique among the outstanding jobs of its queue.
///
/// Invariant: non-empty UTF-8 of at most 512 bytes, without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey(Box<str>);

impl JobKey {
    /// Checks a key.
    ///
    /// # Errors
    /// A violation of `key` when it is empty, too long or holds control characters.
    pub fn parse(key: &str) -> Result<Self, Violation> {
        if key.is_empty() {
            return Err(Violation::new("key", "must not be empty"));
        }
        if key.len() > limits::KEY_BYTES {
            let (has, limit) = (key.len(), limits::KEY_BYTES);
            return Err(Violation::new(
                "key",
                format!("has {has} bytes; the limit is {limit}"),
            ));
        }
        if key.chars().any(char::is_control) {
            return Err(Violation::new("key", "must not hold control characters"));
        }
        Ok(Self(key.into()))
    }

    /// Reads a key back from a subject's token. `None` where the token is no key's encoding, as when
    /// somebody published under `work.q.%zz` by hand.
    pub fn from_token(token: &str) -> Option<Self> {
        let decoded = percent_decode_str(token).decode_utf8().ok()?;
        let key = Self::parse(&decoded).ok()?;
        (key.to_token() == token).then_some(key)
    }

    /// The key as one token of a subject: two keys never meet in one token.
    pub fn to_token(&self) -> Cow<'_, str> {
        utf8_percent_encode(&self.0, ENCODED).into()
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<JobKey> for String {
    fn from(key: JobKey) -> Self {
        key.0.into_string()
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn readable_keys_stay_readable() {
        let token = |k: &str| JobKey::parse(k).map(|k| k.to_token().into_owned());
        assert_eq!(token("foo-123").as_deref(), Ok("foo-123"));
        assert_eq!(token("a.b*>% ü").as_deref(), Ok("a%2Eb%2A%3E%25%20%C3%BC"));
    }

    #[test]
    fn keys_outside_the_limits_are_refused() {
        assert!(JobKey::parse(&"k".repeat(512)).is_ok());
        for bad in ["", "a\nb", "\0", "\u{85}", &"k".repeat(513)] {
            assert!(JobKey::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tokens_that_no_key_makes_are_refused() {
        for bad in ["", "%zz", "%c3%bc", "%61", "a.b", "%00", "*"] {
            assert_eq!(JobKey::from_token(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_key_comes_back_from_its_token(text in "\\PC{1,128}") {
            if let Ok(key) = JobKey::parse(&text) {
                let token = key.to_token().into_owned();
                prop_assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-%".contains(&b)));
                prop_assert_eq!(JobKey::from_token(&token), Some(key));
            }
        }

        #[test]
        fn two_keys_never_share_a_token(a in "\\PC{1,24}", b in "\\PC{1,24}") {
            if let (Ok(ka), Ok(kb)) = (JobKey::parse(&a), JobKey::parse(&b)) {
                prop_assert_eq!(ka == kb, ka.to_token() == kb.to_token());
            }
        }
    }
}
