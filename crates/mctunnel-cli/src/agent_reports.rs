//! Reports at the agent: the spool, what sends it, and the endpoint for programs in the cluster.

use crate::{
    admin::Kept,
    allow_digest::AllowDigest,
    cluster_access, event_reports, log_reports, process,
    report_endpoint::ReportEndpoint,
    settings::{ClusterSettings, ReportSettings},
    status_reports,
};
use mctunnel::{
    Agent, ErrorCode, Priority, Protocol, Stream,
    kube::logs::LogCounts,
    report::{AtLimit, Connect, Kind, LaneConfig, Spool, send, spool::LaneStatus},
};
use std::{sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// How long a stream may wait for a tunnel and for the hub's answer.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// The reports of an agent. Dropping it ends everything; what is in the spool stays there.
pub(crate) struct AgentReports {
    spool: Spool,
    logs: Option<Arc<LogCounts>>,
    _sources: Vec<AbortOnDropHandle<()>>,
    stop: CancellationToken,
    sending: AbortOnDropHandle<()>,
    _endpoint: Option<AbortOnDropHandle<()>>,
}

impl AgentReports {
    /// Opens the spool, sends what is in it, and begins to report.
    pub(crate) async fn start(
        settings: &ReportSettings,
        cluster: &ClusterSettings,
        (agent, allow): (&Agent, AllowDigest),
        endpoint: Option<TcpListener>,
    ) -> anyhow::Result<Self> {
        let mut limits = settings.limits.clone();
        let status = Kind::parse("status")?;
        // What was the case long ago is not worth much room.
        limits.entry(status.clone()).or_insert(LaneConfig { limit: 1 << 20, at_limit: AtLimit::DropOldest });
        let spool = Spool::open(&settings.spool, settings.usual.clone(), limits)?;
        let stop = CancellationToken::new();
        let to_hub = Arc::new(ToHub { agent: agent.clone() });
        let sending = process::owned(send(spool.clone(), to_hub, stop.clone()));
        let endpoint = endpoint.map(|listener| process::owned(ReportEndpoint::new(spool.clone()).serve(listener)));
        let access = cluster_access::kubernetes(cluster).await?;
        let mut sources = status_reports::start(agent, access.as_ref(), allow, &spool, status)?;
        if !settings.events.namespaces.is_empty() {
            let access = access.as_ref().ok_or(NoKubernetes("--report-events"))?;
            sources.extend(event_reports::start(&settings.events, access, &spool, &Kind::parse("events")?)?);
        }
        let mut logs = None;
        if !settings.logs.selections.is_empty() {
            let access = access.as_ref().ok_or(NoKubernetes("--report-logs"))?;
            let (source, counts) = log_reports::start(&settings.logs, access, &spool, Kind::parse("logs")?)?;
            sources.push(source);
            logs = Some(counts);
        }
        Ok(Self { spool, logs, _sources: sources, stop, sending, _endpoint: endpoint })
    }

    /// What is counted.
    pub(crate) fn counts(&self) -> ReportCounts {
        ReportCounts { spool: self.spool.clone(), logs: self.logs.clone() }
    }

    /// Takes no more reports and sends no more.
    pub(crate) async fn end(self) {
        let Self { spool: _spool, logs: _, _sources, stop, sending, _endpoint } = self;
        drop((_sources, _endpoint));
        stop.cancel();
        let _ = sending.await;
    }
}

/// Something of the cluster is to be reported, and there is no Kubernetes to ask.
#[derive(Debug, thiserror::Error)]
#[error("{0} needs a Kubernetes to ask, and there is none")]
pub(crate) struct NoKubernetes(&'static str);

impl NoKubernetes {
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode {
            code: "MCT-REPORT-NO-KUBERNETES",
            remedy: "give --kubeconfig, or run the agent in a pod of the cluster",
        }
    }
}

/// What is counted of reports.
pub(crate) struct ReportCounts {
    spool: Spool,
    logs: Option<Arc<LogCounts>>,
}

impl ReportCounts {
    /// What waits in the spool, what it dropped, and how many logs are followed.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        let kinds = self.spool.kinds().borrow().clone();
        let lanes = kinds.iter().filter_map(|kind| Some((format!("kind=\"{kind}\""), self.spool.status(kind).ok()?)));
        let lanes: Vec<_> = lanes.collect();
        let of =
            |value: fn(&LaneStatus) -> u64| lanes.iter().map(|(labels, lane)| (labels.clone(), value(lane))).collect();
        let kept = |name, help, form, values| Kept { name, help, form, values };
        let mut all = vec![
            kept("mctunnel_spool_bytes", "Bytes of reports on disk", "gauge", of(|lane| lane.bytes)),
            kept(
                "mctunnel_spool_records",
                "Records that the hub has not acknowledged",
                "gauge",
                of(|lane| lane.next - lane.wanted.max(lane.oldest)),
            ),
            kept(
                "mctunnel_spool_dropped_total",
                "Records that a full spool dropped before the hub had acknowledged them",
                "counter",
                of(|lane| lane.dropped),
            ),
        ];
        if let Some(logs) = &self.logs {
            let states = [("followed", logs.followed()), ("waiting", logs.waiting())];
            let labelled = |(state, count)| (format!("state=\"{state}\""), u64::try_from(count).unwrap_or(u64::MAX));
            all.push(kept(
                "mctunnel_log_containers",
                "Containers whose logs are followed, and those that wait because as many are followed as may be",
                "gauge",
                states.into_iter().map(labelled).collect(),
            ));
        }
        all
    }
}

/// Streams for reports, behind everything else on the tunnel.
struct ToHub {
    agent: Agent,
}

impl Connect for ToHub {
    type Stream = Stream;

    async fn connect(&self) -> Result<Stream, String> {
        let protocol = Protocol::report();
        let opened = self.agent.open_at_hub(&protocol, None, Priority::Bulk, OPEN_TIMEOUT).await;
        opened.map_err(|error| format!("{}: {error}", error.code().code))
    }
}
