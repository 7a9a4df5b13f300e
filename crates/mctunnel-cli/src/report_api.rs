//! The pages of a hub for reading reports. What each takes is decided by policy, record by record; ADR 0018.
//!
//! ```text
//! report_api/asked.rs    what the query of a request says
//! report_api/known.rs    which clusters there are
//! report_api/rights.rs   what it takes to see a record
//! report_api/turns.rs    whose turn it is to have that decided
//! report_api/records.rs  reports and events: a list, lines, and lines that go on
//! report_api/log_page.rs the log of a container, byte for byte
//! report_api/overview.rs the list of clusters
//! ```

mod asked;
mod known;
mod log_page;
mod overview;
mod records;
mod rights;
mod turns;

#[cfg(test)]
pub(crate) use asked::parameters;

use crate::{cluster_line::LatestStatus, hub_reports::ReportAdapter};
use known::KnownClusters;
use mctunnel::{
    Hub,
    gateway::http::{NoPage, PageEnded},
    report::{Query, Store, StoredRecord},
};
use parking_lot::Mutex;
use std::{path::Path, sync::Arc};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use turns::Turns;

/// The description of all pages.
pub(crate) const OPENAPI: &str = include_str!("report_api/openapi.json");

/// Groups of records that are read at once, for all clients together.
const READERS: usize = 4;
/// Records of one group, and bytes of their bodies: what an answer to a client that does not read may hold.
const GROUP: usize = 200;
const GROUP_BYTES: usize = 64 * 1024;

/// Reads what clusters reported, for clients.
pub(crate) struct ReportApi {
    adapter: Arc<ReportAdapter>,
    /// Knows the tunnels.
    hub: Hub,
    clusters: KnownClusters,
    readers: Arc<Semaphore>,
    turns: Turns,
    latest: Arc<Mutex<LatestStatus>>,
}

impl ReportApi {
    pub(crate) fn new(adapter: Arc<ReportAdapter>, hub: Hub, data_dir: &Path) -> Self {
        let (readers, turns) = (Arc::new(Semaphore::new(READERS)), Turns::new());
        Self { adapter, hub, clusters: KnownClusters::of(data_dir), readers, turns, latest: Arc::default() }
    }

    fn reading(&self) -> Result<Reading, NoPage> {
        let store = self.adapter.store().cloned();
        let store = store.ok_or_else(|| NoPage::NotNow("the hub before this one still has the reports".to_owned()))?;
        Ok(Reading { store, readers: Arc::clone(&self.readers), stopping: self.adapter.stopping() })
    }
}

/// The store as an answer reads it.
#[derive(Clone)]
struct Reading {
    store: Store,
    readers: Arc<Semaphore>,
    /// The hub is about to end: no answer goes on.
    stopping: CancellationToken,
}

impl Reading {
    /// The next records that a query asks for.
    async fn group(&self, query: Query) -> Result<Vec<StoredRecord>, PageEnded> {
        let broken = |error: &dyn std::fmt::Display| PageEnded::Broken(format!("reports cannot be read: {error}"));
        let turn = Arc::clone(&self.readers).acquire_owned().await.map_err(|error| broken(&error))?;
        let (store, query) = (self.store.clone(), Query { limit: GROUP, bytes: GROUP_BYTES, ..query });
        let read = tokio::task::spawn_blocking(move || {
            // Held by who reads: a client that is gone does not make room for another while its question is still being read.
            let _turn = turn;
            store.read(&query)
        })
        .await;
        read.map_err(|error| broken(&error))?.map_err(|error| broken(&error))
    }
}
