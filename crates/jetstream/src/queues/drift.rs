//! What a queue's stream and consumer must look like: made so, compared with that, repaired where no law
//! would break, refused where one would.

use std::time::Duration;

use keywork_model::{QueueConfig, QueueName};
use serde_json::{Map, Value, json};

use super::{ConsumerInfo, METADATA, QueueError, StreamInfo, nanoseconds, stored_config};
use crate::{clock, connect::Nats, names::CONSUMER};

impl Nats {
    pub(super) fn check_stream(
        &self,
        queue: &QueueName,
        stream: &StreamInfo,
    ) -> Result<(), QueueError> {
        let needed = [
            ("retention", json!("workqueue")),
            ("max_msgs_per_subject", json!(1)),
            ("discard", json!("new")),
            ("discard_new_per_subject", json!(true)),
            ("subjects", json!(subjects(self, queue))),
            ("max_age", json!(0)),
            ("allow_msg_ttl", json!(false)),
            ("sealed", json!(false)),
            // Once set, JetStream lets nobody take these back.
            ("deny_delete", json!(false)),
            ("deny_purge", json!(false)),
            ("no_ack", json!(false)),
            ("storage", json!("file")),
            // Keys would share a subject, or be stored under one that nobody looks at.
            ("subject_transform", Value::Null),
        ];
        check(queue, "stream", &stream.config, &needed)
    }

    pub(super) fn check_consumer(
        &self,
        queue: &QueueName,
        info: &ConsumerInfo,
    ) -> Result<(), QueueError> {
        let filter = self.names().all_jobs(queue);
        let needed = [
            ("ack_policy", json!("explicit")),
            ("max_deliver", json!(-1)),
            ("max_ack_pending", json!(-1)),
            ("filter_subject", json!(filter)),
            ("backoff", json!([])),
            // Jobs would come without their payload.
            ("headers_only", json!(false)),
            // It would be deleted, and forget what is leased, while no worker asks for jobs.
            ("inactive_threshold", json!(0)),
            // Pulls would be refused, or served to nobody.
            ("max_batch", json!(0)),
            ("max_bytes", json!(0)),
            ("max_expires", json!(0)),
            ("priority_groups", json!([])),
        ];
        check(queue, "consumer", &info.config, &needed)
    }

    /// Puts right what breaks no law: roll-ups and direct reads allowed, the dedupe window, the metadata.
    pub(super) async fn repair_stream(
        &self,
        queue: &QueueName,
        stream: &StreamInfo,
        config: &QueueConfig,
    ) -> Result<(), QueueError> {
        let Some(wanted) = repaired(stream, config) else {
            return Ok(());
        };
        tracing::warn!(%queue, "repairing the stream's configuration");
        self.update_stream(queue, wanted).await
    }

    /// Puts a queue right that was changed where that breaks no law.
    ///
    /// # Errors
    /// What failed.
    pub async fn repair_queue(&self, queue: &QueueName) -> Result<(), QueueError> {
        let stream = self.stream_info(queue).await?;
        self.repair_stream(queue, &stream, &stored_config(&stream))
            .await
    }
}

/// The stream's configuration as it is put right; `None`: it is.
pub(super) fn repaired(stream: &StreamInfo, config: &QueueConfig) -> Option<Map<String, Value>> {
    let mut wanted = stream.config.clone();
    wanted.insert("allow_rollup_hdrs".into(), json!(true));
    wanted.insert("allow_direct".into(), json!(true));
    wanted.insert(
        "duplicate_window".into(),
        json!(nanoseconds(config.dedupe_window)),
    );
    let metadata = wanted.entry("metadata").or_insert_with(|| json!({}));
    if metadata.get(METADATA).is_none() {
        metadata[METADATA] = json!(serde_json::to_string(config).unwrap_or_default());
    }
    (wanted != stream.config).then_some(wanted)
}

fn check(
    queue: &QueueName,
    object: &'static str,
    config: &Map<String, Value>,
    needed: &[(&'static str, Value)],
) -> Result<(), QueueError> {
    for (field, needed) in needed {
        // JetStream leaves out what is zero, empty or false.
        let found = config.get(*field).filter(|v| !v.is_null());
        let absent = [Value::Null, json!(0), json!(false), json!(""), json!([])];
        let absent_will_do = absent.contains(needed);
        if found != Some(needed) && !(found.is_none() && absent_will_do) {
            return Err(QueueError::Drift {
                queue: queue.clone(),
                object,
                field,
                found: found.map_or_else(|| "unset".into(), Value::to_string),
                needed: needed.to_string(),
            });
        }
    }
    Ok(())
}

pub(super) fn stream_config(
    nats: &Nats,
    queue: &QueueName,
    config: &QueueConfig,
    replicas: usize,
) -> Value {
    json!({
        "name": nats.names().jobs_stream(queue),
        "description": format!("Keywork: the outstanding jobs of queue {queue}"),
        "subjects": subjects(nats, queue),
        "retention": "workqueue",
        "max_msgs_per_subject": 1,
        "discard": "new",
        "discard_new_per_subject": true,
        "storage": "file",
        "num_replicas": replicas,
        "allow_direct": true,
        "allow_rollup_hdrs": true,
        "duplicate_window": nanoseconds(config.dedupe_window),
        // Sequences, and so fencing numbers, keep growing when a queue is deleted and made again.
        "first_seq": clock::now().0 * 1_000,
        "metadata": { METADATA: serde_json::to_string(config).unwrap_or_default() },
    })
}

fn subjects(nats: &Nats, queue: &QueueName) -> [String; 2] {
    [nats.names().all_jobs(queue), nats.names().front(queue)]
}

pub(super) fn consumer_config(nats: &Nats, queue: &QueueName, wait: Duration) -> Value {
    json!({
        "name": CONSUMER, "durable_name": CONSUMER, "ack_policy": "explicit",
        "filter_subject": nats.names().all_jobs(queue),
        "ack_wait": nanoseconds(wait), "max_deliver": -1, "max_ack_pending": -1,
        "deliver_policy": "all", "replay_policy": "instant",
    })
}
