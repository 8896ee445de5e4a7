//! The submitter: every version of every package, each until its key is free.

use std::time::Duration;

use keywork_sdk::{Client, Error, Submit};
use tokio::time::sleep;

use crate::{Accepted, QUEUE, packages::Package};

/// The pause before busy keys are tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What was submitted.
#[derive(Debug, Default)]
pub(crate) struct Submitted {
    pub(crate) jobs: Vec<Accepted>,
    /// How many jobs were answered busy at first.
    pub(crate) waited: usize,
    /// How many answers were busy, those to later tries included.
    pub(crate) busy_answers: usize,
}

/// Submits everything at once, and what was busy again until it is accepted.
pub(crate) async fn submit_all(client: &Client, packages: &[Package]) -> Result<Submitted, Error> {
    let mut submitted = Submitted::default();
    let mut offered = packages.to_vec();
    loop {
        let busy = submit(client, offered, &mut submitted).await?;
        if submitted.busy_answers == 0 {
            submitted.waited = busy.len();
        }
        if busy.is_empty() {
            return Ok(submitted);
        }
        submitted.busy_answers += busy.len();
        offered = busy;
        sleep(AGAIN_AFTER).await;
    }
}

/// Offers packages on one stream. Answers those whose key is busy.
async fn submit(
    client: &Client,
    offered: Vec<Package>,
    submitted: &mut Submitted,
) -> Result<Vec<Package>, Error> {
    let submits = offered.iter().map(|package| {
        Submit::new(QUEUE, &package.name)
            .payload(package.folder.to_string_lossy().into_owned())
            .attribute("version", &package.version)
    });
    let outcomes = client.submit_many(submits).await;
    let mut busy = Vec::new();
    for (package, outcome) in offered.into_iter().zip(outcomes) {
        let outcome = outcome?;
        if outcome.is_accepted() {
            let id = outcome.job().id.clone();
            submitted.jobs.push(Accepted { id, package });
        } else {
            busy.push(package);
        }
    }
    Ok(busy)
}
