//! Offers of which nearly all are refused, because their key is taken.

use crate::{
    error::Error,
    keywork::{Keywork, Submits},
    scenario::Load,
};

/// Offers every job of `load` under [`Load::hot_key`] and answers how many found their key busy.
pub(crate) async fn busy(keywork: &mut Keywork, queue: &str, load: &Load) -> Result<u64, Error> {
    let submits = Submits::open(keywork).await?;
    let ended = submits.run(queue, load, |n| load.hot_key(n)).await?;
    Ok(ended.busy)
}
