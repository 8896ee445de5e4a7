//! Publishes of which nearly all are rejected, because their key is taken.

use crate::{
    error::Error,
    scenario::Load,
    straight::{Wire, confirmed::Confirmed, wire::Arrival},
};

/// Publishes every job of `load` under [`Load::hot_key`] and answers how many were rejected.
pub(crate) async fn busy(wire: &mut Wire, load: &Load) -> Result<u64, Error> {
    let (mut published, mut rejected) = (0, 0);
    let mut answered = Confirmed::none_of(load.jobs);
    while answered.count() < load.jobs {
        while published < load.jobs && published - answered.count() < load.window {
            let (key, payload) = (load.hot_key(published), load.payload.clone());
            wire.publish(&key, published, payload).await?;
            published += 1;
        }
        for arrival in wire.arrivals().await? {
            match arrival {
                Arrival::Stored(number) => answered.confirm(number)?,
                Arrival::Busy(number) => {
                    answered.confirm(number)?;
                    rejected += 1;
                }
                Arrival::Delivery(..) | Arrival::Acked(_) | Arrival::PullEnded => {
                    return Err(Error::wrong("a delivery that nobody asked for"));
                }
            }
        }
    }
    Ok(rejected)
}
