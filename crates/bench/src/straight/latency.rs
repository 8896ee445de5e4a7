//! How long one publish takes, one at a time.

use tokio::time::Instant;

use crate::{
    error::Error,
    scenario::Load,
    straight::{Wire, wire::Arrival},
};

/// Publishes every job of `load`, each after the one before was stored. Answers microseconds.
pub(crate) async fn latency(wire: &mut Wire, load: &Load) -> Result<Vec<f64>, Error> {
    let mut took = Vec::new();
    for number in 0..load.jobs {
        let (key, payload) = (load.key(number), load.payload.clone());
        let began = Instant::now();
        wire.publish(&key, number, payload).await?;
        match wire.arrivals().await?.as_slice() {
            [Arrival::Stored(stored)] if *stored == number => {}
            other => return Err(Error::wrong(format!("{other:?}"))),
        }
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(took)
}
