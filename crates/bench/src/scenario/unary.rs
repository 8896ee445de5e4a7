//! One unary call a submit: the whole cycle with many calls in flight, and the latency of one at a time.

use crate::{
    error::Error,
    field::{Field, Run},
    keywork,
    options::Options,
    scenario::{Latencies, Load, Outcome, Quantiles, Rates, cycle},
    straight,
};

const TARGET: f64 = 0.4;
const ADDED: Quantiles = Quantiles {
    p50: 150.0,
    p99: 1_000.0,
};
/// One call at a time is slow: so many of the jobs will do.
const ONE_AT_A_TIME: u64 = 20;

/// Measures both.
pub(crate) async fn measure(options: &Options, field: &Field) -> Result<Vec<Outcome>, Error> {
    let load = Load::of(options);
    Ok(vec![
        Outcome::Rates(rates(options, field, &load).await?),
        Outcome::Latencies(latencies(options, field, &load.part(ONE_AT_A_TIME)).await?),
    ])
}

async fn rates(options: &Options, field: &Field, load: &Load) -> Result<Rates, Error> {
    through(field, &load.part(10), options.calls).await?;
    let mut rates = Rates::new("cycle, unary submits", TARGET);
    for _ in 0..options.alternations {
        rates.straight.push(cycle::straight(field, load).await?);
        let keywork = through(field, load, options.calls).await?;
        rates.keywork.push(keywork);
    }
    Ok(rates)
}

async fn through(field: &Field, load: &Load, calls: u32) -> Result<Run, Error> {
    let (mut keywork, queue) = field.keywork().await?;
    let work = keywork::unary(&mut keywork, &queue, load, calls as usize);
    let (run, ()) = field.time(load.jobs, work).await?;
    keywork.delete_queue(&queue).await?;
    Ok(run)
}

async fn latencies(options: &Options, field: &Field, load: &Load) -> Result<Latencies, Error> {
    let (mut straight, mut through) = (Vec::new(), Vec::new());
    for _ in 0..options.alternations {
        straight.push(straight_latency(field, load).await?);
        through.push(keywork_latency(field, load).await?);
    }
    Ok(Latencies {
        name: "one submit at a time",
        target: ADDED,
        straight,
        keywork: through,
    })
}

async fn straight_latency(field: &Field, load: &Load) -> Result<Quantiles, Error> {
    let mut wire = field.straight().await?;
    let (_, took) = field
        .time(load.jobs, straight::latency(&mut wire, load))
        .await?;
    wire.close().await?;
    Ok(Quantiles::of(took))
}

async fn keywork_latency(field: &Field, load: &Load) -> Result<Quantiles, Error> {
    let (mut keywork, queue) = field.keywork().await?;
    let work = keywork::latency(&mut keywork, &queue, load);
    let (_, took) = field.time(load.jobs, work).await?;
    keywork.delete_queue(&queue).await?;
    Ok(Quantiles::of(took))
}
