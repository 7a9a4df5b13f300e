//! A cluster as it is listed: its tunnel, as far as the hub is asked, and what it reported of itself last, as JSON, YAML and columns.
//! One that is silent is stale.

use crate::{reports::moment, status_reports::EVERY};
use mctunnel::{
    hub::TunnelStatus,
    report::{Kind, Query, ReportError, Store, StoredRecord, kind::InvalidKind},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

/// A cluster that said nothing for so long is stale.
const STALE: Duration = Duration::from_secs(EVERY.as_secs() * 3);
/// Records that are looked at at once.
const AT_ONCE: usize = 1_000;

/// A cluster. The names are a promise to scripts, and those of the HTTP API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClusterLine {
    cluster: String,
    /// `live` or `stale` by when the hub heard of it last; `connected` when it has a tunnel and never reported; `silent` when nothing
    /// is known of it.
    state: String,
    /// How long its tunnel has been up; known to a hub that runs.
    connected_seconds: Option<u64>,
    agent_version: Option<String>,
    kubernetes_version: Option<String>,
    uptime_seconds: Option<u64>,
    rtt_seconds: Option<f64>,
    streams: Option<u64>,
    bytes_per_second: Option<f64>,
    nodes_ready: Option<u64>,
    nodes_total: Option<u64>,
    /// RFC 3339.
    certificate_expires: Option<String>,
    last_error: Option<String>,
    /// RFC 3339.
    reported: Option<String>,
}

/// The tunnel of a cluster, as the hub sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tunnel {
    up: Duration,
    streams: usize,
    rtt: Option<Duration>,
}

impl From<&TunnelStatus> for Tunnel {
    fn from(status: &TunnelStatus) -> Self {
        Self { up: status.up, streams: status.streams, rtt: status.rtt }
    }
}

impl ClusterLine {
    /// From the last status, and from the tunnel if there is one. What the hub measures itself goes before what the agent says.
    pub(crate) fn of(cluster: &str, status: Option<&Status>, tunnel: Option<&Tunnel>, now: SystemTime) -> Self {
        let nothing = Status::default();
        let Status { received, time, body } = status.unwrap_or(&nothing);
        // By the hub's clock: what the agent's says is the agent's business.
        let heard = SystemTime::UNIX_EPOCH + Duration::from_secs(*received);
        let live = now.duration_since(heard).is_ok_and(|age| age <= STALE) || now < heard;
        let state = match (status, live, tunnel) {
            (Some(_), true, _) => "live",
            (Some(_), false, _) => "stale",
            (None, _, Some(_)) => "connected",
            (None, _, None) => "silent",
        };
        let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(printable);
        let number = |path: &str| body.pointer(path).and_then(Value::as_u64);
        let measure = |path: &str| body.pointer(path).and_then(Value::as_f64);
        let measured = tunnel.and_then(|tunnel| tunnel.rtt);
        let counted = tunnel.and_then(|tunnel| u64::try_from(tunnel.streams).ok());
        Self {
            cluster: cluster.to_owned(),
            state: state.to_owned(),
            connected_seconds: tunnel.map(|tunnel| tunnel.up.as_secs()),
            agent_version: text("/agent_version"),
            kubernetes_version: text("/kubernetes_version"),
            uptime_seconds: number("/uptime_seconds"),
            rtt_seconds: measured.map(|rtt| rtt.as_secs_f64()).or_else(|| measure("/tunnel/rtt_seconds")),
            streams: counted.or_else(|| number("/tunnel/streams")),
            bytes_per_second: measure("/tunnel/bytes_per_second"),
            nodes_ready: number("/nodes/ready"),
            nodes_total: number("/nodes/total"),
            certificate_expires: text("/certificate_expires"),
            last_error: text("/last_error").filter(|error| !error.is_empty()),
            reported: status.map(|_| humantime::format_rfc3339_seconds(moment(*time)).to_string()),
        }
    }

    /// The cells of a row, in the order of [`HEAD`].
    fn cells(&self) -> Vec<String> {
        let or_dash = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
        let nodes = self.nodes_total.map(|total| format!("{}/{total}", self.nodes_ready.unwrap_or(0)));
        vec![
            // A hub says these, and a hub may be anybody's.
            printable(&self.cluster),
            printable(&self.state),
            or_dash(self.agent_version.as_deref().map(printable)),
            or_dash(self.kubernetes_version.as_deref().map(printable)),
            or_dash(nodes),
            or_dash(self.rtt_seconds.map(|rtt| format!("{:.1}ms", rtt * 1000.0))),
            or_dash(self.streams.map(|streams| streams.to_string())),
            or_dash(self.bytes_per_second.map(bytes)),
            or_dash(self.certificate_expires.as_deref().map(printable)),
            or_dash(self.last_error.as_deref().map(printable)),
            or_dash(
                self.uptime_seconds.map(|seconds| humantime::format_duration(Duration::from_secs(seconds)).to_string()),
            ),
            or_dash(self.reported.as_deref().map(printable)),
        ]
    }
}

