//! Port: where records go from the hub's store. Each sink reads the store behind a place of its own, which is kept on disk: none can hold
//! up another, nor what clusters are told, and one that was away goes on where it was.

use crate::{Kind, Query, ReportError, Store, StoredRecord, segments};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::watch;

/// Records that are delivered at once, at most.
const AT_ONCE: usize = 500;
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Takes records.
///
/// Obligations: 1. `Ok` means that the records are safe where they go: they are not delivered again; 2. after an error, or a crash of the
/// hub, the same records may come again, in the same order; 3. it may take its time: nobody else waits for it.
pub trait Sink: Send + Sync + 'static {
    /// What its place is kept under: of letters, digits and '-'. Another name begins with the oldest record again.
    fn name(&self) -> &str;

    /// Delivers records of one kind, in the order in which they were stored.
    fn deliver(&self, kind: &Kind, records: &[StoredRecord]) -> impl Future<Output = Result<(), String>> + Send;
}

/// Feeds a sink from the store for ever: with what is there, and then with what comes. `dir` is where the place is kept.
pub async fn feed<S: Sink>(store: Store, dir: &Path, sink: S) -> Result<(), ReportError> {
    segments::make_directory(dir)?;
    let mut feeding =
        Feeding { path: dir.join(format!("{}.places", sink.name())), store, sink, places: BTreeMap::new() };
    feeding.places = feeding.read_places()?;
    let mut changes = feeding.store.changes();
    let mut pause = SHORTEST_PAUSE;
    loop {
        changes.mark_unchanged();
        match feeding.turn().await {
            Ok(true) => pause = SHORTEST_PAUSE,
            Ok(false) => changed(&mut changes).await,
            Err(reason) => {
                tracing::warn!(sink = feeding.sink.name(), reason, "A sink did not take reports; trying again.");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn changed(changes: &mut watch::Receiver<u64>) {
    if changes.changed().await.is_err() {
        // The store is held by us, so that this does not happen; and if it did, nothing would come any more.
        std::future::pending().await
    }
}

struct Feeding<S> {
    path: PathBuf,
    store: Store,
    sink: S,
    /// The position of the next record of each kind.
    places: BTreeMap<String, u64>,
}

impl<S: Sink> Feeding<S> {
    /// Delivers some records of each kind; says whether there were any.
    async fn turn(&mut self) -> Result<bool, String> {
        let mut any = false;
        for kind in self.store.kinds() {
            let from = self.places.get(kind.as_str()).copied().unwrap_or(0);
            let (store, query) = (self.store.clone(), Query { from, limit: AT_ONCE, ..Query::new(kind.clone()) });
            let read = tokio::task::spawn_blocking(move || store.read(&query)).await;
            let records = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            let Some(last) = records.last() else { continue };
            let next = last.position + 1;
            if let Some(missed) = records.first().map(|first| first.position.saturating_sub(from)).filter(|n| *n > 0) {
                tracing::warn!(sink = self.sink.name(), %kind, missed, "Reports were removed before a sink had taken them.");
            }
            self.sink.deliver(&kind, &records).await?;
            self.places.insert(kind.as_str().to_owned(), next);
            self.write_places().map_err(|error| format!("its place cannot be kept: {error}"))?;
            any = true;
        }
        Ok(any)
    }

    /// `KIND POSITION` a line.
    fn read_places(&self) -> Result<BTreeMap<String, u64>, ReportError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(ReportError::file("read", &self.path)(error)),
        };
        let place = |line: &str| {
            let (kind, position) = line.split_once(' ')?;
            Some((kind.to_owned(), position.parse().ok()?))
        };
        Ok(text.lines().filter_map(place).collect())
    }

    /// Whole or not at all. Not synced: what a crash takes back is delivered again.
    fn write_places(&self) -> io::Result<()> {
        let unfinished = self.path.with_extension("new");
        let lines: String = self.places.iter().map(|(kind, position)| format!("{kind} {position}\n")).collect();
        std::fs::write(&unfinished, lines)?;
        std::fs::rename(&unfinished, &self.path)
    }
}
