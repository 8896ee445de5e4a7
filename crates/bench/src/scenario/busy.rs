//! A hot key: 99 of 100 submits find it busy.

use crate::{
    error::Error,
    field::{Field, Run},
    keywork,
    options::Options,
    scenario::{Load, Outcome, Rates},
    straight,
};

const TARGET: f64 = 0.7;

/// Measures it.
pub(crate) async fn measure(options: &Options, field: &Field) -> Result<Vec<Outcome>, Error> {
    let load = Load::of(options);
    through(field, &load.part(10)).await?;
    let mut rates = Rates::new("99 % busy submits", TARGET);
    for _ in 0..options.alternations {
        rates.straight.push(straight(field, &load).await?);
        rates.keywork.push(through(field, &load).await?);
    }
    Ok(vec![Outcome::Rates(rates)])
}

async fn straight(field: &Field, load: &Load) -> Result<Run, Error> {
    let mut wire = field.straight().await?;
    let work = straight::busy(&mut wire, load);
    let (run, busy) = field.time(load.jobs, work).await?;
    wire.close().await?;
    expect(load, busy)?;
    Ok(run)
}

async fn through(field: &Field, load: &Load) -> Result<Run, Error> {
    let (mut keywork, queue) = field.keywork().await?;
    let work = keywork::busy(&mut keywork, &queue, load);
    let (run, busy) = field.time(load.jobs, work).await?;
    keywork.delete_queue(&queue).await?;
    expect(load, busy)?;
    Ok(run)
}

fn expect(load: &Load, busy: u64) -> Result<(), Error> {
    if busy == load.busy() {
        return Ok(());
    }
    let wanted = load.busy();
    Err(Error::wrong(format!("{busy} busy submits, not {wanted}")))
}
