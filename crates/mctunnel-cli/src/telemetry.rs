//! Everything that happens becomes a log line and a count here, and nowhere else. Roles report happenings and never name a
//! metric; what is read at a scrape instead of counted is in `admin.rs`.

mod pace;
#[cfg(test)]
mod tests;

use mctunnel::{ClusterName, Happening, Observe};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use pace::Pace;
use parking_lot::{Mutex, RwLock};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use tokio::sync::watch;
use tracing::{debug, info, warn};

/// The observer of a process.
pub(crate) struct Telemetry {
    recorder: PrometheusRecorder,
    clusters: RwLock<BTreeMap<ClusterName, Arc<OfCluster>>>,
    open_seconds: Histogram,
    reconnects: Counter,
    draining: Gauge,
    refused_peers: Mutex<Pace>,
    refused_services: Mutex<Pace>,
    unread_clusters: Mutex<Pace>,
    tunnel_was_up: watch::Sender<bool>,
}

/// The counts of one cluster's streams, found once and then used without a look-up by labels. They exist from the first stream
/// on: thousands of idle tunnels should cost no more than they must.
struct OfCluster {
    streams_opened: Counter,
    streams_open: Gauge,
    bytes_up: Counter,
    bytes_down: Counter,
}

impl Telemetry {
    pub(crate) fn new() -> Self {
        let builder = PrometheusBuilder::new();
        let bucketed = builder.set_buckets_for_metric(Matcher::Full(OPEN_SECONDS.to_owned()), OPEN_BUCKETS);
        // Fails only for an empty list of buckets.
        let recorder = bucketed.unwrap_or_default().build_recorder();
        describe(&recorder);
        let version = Key::from_parts(BUILD, vec![Label::new("version", env!("CARGO_PKG_VERSION"))]);
        recorder.register_gauge(&version, &METADATA).set(1.0);
        let draining = recorder.register_gauge(&Key::from_name(DRAINING), &METADATA);
        draining.set(0.0);
        Self {
            open_seconds: recorder.register_histogram(&Key::from_name(OPEN_SECONDS), &METADATA),
            reconnects: recorder.register_counter(&Key::from_name(RECONNECTS), &METADATA),
            draining,
            recorder,
            clusters: RwLock::default(),
            refused_peers: Mutex::default(),
            refused_services: Mutex::default(),
            unread_clusters: Mutex::default(),
            tunnel_was_up: watch::Sender::new(false),
        }
    }

    /// Renders the counts; also to be called for upkeep, see [`PrometheusHandle::run_upkeep`].
    pub(crate) fn handle(&self) -> PrometheusHandle {
        self.recorder.handle()
    }

    /// Resolves once a tunnel has been up for the first time.
    pub(crate) async fn tunnel_was_up(&self) {
        // Fails only when the sender is gone, and we are the sender.
        let _ = self.tunnel_was_up.subscribe().wait_for(|was_up| *was_up).await;
    }

    /// Says on every scrape whether clients come in without being asked who they are.
    pub(crate) fn set_insecure(&self, insecure: bool) {
        let gauge = self.recorder.register_gauge(&Key::from_name(INSECURE), &METADATA);
        gauge.set(if insecure { 1.0 } else { 0.0 });
    }

    fn counter(&self, name: &'static str, labels: Vec<Label>) -> Counter {
        self.recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
    }

    fn of(&self, cluster: &ClusterName) -> Arc<OfCluster> {
        if let Some(known) = self.clusters.read().get(cluster) {
            return Arc::clone(known);
        }
        let label = || vec![Label::new("cluster", cluster.to_string())];
        let bytes = |direction: &'static str| {
            let mut labels = label();
            labels.push(Label::from_static_parts("direction", direction));
            self.counter(STREAM_BYTES, labels)
        };
        let counts = Arc::new(OfCluster {
            streams_opened: self.counter(STREAMS_OPENED, label()),
            streams_open: self.recorder.register_gauge(&Key::from_parts(STREAMS_OPEN, label()), &METADATA),
            bytes_up: bytes("up"),
            bytes_down: bytes("down"),
        });
        Arc::clone(self.clusters.write().entry(cluster.clone()).or_insert(counts))
    }
}

