//! `Ack`: settles leases by their tokens.

use crate::{convert, errors::Problem, proto, rpc::Service};

impl Service {
    pub(super) async fn settle(
        &self,
        request: proto::AckRequest,
    ) -> Result<proto::AckResponse, Problem> {
        convert::check_list("settlements", request.settlements.len())?;
        let items = request
            .settlements
            .into_iter()
            .map(convert::to_settle_item)
            .collect();
        let results = self.engine.ack(items).await;
        let results = results.into_iter().map(convert::settle_result).collect();
        Ok(proto::AckResponse { results })
    }
}
