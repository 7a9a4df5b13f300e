//! Percentiles of a set of round trips.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// What is kept of a set of round trips, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Latency {
    pub(crate) count: usize,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Latency {
    pub(crate) fn of(mut samples: Vec<Duration>) -> Result<Self> {
        samples.sort_unstable();
        let at = |percent: usize| -> Result<f64> {
            let index = (samples.len() * percent).div_ceil(100).saturating_sub(1);
            let sample = samples.get(index).context("no round trip was completed")?;
            Ok(sample.as_secs_f64() * 1e6)
        };
        Ok(Self { count: samples.len(), p50: at(50)?, p99: at(99)?, max: at(100)? })
    }

    pub(crate) fn to_json(self) -> Value {
        json!({ "count": self.count, "p50_us": self.p50, "p99_us": self.p99, "max_us": self.max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_of_the_set() {
        let latency = Latency::of((1..=200).map(Duration::from_micros).collect()).unwrap();
        assert_eq!((latency.count, latency.p50, latency.p99, latency.max), (200, 100.0, 198.0, 200.0));
        assert!(Latency::of(Vec::new()).is_err());
    }
}
