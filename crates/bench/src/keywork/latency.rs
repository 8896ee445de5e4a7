//! How long one unary submit takes, one at a time.

use tokio::time::Instant;

use crate::{
    error::Error,
    keywork::{Keywork, unary::submit_one},
    scenario::Load,
};

/// Submits every job of `load`, each after the one before was accepted. Answers microseconds.
pub(crate) async fn latency(
    keywork: &mut Keywork,
    queue: &str,
    load: &Load,
) -> Result<Vec<f64>, Error> {
    let mut took = Vec::new();
    for number in 0..load.jobs {
        let began = Instant::now();
        submit_one(keywork.clone(), queue, number, load).await?;
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(took)
}
