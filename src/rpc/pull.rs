//! `Pull`: leases without a stream.

use std::time::Duration;

use keywork_jetstream::clock;
use keywork_model::{QueueName, Violation, limits};
use tokio::time::Instant;
use tonic::Request;

use crate::{convert, errors::Problem, proto, rpc::Service};

/// Left of the caller's own deadline for the answer's way.
const WAY_BACK: Duration = Duration::from_millis(500);

impl Service {
    pub(super) async fn pull_jobs(
        &self,
        request: Request<proto::PullRequest>,
    ) -> Result<proto::PullResponse, Problem> {
        self.open()?;
        let call_deadline = call_deadline(request.metadata());
        let request = request.into_inner();
        let queue = QueueName::parse(&request.queue)?;
        let worker = convert::to_worker(&request.worker_id)?;
        let most = match request.max_jobs {
            0 => 1,
            most if most as usize <= limits::BATCH_ITEMS => most,
            _ => return Err(Violation::new("max_jobs", "must be at most 1,000").into()),
        };
        let wait = to_wait(request.wait)?;
        let wait = call_deadline.map_or(wait, |d| wait.min(d.saturating_sub(WAY_BACK)));
        let granted = self.engine.pull(&queue, worker, most, wait).await?;
        let (now, wall) = (Instant::now(), clock::now());
        let deliveries = granted
            .into_iter()
            .map(|g| convert::delivery(g, now, wall))
            .collect();
        Ok(proto::PullResponse { deliveries })
    }
}

fn to_wait(wait: Option<prost_types::Duration>) -> Result<Duration, Violation> {
    let Some(wait) = wait else {
        return Ok(limits::DEFAULT_PULL_WAIT);
    };
    let wait = convert::to_duration("wait", wait)?;
    if wait > limits::MAX_PULL_WAIT {
        return Err(Violation::new("wait", "must be at most 60 s"));
    }
    Ok(wait)
}

/// How long the caller waits: gRPC's own header, such as `15S` or `1500m`.
fn call_deadline(metadata: &tonic::metadata::MetadataMap) -> Option<Duration> {
    let value = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = value.split_at(value.len().checked_sub(1)?);
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number.saturating_mul(3_600)),
        "M" => Duration::from_secs(number.saturating_mul(60)),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_any_length_is_told_the_real_limit() {
        for seconds in [61, i64::MAX] {
            let wait = prost_types::Duration { seconds, nanos: 0 };
            let refused = to_wait(Some(wait)).map_err(|violation| violation.problem);
            assert!(refused.is_err_and(|problem| problem.contains("60 s")));
        }
    }
}
