//! Reports at the hub: the store in the data directory, and the adapter of the streams on which they come.

use crate::{
    admin::Kept,
    process,
    report_sinks::{ReportSinks, SetAside, SinkSettings},
};
use mctunnel::{
    ErrorCode, Protocol,
    hub::{ClusterAdapter, FromCluster},
    report::{Receiver, ReportError, Retention, Store, receiver::ReceiveError, store::LaneReport},
    tunnel::RefuseCode,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{info, warn};

/// Where the store is in the data directory.
pub(crate) const DIRECTORY: &str = "reports";

/// How often to look whether the hub before has let go of the store.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What takes reports, and how it is told to stop.
pub(crate) struct HubReports {
    pub(crate) adapter: Arc<ReportAdapter>,
    _opening: Option<AbortOnDropHandle<()>>,
}

impl HubReports {
    /// Opens the store. While another hub has it, which hands over to this one, reports are refused, and agents keep them.
    pub(crate) fn start(data_dir: &Path, retention: Retention, sinks: &SinkSettings) -> anyhow::Result<Self> {
        let dir = data_dir.join(DIRECTORY);
        let adapter = Arc::new(ReportAdapter {
            store: OnceLock::new(),
            stopping: CancellationToken::new(),
            places: data_dir.join("report-sinks"),
            sinks: Mutex::new(Some(ReportSinks::open(sinks)?)),
            feeding: OnceLock::new(),
            aside: SetAside::default(),
        });
        let opening = match Store::open(&dir, retention) {
            Ok(store) => {
                adapter.begin(store);
                None
            }
            Err(ReportError::InUse(_)) => {
                info!(dir = %dir.display(), "Another hub has the store of reports; it is taken over when that one ends.");
                Some(process::owned(take_over(dir, retention, Arc::clone(&adapter))))
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { adapter, _opening: opening })
    }

    /// Ends the streams of reports in order, so that agents go elsewhere with what is left.
    pub(crate) fn stop(&self) {
        self.adapter.stopping.cancel();
    }
}

async fn take_over(dir: PathBuf, retention: Retention, adapter: Arc<ReportAdapter>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        match Store::open(&dir, retention) {
            Ok(store) => return adapter.begin(store),
            Err(ReportError::InUse(_)) => {}
            Err(error) => return warn!(%error, "The store of reports cannot be opened; reports are refused."),
        }
    }
}

/// Serves `x-mctunnel-proto: report`.
pub(crate) struct ReportAdapter {
    store: OnceLock<(Store, Receiver)>,
    stopping: CancellationToken,
    /// Where sinks keep their places.
    places: PathBuf,
    /// Where every report goes as well, until the store is there.
    sinks: Mutex<Option<ReportSinks>>,
    feeding: OnceLock<Vec<AbortOnDropHandle<()>>>,
    aside: SetAside,
}

impl ReportAdapter {
    fn begin(&self, store: Store) {
        if let Some(sinks) = self.sinks.lock().take() {
            let _ = self.feeding.set(sinks.start(&store, &self.places, &self.aside));
        }
        let receiver = Receiver::new(store.clone(), self.stopping.clone());
        let _ = self.store.set((store, receiver));
    }
}

impl ReportAdapter {
    /// The store, once it is open.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.get().map(|(store, _)| store)
    }

    /// Cancelled when the hub is about to end.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// What was stored and what never came, of each cluster and kind.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        let lanes = self.store.get().map(|(store, _)| store.lanes()).unwrap_or_default();
        let summed = |count: fn(&LaneReport) -> u64| {
            let mut sums = BTreeMap::<_, u64>::new();
            for lane in &lanes {
                *sums.entry(format!("cluster=\"{}\",kind=\"{}\"", lane.cluster, lane.kind)).or_default() += count(lane);
            }
            sums.into_iter().collect()
        };
        let (stored, missing) = (summed(|lane| lane.stored), summed(|lane| lane.missing));
        vec![
            Kept {
                name: "mctunnel_reports_stored_total",
                help: "Records that were stored",
                form: "counter",
                values: stored,
            },
            Kept {
                name: "mctunnel_reports_missing_total",
                help: "Records that never came: the spool of the agent was full, or was lost",
                form: "counter",
                values: missing,
            },
            Kept {
                name: "mctunnel_report_sink_set_aside_total",
                help: "Records that a sink refused for good",
                form: "counter",
                values: self.aside.counts(),
            },
        ]
    }
}

impl ClusterAdapter for ReportAdapter {
    fn protocol(&self) -> Protocol {
        Protocol::report()
    }

    async fn serve(self: Arc<Self>, opened: FromCluster) {
        let (Some((_, receiver)), false) = (self.store.get(), self.stopping.is_cancelled()) else {
            let reason = "this hub takes no reports right now";
            return opened.refuse(RefuseCode::Draining, NOT_NOW, reason);
        };
        let (cluster, receiver) = (opened.cluster().clone(), receiver.clone());
        let Some((stream, served)) = opened.join("reports") else { return };
        match receiver.serve(&cluster, stream).await {
            Ok(received) => served.ended(received.bytes, 0, None),
            // An agent that goes, and a tunnel that is cut, are told by others.
            Err(ReceiveError::Stream(error)) => served.ended(0, 0, Some(error.to_string())),
            Err(error) => {
                let error = format!("{:#}", anyhow::Error::new(error));
                warn!(%cluster, error, "Reports of a cluster were not taken.");
                served.ended(0, 0, Some(error));
            }
        }
    }
}

/// The hub is about to stop, or has not taken its store over yet.
const NOT_NOW: ErrorCode =
    ErrorCode { code: "MCT-REPORT-NOT-NOW", remedy: "none needed: the agent keeps its reports and tries again" };
