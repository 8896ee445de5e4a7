//! The whole cycle, every job under its own key.

use crate::{
    error::Error,
    field::{Field, Run},
    keywork,
    options::Options,
    scenario::{Load, Outcome, Rates},
    straight,
};

const TARGET: f64 = 0.9;
/// How much of the load goes before the first timed run, so that both servers are warm.
const WARM_UP: u64 = 5;

/// Measures it.
pub(crate) async fn measure(options: &Options, field: &Field) -> Result<Vec<Outcome>, Error> {
    let load = Load::of(options);
    straight(field, &load.part(WARM_UP)).await?;
    through(field, &load.part(WARM_UP)).await?;
    let mut rates = Rates::new("cycle, streams", TARGET);
    for _ in 0..options.alternations {
        rates.straight.push(straight(field, &load).await?);
        rates.keywork.push(through(field, &load).await?);
    }
    Ok(vec![Outcome::Rates(rates)])
}

/// One run straight on JetStream.
pub(super) async fn straight(field: &Field, load: &Load) -> Result<Run, Error> {
    let mut wire = field.straight().await?;
    let work = straight::cycle(&mut wire, load);
    let (run, ()) = field.time(load.jobs, work).await?;
    wire.close().await?;
    Ok(run)
}

async fn through(field: &Field, load: &Load) -> Result<Run, Error> {
    let (mut keywork, queue) = field.keywork().await?;
    let work = keywork::cycle(&mut keywork, &queue, load);
    let (run, ()) = field.time(load.jobs, work).await?;
    keywork.delete_queue(&queue).await?;
    Ok(run)
}
