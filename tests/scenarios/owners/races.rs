//! A late settlement against a redelivery (law 3).

use super::*;

/// How the races of late settlements with the redelivery of their jobs went.
#[derive(Debug, Default)]
struct Races {
    settled: usize,
    lost: usize,
}

/// Lets leases run out while another worker waits for their jobs, and settles each around the moment of
/// its redelivery: either the settlement counts and the job is over, or the other has it.
async fn late_settlements_race(a: &KeyworkServer, b: &KeyworkServer, waves: usize, jobs: usize) {
    make_queue(a, QUEUE, short_lease()).await;
    let mut clients = [client(a).await, client(b).await];
    let capacity = u32::try_from(jobs).expect("a capacity");
    let (mut races, mut middle) = (Races::default(), Duration::from_millis(3_010));
    for wave in 0..waves {
        create_all(&mut clients[0], QUEUE, &keys("key", jobs)).await;
        let wave_won = one_wave(&mut clients, wave, capacity, middle).await;
        // The next wave aims at the moment at which both sides win.
        let all = wave_won.settled + wave_won.lost;
        let shift = Duration::from_millis(25);
        if wave_won.settled * 5 > all * 3 {
            middle += shift;
        } else if wave_won.settled * 5 < all * 2 {
            middle -= shift;
        }
        races.settled += wave_won.settled;
        races.lost += wave_won.lost;
        eprintln!("wave {wave}: {wave_won:?}, next around {middle:?}");
    }
    eprintln!("races: {races:?}");
    assert_eq!(races.settled + races.lost, waves * jobs);
    let least = waves * jobs / 20;
    assert!(races.settled > least && races.lost > least, "{races:?}");
    assert_eq!(dead(&mut clients[0], QUEUE).await, []);
}

async fn one_wave(
    clients: &mut [Client; 2],
    wave: usize,
    capacity: u32,
    middle: Duration,
) -> Races {
    const SPREAD: Duration = Duration::from_millis(120);
    let jobs = capacity as usize;
    let slow = format!("slow-{wave}");
    let mut held_up = Session::open(&mut clients[0], hello(&slow, QUEUE, capacity)).await;
    let _living = held_up.keep_beating(Vec::new());
    let mut late = JoinSet::new();
    let mut given = 0;
    while given < jobs {
        let deliveries = held_up.deliveries().await;
        let received = Instant::now();
        given += deliveries.len();
        for (n, delivery) in deliveries.into_iter().enumerate() {
            let at = received + middle - SPREAD / 2 + SPREAD.mul_f64(rand::random());
            let mut client = clients[n % 2].clone();
            late.spawn(async move {
                sleep_until(at).await;
                let outcome = ack(&mut client, &delivery.lease_token, complete()).await;
                (key_of(&delivery), outcome)
            });
        }
    }
    held_up
        .send(Up::Capacity(proto::Capacity { capacity: 0 }))
        .await;
    let fast = format!("fast-{wave}");
    let mut other = Session::open(&mut clients[1], hello(&fast, QUEUE, capacity)).await;
    let _other_living = other.keep_beating(Vec::new());
    let (mut won, mut lost, mut again) = (HashSet::new(), HashSet::new(), HashSet::new());
    while !late.is_empty() || !lost.is_subset(&again) {
        tokio::select! {
            Some(raced) = late.join_next() => {
                let (key, outcome) = raced.expect("a race that ends");
                match outcome {
                    Settled::Settled => won.insert(key),
                    Settled::LeaseLost => lost.insert(key),
                    other => panic!("{key}: {other:?}"),
                };
            }
            deliveries = other.deliveries() => {
                for delivery in deliveries {
                    assert!(again.insert(key_of(&delivery)), "{delivery:?} twice");
                    // Not waited for: the next wave finds the key free, or fails.
                    let settlements = vec![settlement(&delivery.lease_token, complete())];
                    let settlements = proto::Settlements { settlements };
                    other.send(Up::Settlements(settlements)).await;
                }
            }
        }
    }
    let both: Vec<_> = won.intersection(&again).collect();
    assert!(both.is_empty(), "settled, and alive all the same: {both:?}");
    let mut settled = 0;
    while settled < again.len() {
        settled += other
            .wait_for(|message| match message {
                Down::SettlementResults(list) => Some(list.results.clone()),
                _ => None,
            })
            .await
            .iter()
            .filter(|r| r.outcome() == Settled::Settled)
            .count();
    }
    Races {
        settled: won.len(),
        lost: lost.len(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_a_late_settlement_and_a_redelivery_never_both_win() {
    let (_nats, a, b) = two_servers().await;
    late_settlements_race(&a, &b, 5, 2_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_3_a_late_settlement_and_a_redelivery_never_both_win_with_three_replicas() {
    let (_cluster, a, b) = cluster_with_two_servers().await;
    make_queue(&a, QUEUE, short_lease()).await;
    late_settlements_race(&a, &b, 5, 2_000).await;
}
