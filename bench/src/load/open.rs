//! How many connections per second can be opened, used for one byte and closed.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

use crate::{latency::Latency, route::Route};

pub(crate) async fn run(route: &Route, concurrency: usize, phase: Duration) -> Result<Value> {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..concurrency {
        let route = route.clone();
        tasks.spawn(async move {
            let (mut samples, mut failures) = (Vec::new(), 0_u64);
            while started.elapsed() < phase {
                let begun = Instant::now();
                match route.hold().await {
                    Ok(_) => samples.push(begun.elapsed()),
                    Err(_) => failures += 1,
                }
            }
            (samples, failures)
        });
    }
    let (mut all, mut failed) = (Vec::new(), 0);
    while let Some(ended) = tasks.join_next().await {
        let (samples, failures) = ended?;
        all.extend(samples);
        failed += failures;
    }
    let per_second = all.len() as f64 / started.elapsed().as_secs_f64();
    Ok(json!({
        "mode": "open",
        "streams": concurrency,
        "per_s": per_second,
        "failures": failed,
        "open": Latency::of(all)?.to_json(),
    }))
}
