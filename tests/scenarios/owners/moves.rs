//! Leases that are good at the other server too (law 4).

use super::*;

/// A lease that a worker was given by a unary pull at one server, used at another.
async fn a_token_works_at_the_other_server(from: &KeyworkServer, to: &KeyworkServer, killed: bool) {
    let config = lease_of(Duration::from_secs(6));
    make_queue(from, QUEUE, config).await;
    let (mut at_from, mut at_to) = (client(from).await, client(to).await);
    // The other one knows the queue: otherwise its first call opens it.
    create_all(&mut at_to, QUEUE, &keys("key", 4)).await;
    let mut leases = Vec::new();
    for _ in 0..4 {
        leases.push(pull(&mut at_from, QUEUE, SOON).await.expect("a job"));
    }
    if killed {
        from.kill();
    }
    let tokens = tokens_of(&leases);
    let renewed = beat_all(&mut at_to, &tokens).await;
    let extended = |r: &proto::HeartbeatResult| !unwire(r.time_left.as_ref()).is_zero();
    assert!(renewed.iter().all(extended), "{renewed:?}");
    // The old token names the same lease as the renewed one.
    let outcomes = [complete(), retry_after(Duration::ZERO), release(), fail()];
    let mut stale = Vec::new();
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let token = if n % 2 == 0 {
            &renewed[n].lease_token
        } else {
            &tokens[n]
        };
        let settled = ack(&mut at_to, token, outcome).await;
        assert_eq!(settled, Settled::Settled, "{n}");
        stale.extend([tokens[n].clone(), renewed[n].lease_token.clone()]);
    }
    assert_eq!(dead(&mut at_to, QUEUE).await.len(), 1);
    let mut again = Vec::new();
    for _ in 0..2 {
        again.push(pull(&mut at_to, QUEUE, SOON).await.expect("a job again"));
    }
    // Whoever shows the old leases anywhere changes nothing of the new ones.
    for client in if killed {
        vec![&mut at_to]
    } else {
        vec![&mut at_to, &mut at_from]
    } {
        for token in &stale {
            let outcome = ack(client, token, complete()).await;
            let refused = [Settled::LeaseLost, Settled::AlreadySettled];
            assert!(refused.contains(&outcome), "{outcome:?}");
        }
    }
    for lease in again {
        assert_eq!(
            ack(&mut at_to, &lease.lease_token, complete()).await,
            Settled::Settled
        );
    }
    create_all(&mut at_to, QUEUE, &keys("key", 4)).await;
}

