//! `Heartbeat`: extends leases by their tokens.

use keywork_engine::Heartbeaten;

use crate::{convert, errors::Problem, proto, rpc::Service};

impl Service {
    pub(super) async fn extend(
        &self,
        request: proto::HeartbeatRequest,
    ) -> Result<proto::HeartbeatResponse, Problem> {
        convert::check_list("lease_tokens", request.lease_tokens.len())?;
        let tokens = request.lease_tokens.clone();
        let beaten = self.engine.heartbeat(request.lease_tokens).await;
        let results = tokens
            .into_iter()
            .zip(beaten)
            .map(|(token, beaten)| match beaten {
                Heartbeaten::Extended(extended) => proto::HeartbeatResult {
                    lease_token: extended.token,
                    time_left: Some(convert::duration(extended.time_left)),
                    ..proto::HeartbeatResult::default()
                },
                Heartbeaten::Lost(reason) => proto::HeartbeatResult {
                    lease_token: token,
                    lost: convert::lost_reason(reason).into(),
                    ..proto::HeartbeatResult::default()
                },
                Heartbeaten::TryAgain => proto::HeartbeatResult {
                    lease_token: token,
                    try_again: true,
                    ..proto::HeartbeatResult::default()
                },
            });
        Ok(proto::HeartbeatResponse {
            results: results.collect(),
        })
    }
}