/// One arm for each happening: a count, then a line. Lines of a level that is off cost one comparison, which matters for those
/// of streams.
impl Observe for Telemetry {
    #[expect(clippy::too_many_lines, reason = "it is one table")]
    fn observe(&self, happening: &Happening) {
        match happening {
            Happening::TunnelUp { cluster, generation, instance, peer } => {
                self.count_tunnel(TUNNEL_UP, cluster);
                self.tunnel_was_up.send_replace(true);
                info!(%cluster, generation, instance, peer, "A tunnel is up.");
            }
            Happening::TunnelDown { cluster, generation, lasted, reason } => {
                self.count_tunnel(TUNNEL_DOWN, cluster);
                info!(%cluster, generation, ?lasted, reason, "A tunnel is down.");
            }
            Happening::TunnelReplaced { cluster, old_generation, new_generation, duel } => {
                self.count_replaced(cluster, *duel);
                match duel {
                    true => {
                        warn!(%cluster, old_generation, new_generation, "Two agents take the cluster from each other.")
                    }
                    false => info!(%cluster, old_generation, new_generation, "A newer tunnel took over."),
                }
            }
            Happening::ClusterUnread { cluster, reason } => {
                self.counter(CLUSTERS_UNREAD, Vec::new()).increment(1);
                // One line for each tunnel that is up.
                if let Some(left_out) = self.unread_clusters.lock().mention() {
                    warn!(%cluster, reason, left_out, "It cannot be read whether an agent may be its cluster.");
                }
            }
            Happening::PeerRefused { peer, code, reason } => {
                self.counter(PEERS_REFUSED, vec![Label::from_static_parts("code", code)]).increment(1);
                // Anybody who reaches the port can cause this line.
                if let Some(left_out) = self.refused_peers.lock().mention() {
                    warn!(peer, code, reason, left_out, "A peer was turned away.");
                }
            }
            Happening::AgentEnrolled { cluster, serial, evidence, peer } => {
                self.count_tunnel(ENROLLED, cluster);
                info!(%cluster, serial, evidence, peer, "An agent enrolled.");
            }
            Happening::EnrolRefused { peer, cluster, evidence, code, reason } => {
                self.counter(ENROL_REFUSED, vec![Label::from_static_parts("code", code)]).increment(1);
                let cluster = cluster.as_ref().map(ClusterName::as_str).unwrap_or_default();
                // Anybody who reaches the port can cause this line.
                if let Some(left_out) = self.refused_peers.lock().mention() {
                    warn!(peer, cluster, evidence, code, reason, left_out, "A certificate was refused.");
                }
            }
            Happening::CertificateRenewed { cluster, serial, not_after_unix } => {
                self.count_tunnel(RENEWED, cluster);
                info!(%cluster, serial, not_after_unix, "A certificate was renewed.");
            }
            Happening::RenewalFailed { reason, retry_in } => {
                warn!(reason, ?retry_in, "The certificate could not be renewed; trying again.");
            }
            Happening::AuthorityChanged { authorities } => {
                info!(authorities, "The hub's CA or its certificate changed; the new one is in use.");
            }
            Happening::AuthorityKept { code, reason } => {
                warn!(code, reason, "The files of the hub's CA cannot be used; what was read before still counts.");
            }
            Happening::Reconnecting { reason, retry_in } => {
                self.reconnects.increment(1);
                warn!(reason, ?retry_in, "No tunnel to the hub; trying again.");
            }
            Happening::StreamOpened { cluster, target, took } => {
                self.count_opened(cluster, *took);
                debug!(%cluster, to = target, ?took, "A stream was opened.");
            }
            Happening::StreamRefused { cluster, target, code, reason } => {
                let cluster = cluster.as_ref().map(ClusterName::as_str).unwrap_or_default();
                self.count_refused(cluster, code);
                debug!(cluster, to = target, code, reason, "A stream was refused.");
            }
            Happening::HubServiceRefused { cluster, service, code, reason } => {
                self.count_refused(cluster.as_str(), code);
                // Whoever reaches an exposed listener can cause this line, at both ends.
                if let Some(left_out) = self.refused_services.lock().mention() {
                    warn!(%cluster, service, code, reason, left_out, "A service of the hub was refused.");
                }
            }
            Happening::StreamEnded { cluster, bytes_up, bytes_down, lasted, error } => {
                self.count_ended(cluster, *bytes_up, *bytes_down);
                debug!(%cluster, bytes_up, bytes_down, ?lasted, error, "A stream ended.");
            }
            Happening::Draining { streams, grace } => {
                self.draining.set(1.0);
                info!(streams, ?grace, "Draining.");
            }
            Happening::Drained { cut: 0 } => info!("Drained: every stream has ended."),
            Happening::Drained { cut } => warn!(cut, "The grace is over; the streams that are left are cut."),
            other => debug!(?other, "Something else happened."),
        }
    }
}

