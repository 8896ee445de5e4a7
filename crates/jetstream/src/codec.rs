//! A job as a message: headers and payload, and back.

use std::str::FromStr;

use async_nats::{HeaderMap, HeaderName};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use keywork_model::{Backoff, DeadReason, Job, JobId, JobKey, Mark, UnixMillis};
use percent_encoding::{CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::{
    api::ApiError,
    names::{header, key_token},
};

const TOMBSTONE: &str = "tombstone";
const DEAD: &str = "dead";

/// Where a message came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) subject: &'a str,
    pub(crate) incarnation: u64,
    pub(crate) sequence: u64,
    pub(crate) stored_at: UnixMillis,
}

/// Writes a job's headers. What has its default is left out.
pub(crate) fn encode(job: &Job, submitted_at: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut put = |name: &'static str, value: Option<String>| {
        if let Some(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    put(header::ID, Some(job.id.to_string()));
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let time = |at: Option<UnixMillis>| at.map(|at| at.0.to_string());
    put(header::CONTENT_TYPE, text(&job.content_type));
    put(
        header::ATTRIBUTES,
        (!job.attributes.is_empty()).then(|| json(&job.attributes)),
    );
    put(
        header::ATTEMPT,
        (job.attempt > 1).then(|| job.attempt.to_string()),
    );
    put(
        header::MAX_ATTEMPTS,
        job.max_attempts.map(|n| n.to_string()),
    );
    put(header::BACKOFF, job.backoff.as_ref().map(json));
    put(
        header::SUBMITTED_AT,
        submitted_at.then(|| job.submitted_at.0.to_string()),
    );
    put(header::NOT_BEFORE, time(job.not_before));
    put(header::EXPIRES_AT, time(job.expires_at));
    put(
        header::ERROR,
        text(&job.last_error).map(|e| utf8_percent_encode(&e, &PLAIN).to_string()),
    );
    put(header::MARK, mark(job.mark));
    headers
}

/// What an error's text may not hold in a header: control characters, and `%` itself.
const PLAIN: percent_encoding::AsciiSet = CONTROLS.add(b'%');

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn mark(mark: Mark) -> Option<String> {
    match mark {
        Mark::None => None,
        Mark::Tombstone => Some(TOMBSTONE.into()),
        Mark::Doomed(reason) => Some(format!("{DEAD} {}", reason.as_str())),
    }
}

/// The headers of a message that are read, each with its first value.
#[derive(Default)]
pub(crate) struct Fields<'a> {
    id: Option<&'a str>,
    msg_id: Option<&'a str>,
    content_type: Option<&'a str>,
    attributes: Option<&'a str>,
    attempt: Option<&'a str>,
    max_attempts: Option<&'a str>,
    backoff: Option<&'a str>,
    submitted_at: Option<&'a str>,
    not_before: Option<&'a str>,
    expires_at: Option<&'a str>,
    error: Option<&'a str>,
    mark: Option<&'a str>,
    pub(crate) from: Option<&'a str>,
    pub(crate) nonce: Option<&'a str>,
}

impl<'a> Fields<'a> {
    /// Goes through the headers once: a job has one or two, and looking each name up costs more than that.
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        let mut fields = Self::default();
        for (name, values) in headers.iter() {
            let field = match AsRef::<str>::as_ref(name) {
                header::ID => &mut fields.id,
                header::MSG_ID => &mut fields.msg_id,
                header::CONTENT_TYPE => &mut fields.content_type,
                header::ATTRIBUTES => &mut fields.attributes,
                header::ATTEMPT => &mut fields.attempt,
                header::MAX_ATTEMPTS => &mut fields.max_attempts,
                header::BACKOFF => &mut fields.backoff,
                header::SUBMITTED_AT => &mut fields.submitted_at,
                header::NOT_BEFORE => &mut fields.not_before,
                header::EXPIRES_AT => &mut fields.expires_at,
                header::ERROR => &mut fields.error,
                header::MARK => &mut fields.mark,
                header::FROM => &mut fields.from,
                header::NONCE => &mut fields.nonce,
                _ => continue,
            };
            *field = values.first().map(|value| value.as_str());
        }
        fields
    }
}

