//! Heartbeats without a stream.

use std::time::Duration;

use keywork_testkit::eventually;
use tokio::time::Instant;

use crate::support::{SOON, beat, client, create, one_server, pull, server_on};

/// A server that does not know a lease asks several for it, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn law_8_a_heartbeat_at_any_server_is_answered_in_time_while_nats_is_silent() {
    const ANSWER_WITHIN: Duration = Duration::from_secs(5);
    const LOADED: Duration = Duration::from_secs(2);
    let (nats, server) = one_server().await;
    let other = server_on(&nats.url()).await;
    let (mut client, mut elsewhere) = (client(&server).await, client(&other).await);
    create(&mut client, "q", "foo-123").await;
    let leased = pull(&mut client, "q", SOON).await.expect("the job");
    let token = beat(&mut elsewhere, &leased.lease_token).await.lease_token;

    nats.pause();
    for client in [&mut client, &mut elsewhere] {
        let began = Instant::now();
        let beaten = beat(client, &token).await;
        let took = began.elapsed();
        assert!(took < ANSWER_WITHIN + LOADED, "{took:?}");
        assert!(beaten.try_again, "{beaten:?}");
    }
    nats.resume();
    eventually(SOON, "the lease is extended again", async || {
        beat(&mut elsewhere, &token).await.time_left.is_some()
    })
    .await;
}
