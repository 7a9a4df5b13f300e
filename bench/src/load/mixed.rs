//! A pinger beside bulk downloads: does a small exchange stay quick, and do the bulk streams share fairly?

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{bulk::Background, ping};
use crate::{latency::Latency, route::Route};

/// Time for a change of load to take effect before it is measured.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);

pub(crate) async fn run(route: &Route, streams: usize, rate: u32, phase: Duration) -> Result<Value> {
    let idle = Latency::of(ping::open_loop(route, rate, phase).await?)?;
    let background = Background::start(route, streams).await?;
    sleep(SETTLE).await;
    let busy = under_load(route, &background, rate, phase).await?;
    background.stop().await?;
    let total: u64 = busy.bytes.iter().sum();
    Ok(json!({
        "mode": "mixed",
        "streams": streams,
        "idle": idle.to_json(),
        "busy": Latency::of(busy.pings)?.to_json(),
        "mb_per_s": total as f64 / busy.seconds / 1e6,
        "jain": jain(&busy.bytes),
    }))
}

/// One phase of pings beside downloads that already run.
pub(crate) struct Phase {
    pub(crate) pings: Vec<Duration>,
    /// Bytes of each download during the phase.
    pub(crate) bytes: Vec<u64>,
    pub(crate) seconds: f64,
}

pub(crate) async fn under_load(route: &Route, background: &Background, rate: u32, phase: Duration) -> Result<Phase> {
    let (before, started) = (background.bytes(), Instant::now());
    let pings = ping::open_loop(route, rate, phase).await?;
    let (after, seconds) = (background.bytes(), started.elapsed().as_secs_f64());
    let bytes = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    Ok(Phase { pings, bytes, seconds })
}

/// Jain's fairness index: 1 when all have the same, 1/n when one has everything.
fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    sum.powi(2) / (shares.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn the_index_falls_with_unfairness() {
        assert!((jain(&[5, 5, 5, 5]) - 1.0).abs() < 1e-9);
        assert!((jain(&[7, 0, 0, 0]) - 0.25).abs() < 1e-9);
        assert!(jain(&[10, 5]) < 0.95);
    }
}
