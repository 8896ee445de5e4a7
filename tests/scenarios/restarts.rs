//! Servers and NATS that are killed and come back (laws 4, 5 and 6).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it waits for"
)]

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use keywork::proto::{
    self, Delivery, SettlementOutcome as Settled, SubmitOutcome, lease_request::Message as Up,
    lease_response::Message as Down,
};
use keywork_testkit::{KeyworkServer, NatsCluster, NatsServer, eventually};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::support::{
    Careful, Client, Ledger, SHORT_LEASE, SOON, Session, ack, admin, client,
    cluster_with_two_servers, complete, create, create_all, dead, fail, hello, job, key_of, keys,
    make_queue, offer, one_server, pull, release, retry_after, server_on, settlement, short_lease,
    submit, unwire, wire,
};

const QUEUE: &str = "restarts";
/// Long enough for a server or NATS to come back within it.
const LEASE: Duration = Duration::from_secs(6);

fn lease_of(duration: Duration) -> proto::QueueConfig {
    proto::QueueConfig {
        lease_duration: Some(wire(duration)),
        max_attempts: Some(100),
        ..short_lease()
    }
}

fn tokens_of(deliveries: &[Delivery]) -> Vec<Bytes> {
    deliveries.iter().map(|d| d.lease_token.clone()).collect()
}

/// The time that is left at least, for leases that were given after `before`.
fn deadlines(before: Instant, deliveries: &[Delivery]) -> HashMap<String, Instant> {
    let until = |d: &Delivery| before + unwire(d.time_left.as_ref());
    deliveries.iter().map(|d| (key_of(d), until(d))).collect()
}

/// A session that was given these leases, after `before`.
async fn leased(
    client: &mut Client,
    worker: &str,
    count: usize,
) -> (Session, Vec<Delivery>, HashMap<String, Instant>) {
    let capacity = u32::try_from(count).expect("a capacity");
    let before = Instant::now();
    let mut session = Session::open(client, hello(worker, QUEUE, capacity)).await;
    let mut living = session.keep_beating(Vec::new());
    living.detach_all();
    let deliveries = session.deliveries_of(count).await;
    // It takes nothing in the place of what it loses.
    session
        .send(Up::Capacity(proto::Capacity { capacity: 0 }))
        .await;
    let until = deadlines(before, &deliveries);
    (session, deliveries, until)
}

/// Another worker gets all these keys, none of them before its first lease's deadline, and nothing else.
async fn served_again_in_time(
    server: &KeyworkServer,
    worker: &str,
    until: &HashMap<String, Instant>,
) {
    let mut at = client(server).await;
    let mut other = Session::open(&mut at, hello(worker, QUEUE, 1_000)).await;
    let mut again = HashSet::new();
    let mut beating = other.keep_beating(Vec::new());
    let mut owned = Vec::new();
    while again.len() < until.len() {
        for delivery in other.deliveries().await {
            let key = key_of(&delivery);
            let first = until.get(&key).copied();
            let first = first.unwrap_or_else(|| panic!("{key} is not to run again"));
            let early = first.saturating_duration_since(Instant::now());
            assert!(
                early.is_zero(),
                "{key} was leased again {early:?} too early"
            );
            assert!(again.insert(key), "twice: {delivery:?}");
            owned.push(delivery.lease_token);
        }
        beating = other.keep_beating(owned.clone());
    }
    for token in &owned {
        assert_eq!(other.settle(token, complete()).await, Settled::Settled);
    }
    assert!(other.nothing_for(Duration::from_millis(300)).await);
    drop(beating);
}

/// Waits until the server has found NATS again.
async fn nats_is_back(client: &mut Client) {
    eventually(SOON, "the server has found NATS again", async || {
        let request = submit(QUEUE, "to-see-nats", "payload");
        client.submit(request).await.is_ok()
    })
    .await;
}

