//! Who wins when two settle or re-seat one job at the same time.

use std::{collections::HashSet, time::Duration};

use futures::future::join_all;
use keywork_testkit::eventually;

use super::lab::{Lab, NO_SUCH_SEQUENCE, PUBLISH_IN_FLIGHT, SOON, WRONG_LAST_SEQUENCE, jobs};

const ROUNDS: usize = 10;
const TOGETHER: usize = 20;

/// Keys with a job each, in the lab.
async fn submitted(lab: &Lab, round: usize) -> Vec<(String, u64)> {
    let keys = (0..TOGETHER).map(|number| format!("k{round}-{number}"));
    join_all(keys.map(async |key| {
        let sequence = lab.submit(&key).await;
        (key, sequence)
    }))
    .await
}

/// Staggers the racers by up to two milliseconds, differently for each.
async fn stagger(sequence: u64, racer: u64) {
    let micros = (sequence * 7919 + racer * 104_729) % 2_000;
    tokio::time::sleep(Duration::from_micros(micros)).await;
}

#[tokio::test]
async fn two_reseats_of_one_sequence_never_both_succeed() {
    for lab in jobs().both().await {
        for round in 0..ROUNDS {
            let jobs = submitted(&lab, round).await;
            join_all(
                jobs.iter()
                    .map(|(key, sequence)| two_reseats(&lab, key, *sequence)),
            )
            .await;
        }
    }
}

async fn two_reseats(lab: &Lab, key: &str, sequence: u64) {
    let racer = async |number| {
        stagger(sequence, number).await;
        lab.reseat(key, sequence, "again").await
    };
    let (one, other) = futures::join!(racer(1), racer(2));
    let winners: Vec<u64> = [&one, &other]
        .iter()
        .filter_map(|one| one.sequence())
        .collect();
    assert!(winners.len() <= 1, "{one:?} {other:?}");
    if lab.is_three() {
        // Sometimes neither: then ask again.
        let codes: HashSet<u64> = [&one, &other].iter().filter_map(|one| one.code()).collect();
        let known = HashSet::from([WRONG_LAST_SEQUENCE, PUBLISH_IN_FLIGHT]);
        assert!(codes.is_subset(&known), "{codes:?}");
    } else {
        assert_eq!(winners.len(), 1, "{one:?} {other:?}");
    }
    let holder = winners.first().copied().unwrap_or(sequence);
    eventually(SOON, "the winner holds the key", async || {
        lab.holder(key).await == Some(holder)
    })
    .await;
}

#[tokio::test]
async fn of_a_reseat_and_a_delete_exactly_one_succeeds_on_one_replica() {
    let lab = jobs().alone().await;
    for round in 0..ROUNDS {
        let jobs = submitted(&lab, round).await;
        join_all(
            jobs.iter()
                .map(|(key, sequence)| reseat_and_delete(&lab, key, *sequence)),
        )
        .await;
    }
}

async fn reseat_and_delete(lab: &Lab, key: &str, sequence: u64) {
    let reseat = async {
        stagger(sequence, 1).await;
        lab.reseat(key, sequence, "again").await
    };
    let delete = async {
        stagger(sequence, 2).await;
        lab.delete(sequence).await
    };
    let (reseated, deleted) = futures::join!(reseat, delete);
    match deleted {
        Ok(()) => {
            assert_eq!(reseated.code(), Some(WRONG_LAST_SEQUENCE));
            assert_eq!(lab.holder(key).await, None);
        }
        Err(code) => {
            assert!(NO_SUCH_SEQUENCE.contains(&code), "{code}");
            assert_eq!(lab.holder(key).await, Some(reseated.sequence().unwrap()));
        }
    }
}