/// A session's leases, gone on with by the same worker at another server, past their first deadline.
async fn a_worker_goes_on_at_the_other_server(
    from: &KeyworkServer,
    to: &KeyworkServer,
    killed: bool,
) {
    const QUEUE: &str = "moving";
    const LEASE: Duration = Duration::from_secs(6);
    make_queue(from, QUEUE, lease_of(LEASE)).await;
    let (mut at_from, mut at_to) = (client(from).await, client(to).await);
    create_all(&mut at_to, QUEUE, &keys("key", 10)).await;
    let mut first = Session::open(&mut at_from, hello("w", QUEUE, 10)).await;
    let tokens = tokens_of(&first.deliveries_of(10).await);
    let confirmed = first.beat_ack(&tokens).await;
    assert_eq!((confirmed.lost, confirmed.unconfirmed), (vec![], vec![]));
    let beaten_at = Instant::now();
    if killed {
        from.kill();
    }
    let claiming = proto::Hello {
        held_leases: tokens.clone(),
        session_ticket: confirmed.session_ticket,
        ..hello("w", QUEUE, 10)
    };
    let mut second = Session::open(&mut at_to, claiming).await;
    assert_eq!(second.welcome.lost, [], "nothing is lost on the way");
    assert_eq!(second.welcome.resumed.len(), tokens.len());
    let _beating = second.keep_beating(tokens.clone());
    if !killed {
        let away = first.wait_for(|message| match message {
            Down::GoAway(away) => Some(away.reason()),
            _ => None,
        });
        assert_eq!(away.await, proto::GoAwayReason::Superseded);
    }
    // Past the first deadline: only the second session's heartbeats hold them.
    let past = (beaten_at + LEASE + Duration::from_secs(2)) - Instant::now();
    assert!(second.nothing_for(past).await, "leased again");
    for token in &tokens {
        assert_eq!(second.settle(token, complete()).await, Settled::Settled);
    }
    create_all(&mut at_to, QUEUE, &keys("key", 10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_good_at_the_other_server_while_the_first_lives() {
    let (_nats, a, b) = two_servers().await;
    a_token_works_at_the_other_server(&a, &b, false).await;
    a_worker_goes_on_at_the_other_server(&a, &b, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_good_at_the_other_server_when_the_first_was_killed() {
    let (_nats, a, b) = two_servers().await;
    a_token_works_at_the_other_server(&a, &b, true).await;
    a.restart().await;
    a_worker_goes_on_at_the_other_server(&a, &b, true).await;
}

/// Moves a worker's leases to a server, and says what it says there.
async fn move_to(server: &KeyworkServer, tokens: &[Bytes], ticket: Bytes) -> (Session, Bytes) {
    let claiming = proto::Hello {
        held_leases: tokens.to_vec(),
        session_ticket: ticket,
        ..hello("w", QUEUE, 10)
    };
    let mut session = Session::open(&mut client(server).await, claiming).await;
    assert_eq!(session.welcome.lost, [], "nothing is lost on the way");
    assert_eq!(session.welcome.resumed.len(), tokens.len());
    let confirmed = session.beat_ack(tokens).await;
    assert_eq!((confirmed.lost, confirmed.unconfirmed), (vec![], vec![]));
    (session, confirmed.session_ticket)
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_worker_that_moves_again_and_again_loses_nothing() {
    const LEASE: Duration = Duration::from_secs(6);
    let (nats, a, b) = two_servers().await;
    let c = server_on(&nats.url()).await;
    make_queue(&a, QUEUE, lease_of(LEASE)).await;
    create_all(&mut client(&a).await, QUEUE, &keys("key", 10)).await;
    let mut first = Session::open(&mut client(&a).await, hello("w", QUEUE, 10)).await;
    let tokens = tokens_of(&first.deliveries_of(10).await);
    let given_at = Instant::now();
    let (mut second, ticket) = move_to(&b, &tokens, Bytes::new()).await;
    // Beyond what the tokens say themselves, only the ticket proves anything.
    let beating = second.keep_beating(tokens.clone());
    sleep_until(given_at + LEASE).await;
    drop(beating);
    let ticket_after = second.beat_ack(&tokens).await.session_ticket;
    assert_ne!(ticket, ticket_after);
    b.kill();
    let (_third, ticket) = move_to(&c, &tokens, ticket_after).await;
    c.kill();
    let (_fourth, ticket) = move_to(&a, &tokens, ticket).await;
    b.restart().await;
    let (mut last, _) = move_to(&b, &tokens, ticket).await;
    for token in &tokens {
        assert_eq!(last.settle(token, complete()).await, Settled::Settled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_a_lease_settled_at_the_other_server_is_settled_at_the_first() {
    let (_nats, a, b) = two_servers().await;
    make_queue(&a, QUEUE, lease_of(LONG_LEASE)).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    create_all(&mut at_b, QUEUE, &keys("key", 100)).await;
    let mut session = Session::open(&mut at_a, hello("w", QUEUE, 100)).await;
    for (before, delivery) in session.deliveries_of(100).await.iter().enumerate() {
        let token = &delivery.lease_token;
        let given_back = ack(&mut at_b, token, retry_after(SOON)).await;
        assert_eq!(given_back, Settled::Settled);
        // At once: the first server may not have heard of it yet.
        let late = session.settle(token, complete()).await;
        assert_ne!(late, Settled::Settled, "after {before} others");
        let waits = job(&mut at_a, QUEUE, &key_of(delivery)).await;
        assert_eq!(waits.expect("the job").attempt, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_4_a_lease_that_is_claimed_while_nats_is_away_is_not_lost() {
    let (nats, a, b) = two_servers().await;
    make_queue(&a, QUEUE, lease_of(LONG_LEASE)).await;
    let (mut at_a, mut at_b) = (client(&a).await, client(&b).await);
    create(&mut at_b, QUEUE, "key").await;
    let mut first = Session::open(&mut at_a, hello("w", QUEUE, 1)).await;
    let delivery = first.delivery().await;
    a.kill();
    nats.kill();
    let claiming = proto::Hello {
        held_leases: vec![delivery.lease_token.clone()],
        ..hello("w", QUEUE, 1)
    };
    let mut second = Session::open(&mut at_b, claiming).await;
    assert_eq!(second.welcome.lost, [], "nobody knows that it is lost");
    nats.restart().await;
    eventually(SOON, "the lease is settled", async || {
        match second.settle(&delivery.lease_token, complete()).await {
            Settled::TryAgain => false,
            outcome => {
                assert_eq!(outcome, Settled::Settled);
                true
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_stale_leases_change_nothing_with_three_replicas() {
    let (_cluster, a, b) = cluster_with_two_servers().await;
    make_queue(&a, QUEUE, lease_of(LONG_LEASE)).await;
    stale_leases_change_nothing(&a, &b, 200, 6).await;
    // The same servers, for what else is to hold with three replicas.
    let delete = proto::DeleteQueueRequest {
        name: QUEUE.into(),
        force: true,
    };
    let deleted = admin(&a).await.delete_queue(delete).await;
    deleted.expect("the queue is deleted");
    a_token_works_at_the_other_server(&a, &b, false).await;
    a_worker_goes_on_at_the_other_server(&b, &a, true).await;
}
