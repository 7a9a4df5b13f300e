//! Port: where records go from the hub's store. Each sink reads the store behind a place of its own, which is kept on disk: none can hold
//! up another, nor what clusters are told, and one that was away goes on where it was. A record that a sink refuses for good is set
//! aside once the sink takes another one, for a sink that refuses all of them is to blame itself. A kind that is not taken holds up no other.

use crate::{Kind, Query, ReportError, Store, StoredRecord, segments};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// Records that are delivered at once, at most.
const AT_ONCE: usize = 500;
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why a sink did not take records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// It may take them another time.
    #[error("{0}")]
    Later(String),
    /// It will never take them as they are. They come again in smaller groups, and the one that is to blame is set aside if any other
    /// record is taken; if none is, all of them come again later.
    #[error("{0}")]
    Never(String),
}

impl From<String> for NotTaken {
    fn from(reason: String) -> Self {
        Self::Later(reason)
    }
}

/// Takes records.
///
/// Obligations: 1. `Ok` means that the records are safe where they go: they are not delivered again; 2. after an error, or a crash of the
/// hub, the same records may come again, in the same order; 3. it may take its time: nobody else waits for it.
pub trait Sink: Send + Sync + 'static {
    /// What its place is kept under: of letters, digits and '-'. Another name begins with the oldest record again.
    fn name(&self) -> &str;

    /// Delivers records of one kind, in the order in which they were stored.
    fn deliver(&self, kind: &Kind, records: &[StoredRecord]) -> impl Future<Output = Result<(), NotTaken>> + Send;

    /// A record was refused for good and does not come again; for whoever counts. It is in the log and in the store.
    fn set_aside(&self, kind: &Kind, found: &StoredRecord) {
        let _ = (kind, found);
    }
}

/// Feeds a sink from the store for ever: with what is there, and then with what comes. `dir` is where the place is kept.
pub async fn feed<S: Sink>(store: Store, dir: &Path, sink: S) -> Result<(), ReportError> {
    segments::make_directory(dir)?;
    let mut feeding = Feeding {
        path: dir.join(format!("{}.places", sink.name())),
        store,
        sink,
        places: BTreeMap::new(),
        late: BTreeMap::new(),
    };
    feeding.places = feeding.read_places()?;
    let mut changes = feeding.store.changes();
    loop {
        changes.mark_unchanged();
        if feeding.turn().await {
            continue;
        }
        match feeding.late.values().map(|late| late.until).min() {
            Some(until) => drop(tokio::time::timeout_at(until, changed(&mut changes)).await),
            None => changed(&mut changes).await,
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
    /// Kinds that were not taken.
    late: BTreeMap<Kind, Late>,
}

/// When a kind that was not taken is tried again, and the pause until then.
#[derive(Debug, Clone, Copy)]
struct Late {
    until: Instant,
    pause: Duration,
}

impl<S: Sink> Feeding<S> {
    /// Delivers some records of each kind that is not to wait; says whether there were any.
    async fn turn(&mut self) -> bool {
        let mut any = false;
        for kind in self.store.kinds() {
            let before = self.late.get(&kind).copied();
            if before.is_some_and(|late| late.until > Instant::now()) {
                continue;
            }
            match self.some_of(&kind).await {
                Ok(some) => {
                    any |= some;
                    self.late.remove(&kind);
                }
                Err(reason) => {
                    tracing::warn!(sink = self.sink.name(), %kind, reason, "A sink did not take reports; trying again.");
                    let pause = before.map_or(SHORTEST_PAUSE, |late| (late.pause * 2).min(LONGEST_PAUSE));
                    self.late.insert(kind, Late { until: Instant::now() + pause, pause });
                }
            }
        }
        any
    }

    /// Delivers some records of a kind; says whether there were any.
    async fn some_of(&mut self, kind: &Kind) -> Result<bool, String> {
        let from = self.places.get(kind.as_str()).copied().unwrap_or(0);
        let (store, query) = (self.store.clone(), Query { from, limit: AT_ONCE, ..Query::new(kind.clone()) });
        let read = tokio::task::spawn_blocking(move || store.read(&query)).await;
        let records = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let Some(first) = records.first() else { return Ok(false) };
        let missed = first.position.saturating_sub(from);
        if missed > 0 {
            tracing::warn!(sink = self.sink.name(), %kind, missed, "Reports were removed before a sink had taken them.");
        }
        // Groups that are still to be delivered, the next one last.
        let mut groups = vec![records.as_slice()];
        // Records that were refused for good, behind the last one that was taken.
        let mut refused: Vec<(&StoredRecord, String)> = Vec::new();
        let mut any_taken = false;
        while let Some(group) = groups.pop() {
            match (self.sink.deliver(kind, group).await, group) {
                (Ok(()), _) => any_taken = true,
                (Err(NotTaken::Later(reason)), _) => return Err(reason),
                (Err(NotTaken::Never(reason)), [found]) => refused.push((found, reason)),
                (Err(NotTaken::Never(_)), _) => {
                    let (now, then) = group.split_at(group.len() / 2);
                    groups.extend([then, now]);
                    continue;
                }
            }
            let Some(last) = group.last().filter(|_| any_taken) else { continue };
            for (found, reason) in refused.drain(..) {
                self.set_aside(kind, found, &reason);
            }
            self.places.insert(kind.as_str().to_owned(), last.position + 1);
            self.write_places().map_err(|error| format!("its place cannot be kept: {error}"))?;
        }
        // A proxy in between may say the same of everything, for a while.
        refused.pop().map_or(Ok(true), |(_, reason)| Err(format!("every record was refused, the last with {reason}")))
    }

    fn set_aside(&self, kind: &Kind, found: &StoredRecord, reason: &str) {
        let (sink, cluster, position) = (self.sink.name(), &found.cluster, found.position);
        tracing::warn!(sink, %kind, %cluster, position, reason, "A sink refused a report for good; it is set aside.");
        self.sink.set_aside(kind, found);
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