impl Telemetry {
    fn count_tunnel(&self, name: &'static str, cluster: &ClusterName) {
        self.counter(name, vec![Label::new("cluster", cluster.to_string())]).increment(1);
    }

    fn count_replaced(&self, cluster: &ClusterName, duel: bool) {
        let duel = Label::from_static_parts("duel", if duel { "true" } else { "false" });
        self.counter(TUNNEL_REPLACED, vec![Label::new("cluster", cluster.to_string()), duel]).increment(1);
    }

    fn count_opened(&self, cluster: &ClusterName, took: Duration) {
        let counts = self.of(cluster);
        counts.streams_opened.increment(1);
        counts.streams_open.increment(1.0);
        self.open_seconds.record(took.as_secs_f64());
    }

    fn count_refused(&self, cluster: &str, code: &'static str) {
        let labels = vec![Label::new("cluster", cluster.to_owned()), Label::from_static_parts("code", code)];
        self.counter(STREAMS_REFUSED, labels).increment(1);
    }

    fn count_ended(&self, cluster: &ClusterName, bytes_up: u64, bytes_down: u64) {
        let counts = self.of(cluster);
        counts.streams_open.decrement(1.0);
        counts.bytes_up.increment(bytes_up);
        counts.bytes_down.increment(bytes_down);
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

// === names ===

const BUILD: &str = "mctunnel_build_info";
const TUNNEL_UP: &str = "mctunnel_tunnel_up_total";
const TUNNEL_DOWN: &str = "mctunnel_tunnel_down_total";
const TUNNEL_REPLACED: &str = "mctunnel_tunnel_replaced_total";
const CLUSTERS_UNREAD: &str = "mctunnel_clusters_unread_total";
const PEERS_REFUSED: &str = "mctunnel_peers_refused_total";
const ENROLLED: &str = "mctunnel_agents_enrolled_total";
const ENROL_REFUSED: &str = "mctunnel_enrol_refused_total";
const RENEWED: &str = "mctunnel_certificates_renewed_total";
const STREAMS_OPENED: &str = "mctunnel_streams_opened_total";
const STREAMS_REFUSED: &str = "mctunnel_streams_refused_total";
const STREAMS_OPEN: &str = "mctunnel_streams_open";
const STREAM_BYTES: &str = "mctunnel_stream_bytes_total";
const OPEN_SECONDS: &str = "mctunnel_open_seconds";
const RECONNECTS: &str = "mctunnel_reconnects_total";
const DRAINING: &str = "mctunnel_draining";
const INSECURE: &str = "mctunnel_insecure_no_auth";

/// From a target on the same machine to one that takes as long as it may.
const OPEN_BUCKETS: &[f64] = &[0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

const METADATA: Metadata<'static> = Metadata::new("mctunnel", Level::INFO, None);

fn describe(recorder: &PrometheusRecorder) {
    let counters = [
        (TUNNEL_UP, "Tunnels that came up"),
        (TUNNEL_DOWN, "Tunnels that went down"),
        (
            TUNNEL_REPLACED,
            "Tunnels that a newer one of the same cluster replaced; duel: by another agent, again and again",
        ),
        (
            CLUSTERS_UNREAD,
            "Times it could not be read whether an agent may be its cluster; for a tunnel, once as long as that lasts",
        ),
        (PEERS_REFUSED, "Connections that did not become a tunnel, by error code"),
        (ENROLLED, "Agents that got their first certificate"),
        (ENROL_REFUSED, "Certificates that were asked for and not issued, by error code"),
        (RENEWED, "Certificates of agents that were renewed"),
        (STREAMS_OPENED, "Streams that were joined to their target"),
        (
            STREAMS_REFUSED,
            "Streams that were not opened, by error code; no cluster when the one asked for is not known",
        ),
        (STREAM_BYTES, "Bytes of streams that have ended; up is towards the target"),
        (RECONNECTS, "Attempts to reach the hub that failed, and tunnels to it that ended"),
    ];
    for (name, help) in counters {
        recorder.describe_counter(name.into(), None, help.into());
    }
    for (name, help) in [
        (BUILD, "1, with the version as a label"),
        (STREAMS_OPEN, "Streams that are open"),
        (DRAINING, "1 once a drain has begun"),
        (INSECURE, "1 if clients come in without being asked who they are"),
    ] {
        recorder.describe_gauge(name.into(), None, help.into());
    }
    recorder.describe_histogram(OPEN_SECONDS.into(), Some(Unit::Seconds), "Time until the target answered".into());
}
