//! Queues and their configuration.

use std::time::Duration;

use keywork_engine::QueueView;
use keywork_model::{QueueConfig, Violation};

use super::{
    submit::to_backoff,
    time::{duration, timestamp, to_duration},
};
use crate::proto;

/// A queue on the wire.
pub fn queue(view: QueueView) -> proto::Queue {
    let info = view.info;
    proto::Queue {
        name: view.name.to_string(),
        config: Some(queue_config(&info.config)),
        paused: info.paused,
        created_at: Some(timestamp(info.created_at)),
        stats: Some(proto::QueueStats {
            outstanding: info.messages,
            ready: info.ready,
            in_flight: info.in_flight,
            dead: view.dead,
            sessions: u32::try_from(view.sessions).unwrap_or(u32::MAX),
        }),
        replicas: u32::try_from(info.replicas).unwrap_or(u32::MAX),
    }
}

fn queue_config(config: &QueueConfig) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(duration(config.lease_duration)),
        max_run_time: Some(duration(config.max_run_time.unwrap_or_default())),
        max_attempts: Some(config.max_attempts),
        backoff: Some(proto::Backoff {
            initial: Some(duration(config.backoff.initial())),
            max: Some(duration(config.backoff.max())),
        }),
        max_depth: Some(config.max_depth),
        max_payload_bytes: Some(config.max_payload_bytes),
        disconnect_grace: config.disconnect_grace.map(duration),
        dead_letter_retention: Some(duration(config.dead_letter_retention)),
        dedupe_window: Some(duration(config.dedupe_window)),
    }
}

/// The fields of a queue's configuration, as an update mask names them.
pub const CONFIG_FIELDS: [&str; 9] = [
    "lease_duration",
    "max_run_time",
    "max_attempts",
    "backoff",
    "max_depth",
    "max_payload_bytes",
    "disconnect_grace",
    "dead_letter_retention",
    "dedupe_window",
];

/// Puts fields of a configuration in place, those of [`CONFIG_FIELDS`]; where one is unset, its default.
/// Answers all that could not be read; those fields stay as they are.
pub fn set_config_fields<F: AsRef<str>>(
    into: &mut QueueConfig,
    fields: &[F],
    from: &proto::QueueConfig,
) -> Vec<Violation> {
    let set = |field: &F| set_config_field(into, field.as_ref(), from).err();
    fields.iter().filter_map(set).collect()
}

fn set_config_field(
    into: &mut QueueConfig,
    field: &str,
    from: &proto::QueueConfig,
) -> Result<(), Violation> {
    let default = QueueConfig::default();
    let read = |d: Option<prost_types::Duration>| d.map(|d| to_duration(field, d)).transpose();
    match field {
        "lease_duration" => {
            into.lease_duration = read(from.lease_duration)?.unwrap_or(default.lease_duration);
        }
        "max_run_time" => {
            into.max_run_time = match read(from.max_run_time)? {
                None => default.max_run_time,
                Some(Duration::ZERO) => None,
                Some(most) => Some(most),
            };
        }
        "max_attempts" => into.max_attempts = from.max_attempts.unwrap_or(default.max_attempts),
        "backoff" => {
            let backoff = from
                .backoff
                .map(|b| to_backoff(b, default.backoff))
                .transpose()?;
            into.backoff = backoff.unwrap_or(default.backoff);
        }
        "max_depth" => {
            let given = from.max_depth.filter(|depth| *depth > 0);
            into.max_depth = given.unwrap_or(default.max_depth);
        }
        "max_payload_bytes" => {
            into.max_payload_bytes = from.max_payload_bytes.unwrap_or(default.max_payload_bytes);
        }
        "disconnect_grace" => into.disconnect_grace = read(from.disconnect_grace)?,
        "dead_letter_retention" => {
            let keep = read(from.dead_letter_retention)?;
            into.dead_letter_retention = keep.unwrap_or(default.dead_letter_retention);
        }
        "dedupe_window" => {
            into.dedupe_window = read(from.dedupe_window)?.unwrap_or(default.dedupe_window);
        }
        _ => return Err(Violation::new(field, "is no field of a configuration")),
    }
    Ok(())
}
