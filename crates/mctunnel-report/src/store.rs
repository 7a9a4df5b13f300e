//! The hub's store of reports: a log for each kind, in which the batches of all clusters follow each other as they came, with an index
//! by cluster and time in memory. What it has acknowledged is on disk, exactly once.

pub(crate) mod index;
pub(crate) mod log;
pub(crate) mod query;
pub(crate) mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub use query::{Query, StoredRecord};
pub use reader::StoreReader;

use crate::{Batch, Kind, ReportError, SpoolId, segments, spool};
use index::{Index, LaneKey};
use log::Stored;
use mctunnel_core::ClusterName;
use parking_lot::RwLock;
use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::sync::{oneshot, watch};
use writer::StoreWriter;

/// The most kinds of one hub: each has a file open. Those that are built in are never among those that are too many.
pub const MOST_KINDS: usize = 128;

/// How long records are kept, and how many bytes of each kind.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Records that came longer ago may go; default 7 days.
    pub age: Duration,
    /// The most bytes of one kind, at least 1 MiB; default 1 GiB. The oldest go.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_secs(7 * 24 * 60 * 60), bytes: 1 << 30 }
    }
}

/// What is known of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneReport {
    /// Whose.
    pub cluster: ClusterName,
    /// Which spool of the cluster.
    pub spool: SpoolId,
    /// Of which kind.
    pub kind: Kind,
    /// The number that is wanted next.
    pub next: u64,
    /// Records that were stored.
    pub stored: u64,
    /// Records that never came: their numbers were skipped.
    pub missing: u64,
    /// When it was used last, in seconds since 1970.
    pub used: u64,
}

/// A store. Cheap to clone; all clones are the same store.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    dir: PathBuf,
    shared: Arc<Shared>,
    writer: StoreWriter,
    retention: Retention,
    /// Held as long as the store is open.
    _lock: File,
}

/// What those who write and those who ask share.
#[derive(Debug)]
struct Shared {
    indexes: RwLock<BTreeMap<Kind, Index>>,
    /// Raised when something was stored.
    changed: watch::Sender<u64>,
}

impl Store {
    /// Opens the store in a directory, which is made if it is not there.
    pub fn open(dir: &Path, retention: Retention) -> Result<Self, ReportError> {
        segments::make_directory(dir)?;
        let lock = spool::lock(dir)?;
        let mut logs = BTreeMap::new();
        let mut indexes = BTreeMap::new();
        for kind in spool::kinds_in(dir)? {
            let (log, index) = log::KindLog::open(&dir.join(kind.as_str()), retention)?;
            indexes.insert(kind.clone(), index);
            logs.insert(kind, log);
        }
        let shared = Arc::new(Shared { indexes: RwLock::new(indexes), changed: watch::Sender::new(0) });
        let writer = StoreWriter::start(dir, logs, retention, Arc::clone(&shared))?;
        Ok(Self { inner: Arc::new(Inner { dir: dir.to_owned(), shared, writer, retention, _lock: lock }) })
    }

    /// The number that is wanted next of a lane.
    pub(crate) fn wanted(&self, cluster: &ClusterName, spool: SpoolId, kind: &Kind) -> Result<u64, ReportError> {
        let indexes = self.inner.shared.indexes.read();
        let key = LaneKey { cluster: cluster.clone(), spool };
        if let Some(mark) = indexes.get(kind).and_then(|index| index.lanes.get(&key)) {
            return Ok(mark.next);
        }
        let known = indexes.iter().map(|(kind, index)| (kind, &index.lanes));
        index::check_new_kind(kind, cluster, log::now().saturating_sub(self.inner.retention.age.as_secs()), known)?;
        Ok(1)
    }

    /// Hands a batch that was checked over to be stored; waits while too many wait. `follows` is the number behind the batch that came
    /// before it on the same stream. The answer is the number wanted next, once the batch is on disk.
    pub(crate) async fn submit(
        &self,
        cluster: &ClusterName,
        spool: SpoolId,
        kind: &Kind,
        batch: Batch,
        follows: u64,
    ) -> Result<oneshot::Receiver<Result<u64, ReportError>>, ReportError> {
        let stored = Stored::new(cluster, spool, batch);
        self.inner.writer.submit(kind.clone(), stored, follows).await
    }

    /// Every lane that is known.
    #[must_use]
    pub fn lanes(&self) -> Vec<LaneReport> {
        let indexes = self.inner.shared.indexes.read();
        let of = |(kind, index): (&Kind, &Index)| {
            let kind = kind.clone();
            let report = move |(key, mark): (&LaneKey, &index::Mark)| LaneReport {
                cluster: key.cluster.clone(),
                spool: key.spool,
                kind: kind.clone(),
                next: mark.next,
                stored: mark.stored,
                missing: mark.missing,
                used: mark.used,
            };
            index.lanes.iter().map(report).collect::<Vec<_>>()
        };
        indexes.iter().flat_map(of).collect()
    }

    /// The kinds of which something was stored.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind> {
        self.inner.shared.indexes.read().keys().cloned().collect()
    }

    /// Changes whenever something was stored.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.shared.changed.subscribe()
    }

    /// The records that a query asks for, in the order in which they were stored. Reads files: not for a thread that must not wait.
    pub fn read(&self, query: &Query) -> Result<Vec<StoredRecord>, ReportError> {
        let dir = self.inner.dir.join(query.kind.as_str());
        let (mut from, mut found) = (query.from, Vec::new());
        while !query.is_answered(&found) {
            // The index is not held while files are read.
            let batches = {
                let indexes = self.inner.shared.indexes.read();
                indexes.get(&query.kind).map(|index| query.find(index, from)).unwrap_or_default()
            };
            let Some(behind) = query.read(&dir, &batches, &mut found)? else { break };
            from = behind;
        }
        Ok(found)
    }
}

impl Store {
    /// The last record that each cluster has of a kind, however long ago it came. Reads files: not for a thread that must not wait.
    pub fn last_of_each(&self, kind: &Kind) -> Result<Vec<StoredRecord>, ReportError> {
        let last = self.inner.shared.indexes.read().get(kind).map(Index::last_of_each).unwrap_or_default();
        let (dir, mut found) = (self.inner.dir.join(kind.as_str()), Vec::new());
        for batch in last.into_values() {
            let from = (batch.position + u64::from(batch.count)).saturating_sub(1);
            Query { from, limit: usize::MAX, ..Query::new(kind.clone()) }.read(&dir, &[batch], &mut found)?;
        }
        Ok(found)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("dir", &self.inner.dir).finish_non_exhaustive()
    }
}
