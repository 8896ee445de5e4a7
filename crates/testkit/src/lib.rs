//! What a test needs of the world: a real nats-server or three of them, a real Keywork server, a
//! network that can fail, and waiting with a deadline.
//!
//! Everything here listens on the loopback, keeps its files in a temporary directory, and ends with
//! the value that stands for it. What cannot be set up panics and says why, with the process's own log.
//! It depends on no other crate of the workspace, so that it can test each of them.

mod cluster;
mod keywork;
mod nats;
mod ports;
mod process;
mod proxy;
mod wait;

pub use cluster::NatsCluster;
pub use keywork::{KeyworkBuilder, KeyworkServer};
pub use nats::{NatsOptions, NatsServer, nats_server_binary};
pub use ports::free_port;
pub use proxy::{FaultProxy, Mode};
pub use wait::{eventually, eventually_some};