const HEAD: [&str; 12] = [
    "CLUSTER",
    "STATE",
    "AGENT",
    "KUBERNETES",
    "NODES",
    "RTT",
    "STREAMS",
    "BYTES/S",
    "CERTIFICATE",
    "LAST ERROR",
    "UPTIME",
    "REPORTED",
];
/// The columns of a list that is not wide.
const USUAL: usize = 10;

/// What a cluster says is not to reach the terminal as it is.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| *letter == ' ' || letter.is_ascii_graphic()).take(64).collect()
}

fn bytes(per_second: f64) -> String {
    let mut number = per_second;
    for unit in ["", "K", "M"] {
        if number < 1000.0 {
            return if unit.is_empty() { format!("{number:.0}") } else { format!("{number:.1}{unit}") };
        }
        number /= 1000.0;
    }
    format!("{number:.1}G")
}

/// Columns for people.
pub(crate) fn table(lines: &[ClusterLine], wide: bool) -> String {
    let columns = if wide { HEAD.len() } else { USUAL };
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(lines.iter().map(ClusterLine::cells));
    let mut widths = [0; HEAD.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let padded = |row: &Vec<String>| {
        let cells: Vec<_> =
            row.iter().zip(widths).take(columns).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(padded).collect::<Vec<_>>().join("\n")
}

// === LatestStatus ===

/// What a cluster reported of itself.
#[derive(Debug, Default)]
pub(crate) struct Status {
    /// When the hub stored it, in seconds since 1970.
    received: u64,
    /// When the agent says that it was, in microseconds since 1970.
    time: i64,
    body: Value,
}

/// What each cluster reported of itself last, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct LatestStatus {
    by_cluster: BTreeMap<String, Status>,
    /// The position of the next record.
    from: u64,
}

impl LatestStatus {
    /// What is asked of a store: whatever the clocks of agents say.
    pub(crate) fn query() -> Result<Query, InvalidKind> {
        Ok(Query { limit: AT_ONCE, ..Query::new(Kind::parse("status")?) })
    }

    /// Reads what came since; the first time, what each cluster said last, however long ago.
    pub(crate) fn read_store(&mut self, store: &Store) -> Result<(), ReportError> {
        let Ok(query) = Self::query() else { return Ok(()) };
        if self.from == 0 {
            store.last_of_each(&query.kind)?.iter().for_each(|found| self.note(found));
        }
        loop {
            let records = store.read(&Query { from: self.from, ..query.clone() })?;
            if records.is_empty() {
                return Ok(());
            }
            records.iter().for_each(|found| self.note(found));
        }
    }

    pub(crate) fn note(&mut self, found: &StoredRecord) {
        self.from = self.from.max(found.position + 1);
        let body = serde_json::from_slice(&found.record.body).unwrap_or_default();
        let status = Status { received: found.received, time: found.record.time, body };
        self.by_cluster.insert(found.cluster.to_string(), status);
    }

    pub(crate) fn of(&self, cluster: &str) -> Option<&Status> {
        self.by_cluster.get(cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use mctunnel::{
        ClusterName,
        report::{Connect, LaneConfig, Receiver, Record, Retention, Spool, send},
    };
    use parking_lot::Mutex;
    use serde_json::json;
    use std::sync::Arc;
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    #[test]
    fn a_cluster_is_live_stale_or_silent_by_when_it_reported() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        // Whatever the agent's own clock says.
        let state = |received: u64| {
            let states = [0, 2_000_000_000_000]
                .map(|time| ClusterLine::of("c1", Some(&Status { received, time, body: json!({}) }), None, now).state);
            assert_eq!(states[0], states[1]);
            states[0].clone()
        };
        assert_eq!(state(1_000_000), "live");
        assert_eq!(state(1_000_000 - 90), "live");
        assert_eq!(state(1_000_000 - 91), "stale");
        assert_eq!(state(1_000_020), "live");
        assert_eq!(ClusterLine::of("c1", None, None, now).state, "silent");
    }

    #[test]
    fn a_cluster_with_a_tunnel_is_connected_if_it_never_reported_and_the_hub_knows_best() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let tunnel = Tunnel { up: Duration::from_secs(7), streams: 3, rtt: Some(Duration::from_millis(20)) };
        let body = json!({"tunnel": {"rtt_seconds": 9.0, "streams": 99}});
        let status = |received| Status { received, time: 0, body: body.clone() };
        for (status, state) in [(None, "connected"), (Some(status(0)), "stale"), (Some(status(1_000_000)), "live")] {
            let line = ClusterLine::of("c1", status.as_ref(), Some(&tunnel), now);
            assert_eq!((line.state.as_str(), line.connected_seconds), (state, Some(7)));
            assert_eq!((line.rtt_seconds, line.streams), (Some(0.02), Some(3)));
        }
        let none = Tunnel { rtt: None, ..tunnel };
        let line = ClusterLine::of("c1", Some(&status(0)), Some(&none), now);
        assert_eq!(line.rtt_seconds, Some(9.0), "what the agent says is better than nothing");
    }

    /// The way from a cluster to a store.
    struct Reporting {
        receiver: Receiver,
        serving: Mutex<JoinSet<()>>,
    }

    impl Connect for Reporting {
        type Stream = tokio::io::DuplexStream;

        async fn connect(&self) -> Result<Self::Stream, String> {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            let receiver = self.receiver.clone();
            self.serving.lock().spawn(async move {
                let _ = receiver.serve(&ClusterName::parse("c1").unwrap(), theirs).await;
            });
            Ok(ours)
        }
    }

    #[tokio::test]
    async fn a_cluster_whose_clock_is_wrong_is_live_and_its_last_status_is_found_anew() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store"), Retention::default()).unwrap();
        let spool = Spool::open(&dir.path().join("spool"), LaneConfig::default(), BTreeMap::new()).unwrap();
        let receiver = Receiver::new(store.clone(), CancellationToken::new());
        let way = Arc::new(Reporting { receiver, serving: Mutex::default() });
        let _sending = process::owned(send(spool.clone(), way, CancellationToken::new()));
        let mut changes = store.changes();
        let (mut running, kind) = (LatestStatus::default(), Kind::parse("status").unwrap());
        for version in ["1", "2"] {
            let body = json!({"agent_version": version}).to_string();
            spool.append(&kind, vec![Record::new(0, "agent", body).unwrap()]).await.unwrap();
            changes.changed().await.unwrap();
            running.read_store(&store).unwrap();
            let mut restarted = LatestStatus::default();
            restarted.read_store(&store).unwrap();
            for latest in [&running, &restarted] {
                let line = ClusterLine::of("c1", latest.of("c1"), None, SystemTime::now());
                assert_eq!((line.state.as_str(), line.agent_version.as_deref()), ("live", Some(version)));
            }
        }
    }

    #[test]
    fn t37_what_a_cluster_says_of_itself_cannot_colour_the_terminal() {
        let body = json!({"agent_version": "1\u{1b}[31m\n2", "tunnel": {"rtt_seconds": 0.0123, "streams": 7}});
        let line = ClusterLine::of("c1", Some(&Status { received: 0, time: 0, body }), None, SystemTime::UNIX_EPOCH);
        let table = table(&[line], true);
        assert!(table.contains("1[31m2") && table.contains("12.3ms"), "{table}");
        assert!(table.lines().count() == 2 && !table.contains('\u{1b}'), "{table}");
    }

    #[test]
    fn a_row_has_what_the_status_says_and_a_dash_for_what_it_does_not() {
        let body = json!({
            "agent_version": "0.1.0", "kubernetes_version": "v1.34.2", "uptime_seconds": 3600,
            "nodes": {"ready": 2, "total": 3}, "certificate_expires": "2026-12-01T00:00:00Z", "last_error": "no route",
            "tunnel": {"rtt_seconds": 0.001, "streams": 4, "bytes_per_second": 1_500_000.0},
        });
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
        let status = Status { received: 0, time: 0, body };
        let lines = [ClusterLine::of("c1", Some(&status), None, now), ClusterLine::of("c2", None, None, now)];
        let usual = table(&lines, false);
        let rows: Vec<Vec<&str>> =
            usual.lines().map(|row| row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()).collect();
        assert_eq!(rows[0], HEAD[..USUAL]);
        let expected =
            ["c1", "live", "0.1.0", "v1.34.2", "2/3", "1.0ms", "4", "1.5M", "2026-12-01T00:00:00Z", "no route"];
        assert_eq!(rows[1], expected, "{usual}");
        assert_eq!(rows[2], ["c2", "silent", "-", "-", "-", "-", "-", "-", "-", "-"]);
        let wide = table(&lines, true);
        assert!(wide.lines().nth(1).unwrap().ends_with("1h      1970-01-01T00:00:00Z"), "{wide}");
    }
}
