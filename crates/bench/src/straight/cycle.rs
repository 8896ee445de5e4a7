//! The whole cycle: publish, pull, ack, with every publish and every ack confirmed.

use async_nats::Subject;

use crate::{
    error::Error,
    scenario::Load,
    straight::{Wire, confirmed::Confirmed, wire::Arrival},
};

struct Cycle<'a> {
    wire: &'a mut Wire,
    load: &'a Load,
    published: u64,
    stored: Confirmed,
    /// Asked for and not delivered.
    asked: u64,
    delivered: u64,
    settled: Confirmed,
}

/// Publishes, pulls and acknowledges every job of `load`.
pub(crate) async fn cycle(wire: &mut Wire, load: &Load) -> Result<(), Error> {
    let mut cycle = Cycle {
        wire,
        load,
        published: 0,
        stored: Confirmed::none_of(load.jobs),
        asked: 0,
        delivered: 0,
        settled: Confirmed::none_of(load.jobs),
    };
    while cycle.settled.count() < load.jobs || cycle.stored.count() < load.jobs {
        cycle.publish().await?;
        cycle.pull().await?;
        for arrival in cycle.wire.arrivals().await? {
            cycle.take(arrival).await?;
        }
    }
    Ok(())
}

impl Cycle<'_> {
    async fn publish(&mut self) -> Result<(), Error> {
        while self.published < self.load.jobs
            && self.published - self.stored.count() < self.load.window
        {
            let (key, payload) = (self.load.key(self.published), self.load.payload.clone());
            self.wire.publish(&key, self.published, payload).await?;
            self.published += 1;
        }
        Ok(())
    }

    /// Asks for what there is room for; little by little only when nothing is asked for.
    async fn pull(&mut self) -> Result<(), Error> {
        let held = self.delivered - self.settled.count();
        let room = self.load.window.saturating_sub(held + self.asked);
        if room > 0 && (self.asked == 0 || room >= self.load.window / 4) {
            self.wire.pull(room).await?;
            self.asked += room;
        }
        Ok(())
    }

    async fn take(&mut self, arrival: Arrival) -> Result<(), Error> {
        match arrival {
            Arrival::Stored(number) => self.stored.confirm(number)?,
            Arrival::Delivery(size, reply) => self.settle(size, reply).await?,
            Arrival::Acked(number) => self.settled.confirm(number)?,
            Arrival::PullEnded => return Err(Error::wrong("a pull ended early")),
            Arrival::Busy(_) => return Err(Error::wrong("a distinct key was busy")),
        }
        Ok(())
    }

    async fn settle(&mut self, size: usize, reply: Subject) -> Result<(), Error> {
        if size != self.load.payload.len() {
            return Err(Error::wrong("a payload of another size"));
        }
        self.asked -= 1;
        self.wire.ack(reply, self.delivered).await?;
        self.delivered += 1;
        Ok(())
    }
}