/// Reads a message as a job. A header that makes no sense counts as absent, so that a job published by
/// hand is served with defaults; a subject that is no key's makes the job unreadable, under its raw token.
pub(crate) fn decode(origin: Origin<'_>, fields: &Fields<'_>, payload: Bytes) -> Job {
    let token = key_token(origin.subject);
    let key = JobKey::from_token(token);
    let readable = key.is_some();
    let id = fields
        .id
        .or(fields.msg_id)
        .and_then(|id| JobId::parse(id).ok());
    Job {
        id: id.unwrap_or_else(|| JobId::of_foreign(origin.incarnation, origin.sequence)),
        key: key.unwrap_or_else(|| raw_key(token)),
        payload,
        content_type: fields.content_type.unwrap_or_default().into(),
        attributes: fields
            .attributes
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_default(),
        attempt: fields.attempt.and_then(number).unwrap_or(1).max(1),
        max_attempts: fields.max_attempts.and_then(number),
        backoff: fields
            .backoff
            .and_then(|json| serde_json::from_str::<Backoff>(json).ok()),
        submitted_at: fields
            .submitted_at
            .and_then(time)
            .unwrap_or(origin.stored_at),
        not_before: fields.not_before.and_then(time),
        expires_at: fields.expires_at.and_then(time),
        last_error: fields
            .error
            .map(|e| percent_decode_str(e).decode_utf8_lossy().into_owned())
            .unwrap_or_default(),
        reseated: fields.from.is_some(),
        mark: match fields.mark.map(read_mark) {
            Some(mark) => mark,
            None if readable => Mark::None,
            None => Mark::Doomed(DeadReason::Unreadable),
        },
    }
}

fn read_mark(text: &str) -> Mark {
    match text.split_once(' ') {
        Some((DEAD, reason)) => {
            Mark::Doomed(DeadReason::from_name(reason).unwrap_or(DeadReason::Failed))
        }
        Some(_) => Mark::None,
        None if text == TOMBSTONE => Mark::Tombstone,
        None => Mark::None,
    }
}

/// A token that is no key's encoding, as a key to show: cut to the limit. A token is never empty.
fn raw_key(token: &str) -> JobKey {
    let text: String = token
        .chars()
        .filter(|c| !c.is_control())
        .take(128)
        .collect();
    JobKey::parse(&text)
        .or_else(|_| JobKey::parse("unreadable"))
        .unwrap_or_else(|_| unreachable!("a literal that is a key"))
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn time(text: &str) -> Option<UnixMillis> {
    number(text).map(UnixMillis)
}

/// Reads the base64 that JetStream's API answers.
pub(crate) fn base64(text: &str) -> Result<Vec<u8>, ApiError> {
    STANDARD
        .decode(text)
        .map_err(|e| ApiError::Unreadable(format!("base64: {e}")))
}

/// Reads the raw header block that JetStream's API answers: `NATS/1.0`, then a line a header.
pub(crate) fn parse_headers(raw: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let text = String::from_utf8_lossy(raw);
    for line in text.split("\r\n").skip(1) {
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name, value.trim());
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arbitrary_job() -> impl Strategy<Value = Job> {
        (
            ("\\PC{1,20}", any::<u128>(), "[ -~]{0,20}", ".{0,40}"),
            proptest::collection::btree_map("\\PC{1,8}", ".{0,8}", 0..4),
            (
                1u32..9,
                any::<Option<u32>>(),
                any::<Option<u32>>(),
                any::<Option<u32>>(),
            ),
            0usize..7,
        )
            .prop_map(
                |((key, id, content_type, error), attributes, numbers, mark)| Job {
                    id: JobId::parse(&format!("{id:032x}")).expect("a UUID"),
                    key: JobKey::parse(&key).expect("printable"),
                    payload: Bytes::from_static(b"p"),
                    content_type: content_type.trim().into(),
                    attributes,
                    attempt: numbers.0,
                    max_attempts: numbers.1,
                    backoff: None,
                    submitted_at: UnixMillis(77),
                    not_before: numbers.2.map(|n| UnixMillis(n.into())),
                    expires_at: numbers.3.map(|n| UnixMillis(n.into())),
                    last_error: error,
                    reseated: false,
                    mark: match mark {
                        0 => Mark::None,
                        1 => Mark::Tombstone,
                        n => Mark::Doomed(DeadReason::ALL[n - 2]),
                    },
                },
            )
    }

    proptest! {
        #[test]
        fn a_job_comes_back_from_its_message(job in arbitrary_job()) {
            let subject = format!("work.q.{}", job.key.to_token());
            let origin = Origin { subject: &subject, incarnation: 1, sequence: 2, stored_at: UnixMillis(3) };
            let headers = encode(&job, true);
            prop_assert_eq!(decode(origin, &Fields::of(&headers), job.payload.clone()), job);
        }
    }

    #[test]
    fn a_job_published_by_hand_has_defaults() {
        let origin = Origin {
            subject: "work.q.foo",
            incarnation: 1,
            sequence: 2,
            stored_at: UnixMillis(3),
        };
        let job = decode(origin, &Fields::default(), Bytes::from_static(b"x"));
        assert_eq!(
            (job.attempt, job.key.as_str(), job.mark),
            (1, "foo", Mark::None)
        );
        assert_eq!(job.id, JobId::of_foreign(1, 2));
        assert_eq!(job.submitted_at, UnixMillis(3));
    }

    #[test]
    fn a_subject_that_is_no_keys_is_unreadable() {
        let origin = Origin {
            subject: "work.q.%zz",
            incarnation: 1,
            sequence: 2,
            stored_at: UnixMillis(3),
        };
        let job = decode(origin, &Fields::default(), Bytes::new());
        assert_eq!(job.mark, Mark::Doomed(DeadReason::Unreadable));
    }
}
