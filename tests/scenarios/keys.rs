//! Keys that must not stick (laws 1, 2 and 7).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of the messages of a session, a test picks the one that it waits for"
)]

mod one;
mod purged;
mod settled;
mod stuck;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use keywork::proto::{
    self, DeadReason, GoAwayReason, JobState, LostReason, SettlementOutcome, SubmitOutcome,
    lease_request::Message as Up, lease_response::Message as Down, settlement::Outcome,
};
use keywork_testkit::{KeyworkServer, eventually, eventually_some};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::support::{
    Client, SHORT_LEASE, SOON, Session, ack, admin, beat, client, cluster_with_two_servers,
    complete, create, dead, fail, hello, job, make_queue, offer, one_server, pull, retry_after,
    server_on, settlement, short_lease, submit, unwire, wire,
};

/// What a loaded machine may add to a time that is promised.
const LOADED: Duration = Duration::from_secs(4);

/// All dead letters of a queue, page by page.
async fn all_dead(client: &mut Client, queue: &str) -> Vec<proto::DeadJob> {
    let (mut letters, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = proto::ListDeadJobsRequest {
            queue: queue.into(),
            page_token,
            ..Default::default()
        };
        let page = client.list_dead_jobs(request).await.expect("a page");
        let page = page.into_inner();
        letters.extend(page.jobs);
        if page.next_page_token.is_empty() {
            return letters;
        }
        page_token = page.next_page_token;
    }
}

/// Waits for the one dead letter of a queue.
async fn the_dead_letter(client: &mut Client, queue: &str) -> proto::DeadJob {
    let mut letters = eventually_some(SOON, "a dead letter", async || {
        Some(dead(client, queue).await).filter(|letters| !letters.is_empty())
    })
    .await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    letters.remove(0)
}
