//! Free ports of the loopback.

use std::{
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, TcpListener},
    sync::{
        LazyLock,
        atomic::{AtomicU16, Ordering},
    },
};

/// Below what systems hand out by themselves: nothing else takes the port while a server that is to
/// come back on it is away, and no client that dials it meets itself.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
    // Test processes that run side by side start at different places.
    let start = RandomState::new().hash_one(std::process::id()) % u64::from(COUNT);
    AtomicU16::new(u16::try_from(start).unwrap_or_default())
});

/// A port of the loopback that nobody listens on, and that this process has not been given before.
///
/// # Panics
///
/// When there is none.
pub fn free_port() -> u16 {
    (0..COUNT)
        .map(|_| FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .unwrap_or_else(|| panic!("no port is free on the loopback"))
}
