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
    let mut status = Status { agent: agent.clone(), allow, cluster, started, pace, spool: spool.clone(), kind };
    tasks.push(process::owned(async move {
        // Without anybody who asks, there is nothing to wait for.
        let _ = timeout(PATIENCE, status.cluster.wait_for(Option::is_some)).await;
        report(status).await;
    }));
    Ok(tasks)
}

/// What is reported of, and to whom.
trait Reported: Send {
    fn essence(&self) -> Essence;
    fn describe(&mut self, essence: &Essence) -> Value;
    /// Returns when it is told.
    fn tell(&self, status: &Value) -> impl Future<Output = ()> + Send;
}

/// Reports for ever.
async fn report(mut status: impl Reported) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last: Option<(Instant, Essence)> = None;
    loop {
        looks.tick().await;
        let essence = status.essence();
        if last.as_ref().is_some_and(|(at, told)| at.elapsed() < EVERY && *told == essence) {
            continue;
        }
        let told = status.describe(&essence);
        last = Some((Instant::now(), essence));
        status.tell(&told).await;
    }
}

/// Where a status is from.
struct Status {
    agent: Agent,
    allow: AllowDigest,
    cluster: watch::Receiver<Option<Arc<ClusterAnswers>>>,
    started: Instant,
    pace: Pace,
    spool: Spool,
    kind: Kind,
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
    /// Why there was no tunnel, whenever that was.
    last_error: Option<String>,
    cluster: Option<Arc<ClusterAnswers>>,
}

impl Reported for Status {
    fn essence(&self) -> Essence {
        Essence {
            generation: self.agent.status().map(|tunnel| tunnel.generation),
            not_after_unix: self.agent.certificate_not_after_unix(),
            allow: self.allow.now(),
            last_error: self.agent.last_error().map(|last| last.reason),
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

    async fn tell(&self, status: &Value) {
        let Ok(record) = Record::new(now(), "agent", status.to_string()) else { return };
        if let Err(error) = self.spool.append(&self.kind, vec![record]).await {
            warn!(%error, "The status cannot be reported.");
        }
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
    use tokio::{sync::mpsc, time::sleep};

    /// Tells when it was asked to, and the reason of the last error then.
    struct Told {
        now: watch::Receiver<Option<String>>,
        tell: mpsc::Sender<(u64, Value)>,
        started: Instant,
    }

    impl Reported for Told {
        fn essence(&self) -> Essence {
            let last_error = self.now.borrow().clone();
            Essence { generation: None, not_after_unix: 0, allow: String::new(), last_error, cluster: None }
        }

        fn describe(&mut self, essence: &Essence) -> Value {
            json!(essence.last_error)
        }

        async fn tell(&self, status: &Value) {
            self.tell.try_send((self.started.elapsed().as_secs(), status.clone())).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_is_told_every_30_seconds_and_when_it_changes() {
        let ((change, now), (tell, mut told)) = (watch::channel(None), mpsc::channel(16));
        let started = Instant::now();
        let _reporting = process::owned(report(Told { now, tell, started }));
        // tidy: sleep because the clock is paused: between two looks
        sleep(Duration::from_millis(70_500)).await;
        change.send_replace(Some("no route".to_owned()));
        // tidy: sleep because the clock is paused
        sleep(Duration::from_secs(40)).await;
        let mut all = Vec::new();
        while let Ok(one) = told.try_recv() {
            all.push(one);
        }
        let changed = json!("no route");
        let expected = [(0, Value::Null), (30, Value::Null), (60, Value::Null), (71, changed.clone()), (101, changed)];
        assert_eq!(all, expected);
    }

    #[test]
    fn the_pace_is_that_of_one_tunnel_since_the_last_report() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.since_last(1, start, 5_000), None);
        assert_eq!(pace.since_last(1, start + Duration::from_secs(10), 25_000), Some(2_000.0));
        assert_eq!(pace.since_last(2, start + Duration::from_secs(20), 1_000), None, "another tunnel began at 0");
        assert_eq!(pace.since_last(2, start + Duration::from_secs(22), 1_000), Some(0.0));
    }
}
