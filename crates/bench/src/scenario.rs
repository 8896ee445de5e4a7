//! What is measured: both sides by turns, and what their runs say together.

pub(crate) mod busy;
pub(crate) mod cycle;
pub(crate) mod unary;

use bytes::Bytes;
use clap::ValueEnum;
use serde::Serialize;

use crate::{field::Run, options::Options, stats::Spread};

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scenario {
    /// The whole cycle through streams: submit, lease, settle; every job its own key.
    Cycle,
    /// The whole cycle with one unary call a submit; and how long one call takes.
    Unary,
    /// A hot key: 99 of 100 submits find it busy.
    Busy,
}

impl Scenario {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Cycle, Self::Unary, Self::Busy];
}

/// The work of one run.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// How many jobs.
    pub(crate) jobs: u64,
    /// Submits in flight, and leases held, at most.
    pub(crate) window: u64,
    /// Every job's payload.
    pub(crate) payload: Bytes,
}

impl Load {
    /// The load that the options ask for.
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            jobs: options.jobs,
            window: options.window.into(),
            payload: vec![b'x'; options.payload as usize].into(),
        }
    }

    /// The same load with fewer jobs.
    pub(crate) fn part(&self, of: u64) -> Self {
        let jobs = (self.jobs / of).max(1);
        Self {
            jobs,
            ..self.clone()
        }
    }

    /// A key of its own for each job.
    pub(crate) fn key(&self, number: u64) -> String {
        format!("key-{number:08}")
    }

    /// One key for 99 of 100 jobs, the first one included.
    pub(crate) fn hot_key(&self, number: u64) -> String {
        if number % 100 == 99 {
            self.key(number)
        } else {
            "hot".into()
        }
    }

    /// How many jobs find [`Load::hot_key`] busy.
    pub(crate) fn busy(&self) -> u64 {
        self.jobs - self.jobs / 100 - 1
    }
}

/// What was found of one scenario.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// Jobs a second.
    Rates(Rates),
    /// Microseconds of one job.
    Latencies(Latencies),
}

/// Both sides' rates.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rates {
    /// What was measured.
    pub(crate) name: &'static str,
    /// The ratio to reach.
    pub(crate) target: f64,
    /// Straight on JetStream.
    pub(crate) straight: Vec<Run>,
    /// Through Keywork.
    pub(crate) keywork: Vec<Run>,
}

impl Rates {
    /// Nothing measured yet.
    pub(crate) fn new(name: &'static str, target: f64) -> Self {
        let (straight, keywork) = (Vec::new(), Vec::new());
        Self {
            name,
            target,
            straight,
            keywork,
        }
    }

    /// Keywork's rate over the straight one, alternation by alternation.
    pub(crate) fn ratio(&self) -> Spread {
        let pairs = self.straight.iter().zip(&self.keywork);
        Spread::of(pairs.map(|(straight, keywork)| keywork.rate() / straight.rate()))
    }
}

/// Both sides' latencies, one entry an alternation.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Latencies {
    /// What was measured.
    pub(crate) name: &'static str,
    /// What Keywork may add to p50 and p99.
    pub(crate) target: Quantiles,
    /// Straight on JetStream.
    pub(crate) straight: Vec<Quantiles>,
    /// Through Keywork.
    pub(crate) keywork: Vec<Quantiles>,
}

/// Two percentiles in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Quantiles {
    /// Half of all were quicker.
    pub(crate) p50: f64,
    /// 99 of 100 were quicker.
    pub(crate) p99: f64,
}

impl Quantiles {
    /// Of these microseconds.
    pub(crate) fn of(mut took: Vec<f64>) -> Self {
        took.sort_by(f64::total_cmp);
        let at = |percent| crate::stats::percentile(&took, percent);
        Self {
            p50: at(50),
            p99: at(99),
        }
    }
}