/// Settles a lease, asking again while NATS does not answer.
async fn settled_in_the_end(client: &mut Client, token: &Bytes) {
    eventually(SOON, "a settlement is answered", async || {
        match ack(client, token, complete()).await {
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

/// What the answers to submits of one key said.
#[derive(Debug, Default)]
struct Answers {
    created: HashSet<String>,
    named: HashSet<String>,
}

/// Offers a key until there is an answer to it, and notes the answer.
async fn race_for(
    at: &mut Client,
    key: &str,
    retried: bool,
    answers: &Mutex<HashMap<String, Answers>>,
) {
    let request_id = uuid_of(rand::random());
    let until = Instant::now() + 3 * SOON;
    loop {
        assert!(Instant::now() < until, "no answer to a submit of {key}");
        let mut request = submit(QUEUE, key, &request_id);
        if retried {
            request.request_id.clone_from(&request_id);
        }
        let Ok(answer) = at.submit(request).await else {
            if retried {
                sleep(Duration::from_millis(50)).await;
                continue;
            }
            // Perhaps it is stored: nothing was said of it.
            return;
        };
        let answer = answer.into_inner();
        let id = answer
            .job
            .as_ref()
            .map(|j| j.id.clone())
            .unwrap_or_default();
        let mut answers = answers.lock().expect("answers");
        let of_key = answers.entry(key.into()).or_default();
        if answer.outcome() == SubmitOutcome::Created {
            of_key.created.insert(id.clone());
        }
        of_key.named.insert(id);
        return;
    }
}

/// A request id.
fn uuid_of(random: u128) -> String {
    let hex = format!("{random:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..],
    ];
    format!(
        "{}-{}-4{}-8{}-{}",
        parts[0], parts[1], parts[2], parts[3], parts[4]
    )
}

/// The node that leads the queue's stream.
async fn leader(cluster: &NatsCluster) -> &NatsServer {
    let found = keywork_testkit::eventually_some(SOON, "the stream has a leader", async || {
        let context = async_nats::jetstream::new(cluster.connect().await);
        let stream = context.get_stream(format!("WORK_{QUEUE}")).await.ok()?;
        stream.cached_info().cluster.as_ref()?.leader.clone()
    })
    .await;
    cluster.node(&found)
}

#[tokio::test(flavor = "multi_thread")]
async fn law_1_no_key_is_given_twice_while_leaders_are_killed() {
    let (cluster, a, b) = cluster_with_two_servers().await;
    make_queue(&a, QUEUE, lease_of(Duration::from_secs(60))).await;
    let answers: Arc<Mutex<HashMap<String, Answers>>> = Arc::default();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut racing = JoinSet::new();
    for n in 0..8 {
        let mut at = client(if n % 2 == 0 { &a } else { &b }).await;
        let (answers, stopped) = (Arc::clone(&answers), stopped.clone());
        racing.spawn(async move {
            // All go through the same keys, a few at a time.
            let began = Instant::now();
            while !*stopped.borrow() {
                let round = began.elapsed().as_millis() / 100;
                for key in 0..3 {
                    race_for(&mut at, &format!("key-{round}-{key}"), n < 6, &answers).await;
                }
            }
        });
    }
    let created = |least: usize| {
        let answers = Arc::clone(&answers);
        async move {
            let count = || {
                let answers = answers.lock().expect("answers");
                answers.values().filter(|a| !a.created.is_empty()).count()
            };
            eventually(2 * SOON, "keys are created", async || count() >= least).await;
            count()
        }
    };
    for _ in 0..2 {
        let before = created(10).await;
        let leader = leader(&cluster).await;
        leader.kill();
        created(before + 20).await;
        leader.restart().await;
    }
    stop.send_replace(true);
    while let Some(ended) = racing.join_next().await {
        ended.expect("a client that got its answers");
    }
    cluster.wait_until_whole().await;

    let answers = std::mem::take(&mut *answers.lock().expect("answers"));
    let mut at = client(&a).await;
    for (key, answers) in &answers {
        let stored = job(&mut at, QUEUE, key).await;
        let stored: HashSet<String> = stored.into_iter().map(|job| job.id).collect();
        assert!(answers.created.len() <= 1, "{key}: {answers:?}");
        assert!(
            answers.named.is_subset(&stored),
            "{key}: {stored:?} but {answers:?}"
        );
    }
    let count = answers.len();
    let mut session = Session::open(&mut at, hello("w", QUEUE, 10_000)).await;
    let _living = session.keep_beating(Vec::new());
    let mut delivered = HashSet::new();
    while !answers.keys().all(|key| delivered.contains(key)) {
        for delivery in session.deliveries().await {
            assert!(delivered.insert(key_of(&delivery)), "{delivery:?} twice");
        }
    }
    assert!(session.nothing_for(Duration::from_millis(500)).await);
    assert_eq!(delivered.len(), count);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_7_every_settled_is_true_when_nats_is_killed() {
    const JOBS: usize = 3_000;
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, lease_of(Duration::from_secs(30))).await;
    let mut at = client(&server).await;
    create_all(&mut at, QUEUE, &keys("key", JOBS)).await;
    let (mut session, held, _) = leased(&mut at, "w", JOBS).await;
    let key_of_token: HashMap<Bytes, String> = held
        .iter()
        .map(|d| (d.lease_token.clone(), key_of(d)))
        .collect();
    for part in held.chunks(50) {
        let settlements = part.iter().map(|d| settlement(&d.lease_token, complete()));
        let settlements = settlements.collect();
        session
            .send(Up::Settlements(proto::Settlements { settlements }))
            .await;
    }
    let (mut settled, mut killed, mut before) = (HashSet::new(), false, 0);
    while settled.len() < JOBS {
        let results = session
            .wait_for(|message| match message {
                Down::SettlementResults(list) => Some(list.results.clone()),
                _ => None,
            })
            .await;
        let mut again = Vec::new();
        for result in results {
            match result.outcome() {
                Settled::TryAgain => again.push(settlement(&result.lease_token, complete())),
                Settled::Settled | Settled::AlreadySettled => {
                    settled.insert(result.lease_token);
                }
                other => panic!("{other:?} of a lease that is in time"),
            }
        }
        if !killed && settled.len() >= 200 {
            nats.kill();
            (killed, before) = (true, settled.len());
            nats.restart().await;
            nats_is_back(&mut at).await;
            for token in &settled {
                let key = &key_of_token[token];
                assert_eq!(job(&mut at, QUEUE, key).await, None, "{key} was settled");
            }
        }
        if !again.is_empty() {
            sleep(Duration::from_millis(100)).await;
            let settlements = proto::Settlements { settlements: again };
            session.send(Up::Settlements(settlements)).await;
        }
    }
    assert!(before < JOBS, "NATS was killed after all was done");
    create_all(&mut at, QUEUE, &keys("key", JOBS)).await;
}

/// Ends jobs in every way that takes a new sequence first, beside others that wait.
async fn end_retried_jobs(server: &KeyworkServer, at: &mut Client) {
    let now = || retry_after(Duration::ZERO);
    for key in keys("retried", 5) {
        create(at, QUEUE, &key).await;
        for outcome in [now(), now(), complete()] {
            lease_and(at, &key, outcome).await;
        }
    }
    for key in keys("released", 5) {
        create(at, QUEUE, &key).await;
        for outcome in [release(), complete()] {
            lease_and(at, &key, outcome).await;
        }
    }
    for key in keys("failed", 5) {
        create(at, QUEUE, &key).await;
        for outcome in [now(), fail()] {
            lease_and(at, &key, outcome).await;
        }
    }
    end_late(at, "late").await;
    // Its own queue, since all of it goes.
    make_queue(server, "purged", lease_of(SHORT_LEASE)).await;
    create(at, "purged", "key").await;
    let leased = pull(at, "purged", SOON).await.expect("the job");
    let retried = ack(at, &leased.lease_token, retry_after(2 * SOON)).await;
    assert_eq!(retried, Settled::Settled);
    let request = proto::PurgeQueueRequest {
        name: "purged".into(),
    };
    let purged = admin(server).await.purge_queue(request).await;
    assert_eq!(purged.expect("a purge").into_inner().purged, 1);
}

async fn lease_and(at: &mut Client, key: &str, outcome: proto::settlement::Outcome) {
    let leased = pull(at, QUEUE, SOON).await.expect("the job");
    assert_eq!(key_of(&leased), key);
    assert_eq!(
        ack(at, &leased.lease_token, outcome).await,
        Settled::Settled
    );
}

/// A settlement after the deadline, of a job that was retried, accepted because nobody was given it yet.
async fn end_late(at: &mut Client, key: &str) {
    create(at, QUEUE, key).await;
    lease_and(at, key, retry_after(Duration::ZERO)).await;
    loop {
        let leased = pull(at, QUEUE, SOON).await.expect("the job");
        let left = unwire(leased.time_left.as_ref());
        sleep(left + Duration::from_millis(150)).await;
        match ack(at, &leased.lease_token, complete()).await {
            Settled::Settled => return,
            // Too late: once more.
            outcome => assert_eq!(outcome, Settled::LeaseLost),
        }
    }
}

/// Jobs that took new sequences and then ended, when nats-server is killed `after` that: they stay ended.
async fn ended_jobs_stay_ended(after: Duration) {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, lease_of(SHORT_LEASE)).await;
    let mut at = client(&server).await;
    end_retried_jobs(&server, &mut at).await;
    let others = keys("other", 30);
    create_all(&mut at, QUEUE, &others).await;
    sleep(after).await;
    nats.kill();
    nats.restart().await;

    let ended: Vec<String> = [keys("retried", 5), keys("released", 5), keys("failed", 5)]
        .concat()
        .into_iter()
        .chain(["late".into()])
        .collect();
    let mut session = Session::open(&mut at, hello("w", QUEUE, 100)).await;
    let _living = session.keep_beating(Vec::new());
    let mut served = HashSet::new();
    while served.len() < others.len() {
        for delivery in session.deliveries().await {
            let key = key_of(&delivery);
            assert!(others.contains(&key), "{key} ended, and runs again");
            let settled = session.settle(&delivery.lease_token, complete()).await;
            assert_eq!(settled, Settled::Settled);
            assert!(served.insert(key), "{delivery:?} twice");
        }
    }
    // What is older than the kill waits until JetStream's wait is over: then everything has come.
    let over = SHORT_LEASE + Duration::from_secs(8);
    let again = session.deliveries_for(over).await;
    assert_eq!(again, [], "they ended");
    assert_eq!(dead(&mut at, QUEUE).await.len(), 5);
    create_all(&mut at, QUEUE, &ended).await;
    create(&mut at, "purged", "key").await;
    assert_eq!(session.deliveries_of(ended.len()).await.len(), ended.len());
    let leased = pull(&mut at, "purged", SOON).await;
    assert_eq!(leased.map(|d| d.attempt), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_what_ended_stays_ended_when_nats_is_killed_at_once() {
    ended_jobs_stay_ended(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_2_what_ended_stays_ended_when_nats_is_killed_soon() {
    ended_jobs_stay_ended(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_5_nothing_accepted_is_lost_over_kills_of_everything() {
    let (nats, a) = one_server().await;
    let b = server_on(&nats.url()).await;
    make_queue(&a, QUEUE, lease_of(SHORT_LEASE)).await;
    let ledger = Arc::new(Ledger::default());
    let endpoints = [a.endpoint(), b.endpoint()];
    let worker = |name: &str| {
        let worker = Careful {
            name: name.into(),
            queue: QUEUE.into(),
            endpoints: endpoints.to_vec(),
            capacity: 20,
            longest: SHORT_LEASE,
            ledger: Arc::clone(&ledger),
        };
        worker.start()
    };
    let mut workers = vec![worker("w-1"), worker("w-2"), worker("w-3")];
    let accepted: Arc<Mutex<Vec<String>>> = Arc::default();
    let submitting = submit_for_ever(endpoints.to_vec(), Arc::clone(&accepted));
    let progress = async || {
        let before = accepted.lock().expect("accepted").len();
        eventually(2 * SOON, "submits go on", async || {
            accepted.lock().expect("accepted").len() >= before + 40
        })
        .await;
        let before = ledger.settlements().len();
        eventually(2 * SOON, "work goes on", async || {
            ledger.settlements().len() >= before + 20
        })
        .await;
    };
    progress().await;
    a.kill();
    a.restart().await;
    progress().await;
    workers[0] = worker("w-4");
    nats.kill();
    nats.restart().await;
    progress().await;
    workers[1] = worker("w-5");
    b.kill();
    nats.kill();
    nats.restart().await;
    b.restart().await;
    progress().await;
    drop(submitting);

    let accepted = accepted.lock().expect("accepted").clone();
    let mut at = client(&a).await;
    eventually(3 * SOON, "every accepted job has ended", async || {
        for key in accepted.iter().rev() {
            if job(&mut at, QUEUE, key).await.is_some() {
                return false;
            }
        }
        true
    })
    .await;
    assert_eq!(dead(&mut at, QUEUE).await, []);
    let unseen: Vec<_> = accepted
        .iter()
        .filter(|key| !ledger.asked_for(key))
        .collect();
    assert!(
        unseen.is_empty(),
        "gone, though nobody settled them: {unseen:?}"
    );
    drop(workers);
    ledger.check();
}

/// Submits one key after the other, each until it is accepted, and notes those.
fn submit_for_ever(endpoints: Vec<String>, accepted: Arc<Mutex<Vec<String>>>) -> JoinSet<()> {
    let mut submitting = JoinSet::new();
    submitting.spawn(async move {
        let mut at: Vec<Client> = Vec::new();
        for endpoint in &endpoints {
            at.push(Client::new(crate::support::channel(endpoint).await));
        }
        for n in 0_usize.. {
            let key = format!("key-{n}");
            let mut request = submit(QUEUE, &key, "payload");
            request.request_id = uuid_of(rand::random());
            for turn in n.. {
                if at[turn % 2].submit(request.clone()).await.is_ok() {
                    accepted.lock().expect("accepted").push(key);
                    break;
                }
                sleep(Duration::from_millis(50)).await;
            }
            sleep(Duration::from_millis(5)).await;
        }
    });
    submitting
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

#[tokio::test(flavor = "multi_thread")]
async fn law_6_a_request_id_is_remembered_over_a_kill_of_the_server() {
    let (_nats, server) = one_server().await;
    make_queue(&server, QUEUE, lease_of(LEASE)).await;
    let mut at = client(&server).await;
    let identified = |key: &str, id: &str| proto::SubmitRequest {
        request_id: id.into(),
        ..submit(QUEUE, key, "payload")
    };
    let [stored, ended] = [1, 2].map(uuid_of);
    let (outcome, first) = offer(&mut at, identified("stored", &stored)).await;
    assert_eq!((outcome, &first.id), (SubmitOutcome::Created, &stored));
    create(&mut at, QUEUE, "between").await;
    offer(&mut at, identified("ended", &ended)).await;
    for _ in 0..3 {
        let leased = pull(&mut at, QUEUE, SOON).await.expect("a job");
        let outcome = match key_of(&leased).as_str() {
            "stored" => retry_after(2 * SOON),
            _ => complete(),
        };
        let settled = ack(&mut at, &leased.lease_token, outcome).await;
        assert_eq!(settled, Settled::Settled);
    }
    server.kill();
    server.restart().await;
    let mut at = client(&server).await;
    for (key, id) in [("stored", &stored), ("ended", &ended)] {
        let (outcome, again) = offer(&mut at, identified(key, id)).await;
        assert_eq!(
            (outcome, &again.id),
            (SubmitOutcome::Duplicate, id),
            "{key}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_6_a_request_id_of_an_outstanding_job_is_remembered_over_a_kill_of_nats() {
    let (nats, server) = one_server().await;
    make_queue(&server, QUEUE, lease_of(LEASE)).await;
    let mut at = client(&server).await;
    let [queued, retried] = [1, 2].map(uuid_of);
    let identified = |key: &str, id: &str| proto::SubmitRequest {
        request_id: id.into(),
        ..submit(QUEUE, key, "payload")
    };
    offer(&mut at, identified("retried", &retried)).await;
    lease_and(&mut at, "retried", retry_after(2 * SOON)).await;
    offer(&mut at, identified("queued", &queued)).await;
    nats.kill();
    nats.restart().await;
    nats_is_back(&mut at).await;
    for (key, id) in [("queued", &queued), ("retried", &retried)] {
        let (outcome, again) = offer(&mut at, identified(key, id)).await;
        assert_eq!(
            (outcome, &again.id),
            (SubmitOutcome::Duplicate, id),
            "{key}"
        );
    }
}
