//! The CPU time of processes, as the kernel counts it.

use std::fs;

use serde::Serialize;

/// The unit of `/proc/PID/stat`: fixed by the kernel's interface.
const TICKS_A_SECOND: f64 = 100.0;

/// User and system seconds of the three processes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Cpu {
    /// This process.
    pub(crate) client: f64,
    /// Keywork.
    pub(crate) keywork: f64,
    /// nats-server.
    pub(crate) nats: f64,
}

impl Cpu {
    /// What was used until now.
    pub(crate) fn now(keywork: u32, nats: u32) -> Self {
        Self {
            client: seconds("self"),
            keywork: seconds(&keywork.to_string()),
            nats: seconds(&nats.to_string()),
        }
    }

    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            client: self.client - earlier.client,
            keywork: self.keywork - earlier.keywork,
            nats: self.nats - earlier.nats,
        }
    }
}

/// User and system seconds of one process, all its threads together. 0 where it cannot be read.
fn seconds(process: &str) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    parse(&stat).unwrap_or_default()
}

/// The 14th and 15th fields; the second, the name in brackets, may hold spaces.
fn parse(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let (user, system) = (fields.next()?, fields.next()?);
    Some((user.parse::<f64>().ok()? + system.parse::<f64>().ok()?) / TICKS_A_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_does_not_shift_the_fields() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 0 0 0 120 34 0 0 20 0 1 0 5 6 7";
        assert_eq!(parse(stat), Some(1.54));
        assert_eq!(parse(""), None);
    }
}
