//! What the figures were measured on.

use std::{fs, thread};

use serde::Serialize;

use crate::{error::Error, options::Options, process};

/// The machine and the versions.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Cores that client and servers share.
    pub(crate) cores: usize,
    /// The CPU's model.
    pub(crate) cpu: String,
    /// The kernel's version.
    pub(crate) kernel: String,
    /// The load of the minute before: near 0 where nothing else ran.
    pub(crate) load_before: String,
    /// nats-server's version.
    pub(crate) nats_server: String,
    /// Keywork's version.
    pub(crate) keywork: String,
}

impl Machine {
    /// Looks at the machine.
    pub(crate) fn look(options: &Options) -> Result<Self, Error> {
        let cores = thread::available_parallelism().map_err(Error::io("count the cores"))?;
        Ok(Self {
            cores: cores.get(),
            cpu: cpu_model(),
            kernel: first_word("/proc/sys/kernel/osrelease"),
            load_before: first_word("/proc/loadavg"),
            nats_server: process::version(&options.nats_server()),
            keywork: process::version(&options.keywork_bin),
        })
    }
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split_once(':'));
    model.map_or_else(|| "unknown".into(), |(_, model)| model.trim().into())
}

fn first_word(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").into()
}
