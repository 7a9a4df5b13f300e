//! How the agent, its tunnel and its cluster are, as a report: every 30 s, and when something of it changes.

mod cluster;

use crate::{allow_digest::AllowDigest, process};
use cluster::{ClusterAnswers, keep_asking};
use mctunnel::{
    Agent,
    kube::{ClusterAccess, KubeError, cluster_state::AskState},
    report::{Kind, Record, Spool},
};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

/// How often.
pub(crate) const EVERY: Duration = Duration::from_secs(30);
/// How often it is looked whether something changed.
const LOOK: Duration = Duration::from_secs(1);
/// How long the first report waits for what the kube-apiserver says.
const PATIENCE: Duration = Duration::from_secs(5);

/// Begins to report.
pub(crate) fn start(
    agent: &Agent,
    access: Option<&ClusterAccess>,
    allow: AllowDigest,
    spool: &Spool,
    kind: Kind,
) -> Result<Vec<AbortOnDropHandle<()>>, KubeError> {
    let (tell, cluster) = watch::channel(None);
    let mut tasks = Vec::new();
    if let Some(access) = access {
        tasks.push(process::owned(keep_asking(AskState::new(access)?, tell)));
    }
    let (started, pace) = (Instant::now(), Pace::default());
    let status = Status { agent: agent.clone(), allow, cluster, started, pace };
    tasks.push(process::owned(report(status, spool.clone(), kind)));
    Ok(tasks)
}

/// Reports for ever.
async fn report(mut status: Status, spool: Spool, kind: Kind) {
    let source: Arc<str> = "agent".into();
    // Without anybody who asks, there is nothing to wait for.
    let _ = timeout(PATIENCE, status.cluster.wait_for(Option::is_some)).await;
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last: Option<(Instant, Essence)> = None;
    loop {
        looks.tick().await;
        let essence = status.essence();
        if last.as_ref().is_some_and(|(at, told)| at.elapsed() < EVERY && *told == essence) {
            continue;
        }
        let body = status.describe(&essence).to_string();
        last = Some((Instant::now(), essence));
        let Ok(record) = Record::new(now(), Arc::clone(&source), body) else { continue };
        if let Err(error) = spool.append(&kind, vec![record]).await {
            warn!(%error, "The status cannot be reported.");
        }
    }
}

/// Where a status is from.
struct Status {
    agent: Agent,
    allow: AllowDigest,
    cluster: watch::Receiver<Option<Arc<ClusterAnswers>>>,
    started: Instant,
    pace: Pace,
}

/// How many bytes a second a tunnel has moved since the last report.
#[derive(Default)]
struct Pace {
    /// Of which tunnel, when it was looked at, and what it had moved.
    last: Option<(u64, Instant, u64)>,
}

impl Pace {
    /// Nothing for the first report of a tunnel.
    fn since_last(&mut self, generation: u64, now: Instant, moved: u64) -> Option<f64> {
        let (last, at, before) = self.last.replace((generation, now, moved))?;
        let seconds = now.duration_since(at).as_secs_f64();
        (last == generation && seconds > 0.0).then(|| moved.saturating_sub(before) as f64 / seconds)
    }
}

/// What is told at once when it changes.
#[derive(PartialEq)]
struct Essence {
    generation: Option<u64>,
    not_after_unix: i64,
    allow: String,
    cluster: Option<Arc<ClusterAnswers>>,
}

impl Status {
    fn essence(&self) -> Essence {
        Essence {
            generation: self.agent.status().map(|tunnel| tunnel.generation),
            not_after_unix: self.agent.certificate_not_after_unix(),
            allow: self.allow.now(),
            cluster: self.cluster.borrow().clone(),
        }
    }

    /// What a status says. Its names are a promise to scripts.
    fn describe(&mut self, essence: &Essence) -> Value {
        let tunnel = self.agent.status().map(|tunnel| {
            let pace = self.pace.since_last(tunnel.generation, Instant::now(), tunnel.moved);
            json!({
                "generation": tunnel.generation,
                "up_seconds": tunnel.up.as_secs(),
                "streams": tunnel.streams,
                "rtt_seconds": tunnel.rtt.map(|rtt| rtt.as_secs_f64()),
                "bytes_per_second": pace.map(f64::round),
            })
        });
        let mut status = json!({
            "agent_version": env!("CARGO_PKG_VERSION"),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "tunnel": tunnel,
            "last_error": self.agent.last_error().map(|last| {
                format!("{}, at {}", last.reason, humantime::format_rfc3339_seconds(last.at))
            }),
            "certificate_expires": rfc3339(essence.not_after_unix),
            "allow_digest": essence.allow,
        });
        if let Some(all) = status.as_object_mut() {
            all.extend(cluster::describe(essence.cluster.as_deref()));
        }
        status
    }
}

fn rfc3339(unix: i64) -> Option<String> {
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(unix).ok()?))?;
    Some(humantime::format_rfc3339_seconds(at).to_string())
}

/// Microseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_of_one_tunnel_since_the_last_report() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.since_last(1, start, 5_000), None);
        assert_eq!(pace.since_last(1, start + Duration::from_secs(10), 25_000), Some(2_000.0));
        assert_eq!(pace.since_last(2, start + Duration::from_secs(20), 1_000), None, "another tunnel began at 0");
        assert_eq!(pace.since_last(2, start + Duration::from_secs(22), 1_000), Some(0.0));
    }
}
