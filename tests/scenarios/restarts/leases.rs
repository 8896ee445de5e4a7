//! Leases outlive restarts (law 4).

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn law_4_leases_outlive_a_kill_of_all_servers() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    make_queue(&a, QUEUE, lease_of(LEASE)).await;
    create_all(&mut client(&a).await, QUEUE, &keys("key", 40)).await;
    let (_first, held, mut until) = leased(&mut client(&a).await, "w", 20).await;
    let (_second, _, more) = leased(&mut client(&b).await, "v", 20).await;
    until.extend(more);
    a.kill();
    b.kill();
    tokio::join!(a.restart(), b.restart());

    let claimed = tokens_of(&held[..10]);
    let claiming = proto::Hello {
        held_leases: claimed.clone(),
        ..hello("w", QUEUE, 10)
    };
    let mut second = Session::open(&mut client(&b).await, claiming).await;
    assert_eq!(second.welcome.lost, []);
    assert_eq!(second.welcome.resumed.len(), claimed.len());
    let _beating = second.keep_beating(claimed.clone());
    for delivery in &held[..10] {
        until.remove(&key_of(delivery));
    }
    served_again_in_time(&a, "other", &until).await;
    for token in &claimed {
        assert_eq!(second.settle(token, complete()).await, Settled::Settled);
    }
    create_all(&mut client(&a).await, QUEUE, &keys("key", 40)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_leases_outlive_a_kill_of_nats_right_after_they_were_given() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    make_queue(&a, QUEUE, lease_of(LEASE)).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    create_all(&mut at_a, QUEUE, &keys("key", 60)).await;
    // The first ones are of a while ago: what NATS wrote of them is on its disk.
    let (_old, old, mut until) = leased(&mut at_a, "old", 20).await;
    let (_new, new, more) = leased(&mut at_b, "new", 40).await;
    nats.kill();
    nats.restart().await;
    until.extend(more);
    for delivery in old[..10].iter().chain(&new[..20]) {
        settled_in_the_end(&mut at_b, &delivery.lease_token).await;
        until.remove(&key_of(delivery));
    }
    served_again_in_time(&a, "other", &until).await;
    create_all(&mut at_a, QUEUE, &keys("key", 60)).await;
}

/// How NATS is restarted, and the server with it or not.
#[derive(Clone, Copy)]
struct Restart {
    kill_nats: bool,
    kill_server: bool,
}

/// Leases whose extension was confirmed outlive a restart: half go on with their holder, and half run out.
async fn extended_leases_outlive(how: Restart) {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, lease_of(LEASE)).await;
    let mut at = client(&server).await;
    create_all(&mut at, QUEUE, &keys("key", 20)).await;
    let (mut holder, held, mut until) = leased(&mut at, "holder", 20).await;
    let tokens = tokens_of(&held);
    let ticket = confirmed(&mut holder, &tokens, &mut until).await;
    if how.kill_server {
        server.kill();
    }
    if how.kill_nats {
        nats.kill();
    } else {
        nats.stop().await;
    }
    nats.restart().await;
    let mut at = if how.kill_server {
        server.restart().await;
        let mut at = client(&server).await;
        let claiming = proto::Hello {
            held_leases: tokens.clone(),
            session_ticket: ticket,
            ..hello("holder", QUEUE, 10)
        };
        holder = Session::open(&mut at, claiming).await;
        assert_eq!(holder.welcome.lost, []);
        holder.keep_beating(Vec::new()).detach_all();
        at
    } else {
        at
    };
    // The holder goes on with the first ones, beyond the deadline that they had, and then settles.
    let (kept, left) = held.split_at(10);
    let _beating = holder.keep_beating(tokens_of(kept));
    for delivery in kept {
        until.remove(&key_of(delivery));
    }
    assert_eq!(until.len(), left.len());
    served_again_in_time(&server, "other", &until).await;
    for delivery in kept {
        settled_in_the_end(&mut at, &delivery.lease_token).await;
    }
    create_all(&mut at, QUEUE, &keys("key", 20)).await;
}

/// A heartbeat that confirms all leases. Answers its ticket.
async fn confirmed(
    holder: &mut Session,
    tokens: &[Bytes],
    until: &mut HashMap<String, Instant>,
) -> Bytes {
    // Late enough that what it adds is not lost in rounding.
    sleep(LEASE / 4).await;
    let before = Instant::now();
    let ack = holder.beat_ack(tokens).await;
    assert_eq!((ack.lost, ack.unconfirmed), (vec![], vec![]));
    for deadline in until.values_mut() {
        *deadline = before + LEASE;
    }
    ack.session_ticket
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_extended_leases_outlive_a_clean_restart_of_nats() {
    extended_leases_outlive(Restart {
        kill_nats: false,
        kill_server: false,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_extended_leases_outlive_a_kill_of_nats() {
    extended_leases_outlive(Restart {
        kill_nats: true,
        kill_server: false,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_extended_leases_outlive_a_clean_restart_of_nats_and_a_kill_of_the_server() {
    extended_leases_outlive(Restart {
        kill_nats: false,
        kill_server: true,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_extended_leases_outlive_a_kill_of_nats_and_the_server() {
    extended_leases_outlive(Restart {
        kill_nats: true,
        kill_server: true,
    })
    .await;
}

/// They may have been leased, for all that anybody knows; the wait for that is one of JetStream's, not two.
#[tokio::test(flavor = "multi_thread")]
async fn queued_jobs_run_after_one_wait_when_nats_was_killed() {
    const SPARE: Duration = Duration::from_secs(4);
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, lease_of(LEASE)).await;
    let mut at = client(&server).await;
    create_all(&mut at, QUEUE, &keys("key", 20)).await;
    nats.kill();
    nats.restart().await;
    let back_at = Instant::now();
    nats_is_back(&mut at).await;
    let mut session = Session::open(&mut at, hello("w", QUEUE, 100)).await;
    let _living = session.keep_beating(Vec::new());
    session.deliveries_of(21).await;
    let took = back_at.elapsed();
    assert!(took < LEASE + Duration::from_secs(1) + SPARE, "{took:?}");
}
