//! On one tunnel a reader that has stopped and four that take all they can get: small requests beside them stay quick, and the four get
//! the same (T43).

use crate::{
    floods::{Bystander, web},
    rig::{Rig, Target, text, until},
    stall::{answered, endless},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::AsyncReadExt,
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// Small requests are quick that take no longer, or no more than twice as long as alone.
const QUICK: Duration = Duration::from_millis(50);
/// What the index of Jain is at least: 1 is equal shares, a quarter is all for one of the four.
const FAIR: f64 = 0.9;
/// The test, the hub and the agent, built with little optimisation, share two cores with whatever else is built and tested. A round in
/// which the machine had no time for them says nothing about the tunnel, so the best one counts.
const ROUNDS: usize = 3;

/// Asks at fixed times, and counts from those: an answer that is late makes the next one late, too.
async fn small_requests(client: &mut Bystander, count: u32, every: Duration) -> Vec<Duration> {
    let begin = Instant::now();
    let mut times = Vec::new();
    for n in 0..count {
        let due = begin + every * n;
        sleep_until(due).await;
        client.ask().await;
        times.push(due.elapsed());
    }
    times
}

/// Ninety-nine of a hundred are no longer.
fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[(times.len() * 99).div_ceil(100) - 1]
}

/// Readers of an endless body, and how many bytes each has read.
struct Bulk {
    read: Vec<Arc<AtomicU64>>,
    _readers: JoinSet<()>,
}

impl Bulk {
    async fn start(rig: &Rig, gateway: &str) -> Self {
        let (mut read, mut readers) = (Vec::new(), JoinSet::new());
        for _ in 0..4 {
            let mut client = answered(rig, gateway).await;
            let count = Arc::new(AtomicU64::new(0));
            read.push(Arc::clone(&count));
            readers.spawn(async move {
                let mut chunk = vec![0; 64 * 1024];
                while let Ok(length @ 1..) = client.read(&mut chunk).await {
                    count.fetch_add(u64::try_from(length).expect("a chunk"), Ordering::Relaxed);
                }
            });
        }
        Self { read, _readers: readers }
    }

    fn so_far(&self) -> Vec<u64> {
        self.read.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// How evenly it is shared, by Jain's index.
fn fairness(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    sum.powi(2) / (shares.len() as f64 * squares)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t43_small_requests_are_quick_beside_a_stalled_and_four_bulk_streams_that_share_evenly() {
    let rig = Rig::start().await;
    let (body, web) = (Target::start(endless).await, Target::start(web).await);
    let pin = |name: &str, target: &Target| format!("--pin-service=default/{name}:80={}", target.address);
    let (body_pin, web_pin) = (pin("body", &body), pin("web", &web));
    let flags = ["--allow-service=default/body", "--allow-service=default/web", &body_pin, &web_pin];
    let _agent = rig.agent_with(&rig.add("c1").await, &flags).await;
    let gateway = text(&rig.hub.ready, "gateway");
    let mut client = Bystander::new(&rig, &gateway).await;
    small_requests(&mut client, 20, Duration::ZERO).await;
    let alone = p99(small_requests(&mut client, 200, Duration::from_millis(10)).await);
    let quick = QUICK.max(2 * alone);

    let stalled = answered(&rig, &gateway).await;
    let bulk = Bulk::start(&rig, &gateway).await;
    until("all to be under way", async || bulk.so_far().iter().all(|read| *read > 1 << 20).then_some(())).await;
    let mut is_met = false;
    for round in 1..=ROUNDS {
        let before = bulk.so_far();
        // Twenty a second, for five seconds.
        let beside = p99(small_requests(&mut client, 100, Duration::from_millis(50)).await);
        let shares: Vec<u64> = bulk.so_far().iter().zip(&before).map(|(now, before)| now - before).collect();
        let fairness = fairness(&shares);
        println!("round {round}: p99 {beside:.3?} (alone {alone:.3?}), Jain {fairness:.3} of {shares:?} bytes");
        is_met = beside <= quick && fairness >= FAIR;
        if is_met {
            break;
        }
    }
    assert!(is_met, "in none of {ROUNDS} rounds a p99 of {quick:?} at most and a fairness of {FAIR} at least");
    drop(stalled);
}
