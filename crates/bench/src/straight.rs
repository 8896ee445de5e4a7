//! The rival: the same work straight on JetStream, written as well as it can be. One connection, one inbox
//! for every kind of answer, publishes and acks pipelined, each with its own answer, pulls in batches, and
//! whatever is ready dealt with at once.

mod busy;
mod confirmed;
mod cycle;
mod latency;
mod wire;

pub(crate) use busy::busy;
pub(crate) use cycle::cycle;
pub(crate) use latency::latency;
pub(crate) use wire::Wire;
