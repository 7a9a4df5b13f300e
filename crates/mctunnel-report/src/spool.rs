//! The agent's spool: what sources report is on its disk before they are told so, and stays there until the hub has it on its own.
//! Each kind is a lane with a limit; at the limit its source waits, or the oldest records go and are counted.

mod cursor;
mod lane;
mod marks;
mod writer;

pub use lane::{AtLimit, LaneConfig, MOST_CHECKPOINTS};

pub(crate) use cursor::Cursor;
pub(crate) use lane::Progress;
#[cfg(test)]
pub(crate) use lane::{Checkpoints, Lane};

use crate::{
    Kind, Record, ReportError,
    batch::{MOST_PLAIN, MOST_RECORDS, USUAL_PLAIN, room_for},
    kind::MOST_CUSTOM,
    segments,
};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::{
    collections::BTreeMap,
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::watch;
use writer::{LaneWriter, SourceProgress};

/// A spool. Cheap to clone; all clones are the same spool. The last one that is dropped waits until what is being written is written.
#[derive(Clone)]
pub struct Spool {
    inner: Arc<Inner>,
}

struct Inner {
    dir: PathBuf,
    id: RwLock<SpoolId>,
    lanes: Mutex<BTreeMap<Kind, Arc<LaneWriter>>>,
    usual: LaneConfig,
    particular: BTreeMap<Kind, LaneConfig>,
    kinds: watch::Sender<Vec<Kind>>,
    /// Held as long as the spool is open.
    _lock: File,
}

/// Which directory of which agent a lane is in: chosen at random when the directory is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpoolId(pub [u8; 16]);

impl fmt::Display for SpoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SpoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a lane is, for people and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneStatus {
    /// The bytes it takes on disk.
    pub bytes: u64,
    /// The oldest number that is still there.
    pub oldest: u64,
    /// The number that the hub wants next, as far as it said.
    pub wanted: u64,
    /// The number that the next record gets.
    pub next: u64,
    /// Records that were dropped at the limit, ever, before the hub had acknowledged them.
    pub dropped: u64,
}

impl Spool {
    /// Opens the spool in a directory, which is made if it is not there. `particular` has the limits of kinds that are not to have the
    /// usual ones.
    pub fn open(dir: &Path, usual: LaneConfig, particular: BTreeMap<Kind, LaneConfig>) -> Result<Self, ReportError> {
        segments::make_directory(dir)?;
        let lock = lock(dir)?;
        let id = read_or_make_id(dir)?;
        let kinds = watch::Sender::new(Vec::new());
        let inner = Inner {
            dir: dir.to_owned(),
            id: RwLock::new(id),
            lanes: Mutex::default(),
            usual,
            particular,
            kinds,
            _lock: lock,
        };
        let spool = Self { inner: Arc::new(inner) };
        for kind in kinds_in(dir)? {
            spool.lane(&kind)?;
        }
        Ok(spool)
    }

    /// The spool's name.
    #[must_use]
    pub fn id(&self) -> SpoolId {
        *self.inner.id.read()
    }

    /// Takes records of one kind, in this order. Returns when they are on disk; waits while the lane is full and its source is to wait.
    ///
    /// Whoever gives up waiting does not know whether they were taken.
    pub async fn append(&self, kind: &Kind, records: Vec<Record>) -> Result<(), ReportError> {
        let chunks = chunks(records, USUAL_PLAIN)?;
        let parts = chunks.into_iter().map(|chunk| (chunk, SourceProgress::Untold)).collect();
        self.lane(kind)?.append(parts).await.map(drop)
    }

    /// As [`Spool::append`], with how far the source is behind these records, in words of its own: what was taken and
    /// [`Spool::checkpoint`] never differ, whatever crashes. The records must fit into one batch, else `TooMuch` is the answer; an empty
    /// token forgets the source.
    pub async fn append_up_to(
        &self,
        kind: &Kind,
        records: Vec<Record>,
        source: &Arc<str>,
        token: Bytes,
    ) -> Result<(), ReportError> {
        let mut chunks = chunks(records, MOST_PLAIN)?;
        let (Some(chunk), None) = (chunks.pop(), chunks.pop()) else { return Err(ReportError::TooMuch) };
        let progress = SourceProgress::Checkpoint(Arc::clone(source), token);
        self.lane(kind)?.append(vec![(chunk, progress)]).await.map(drop)
    }

    /// As [`Spool::append`], for a source that counts its records: `first` is the number of the first of these. What was taken before
    /// is not taken again, so that a source that got no answer asks again. Gives how many were new.
    pub async fn append_numbered(
        &self,
        kind: &Kind,
        records: Vec<Record>,
        source: &Arc<str>,
        first: u64,
    ) -> Result<usize, ReportError> {
        let mut first = first;
        let chunks = chunks(records, USUAL_PLAIN)?;
        let parts = chunks.into_iter().map(|chunk| {
            let progress = SourceProgress::Sequence(Arc::clone(source), first);
            first = first.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
            (chunk, progress)
        });
        self.lane(kind)?.append(parts.collect()).await
    }

    /// What a source said with the last of its records that are on disk.
    pub fn checkpoint(&self, kind: &Kind, source: &str) -> Result<Option<Bytes>, ReportError> {
        Ok(self.lane(kind)?.checkpoint(source))
    }

    /// The sources of a kind that said how far they are.
    pub fn sources(&self, kind: &Kind) -> Result<Vec<Arc<str>>, ReportError> {
        Ok(self.lane(kind)?.sources())
    }

    /// Forgets how far a source is that reports no more. It is written with the next records of the kind, so after a crash before them
    /// the source is still known, and is to be forgotten again.
    pub fn forget(&self, kind: &Kind, source: &str) -> Result<(), ReportError> {
        self.lane(kind)?.forget(source);
        Ok(())
    }

    /// The kinds that have a lane, and those that will.
    #[must_use]
    pub fn kinds(&self) -> watch::Receiver<Vec<Kind>> {
        self.inner.kinds.subscribe()
    }

    /// How the lane of a kind is.
    pub fn status(&self, kind: &Kind) -> Result<LaneStatus, ReportError> {
        let progress = self.lane(kind)?.progress();
        let progress = progress.borrow();
        Ok(LaneStatus {
            bytes: progress.bytes,
            oldest: progress.oldest(),
            wanted: progress.wanted,
            next: progress.synced,
            dropped: progress.dropped,
        })
    }

    pub(crate) fn dir_of(&self, kind: &Kind) -> PathBuf {
        self.inner.dir.join(kind.as_str())
    }

    pub(crate) fn progress(&self, kind: &Kind) -> Result<watch::Receiver<Progress>, ReportError> {
        Ok(self.lane(kind)?.progress())
    }

    /// The hub has everything below this number on its disk.
    pub(crate) fn wanted(&self, kind: &Kind, number: u64) {
        if let Ok(lane) = self.lane(kind) {
            lane.wanted(number);
        }
    }

    /// Takes another name, under which every lane is new to the hub: rather stored twice than lost.
    pub(crate) fn rename(&self, old: SpoolId) -> Result<(), ReportError> {
        let mut id = self.inner.id.write();
        // Another lane may have found out first.
        if *id == old {
            *id = make_id(&self.inner.dir)?;
        }
        Ok(())
    }

    fn lane(&self, kind: &Kind) -> Result<Arc<LaneWriter>, ReportError> {
        let mut lanes = self.inner.lanes.lock();
        if let Some(lane) = lanes.get(kind) {
            return Ok(Arc::clone(lane));
        }
        // Each has a file open and a thread, and the hub takes no more of one cluster.
        let custom = lanes.keys().filter(|kind| !kind.is_built_in()).count();
        if !kind.is_built_in() && custom >= MOST_CUSTOM {
            return Err(ReportError::TooManyKinds(custom));
        }
        let config = self.inner.particular.get(kind).unwrap_or(&self.inner.usual);
        let lane = Arc::new(LaneWriter::start(&self.dir_of(kind), config)?);
        lanes.insert(kind.clone(), Arc::clone(&lane));
        self.inner.kinds.send_modify(|kinds| kinds.push(kind.clone()));
        Ok(lane)
    }
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spool").field("dir", &self.inner.dir).field("id", &self.id()).finish_non_exhaustive()
    }
}

/// Records in pieces of so many bytes that fit into a batch each; a record that has more is a piece of its own.
fn chunks(records: Vec<Record>, most: usize) -> Result<Vec<Vec<Record>>, ReportError> {
    let mut chunks: Vec<Vec<Record>> = Vec::new();
    let mut bytes = 0;
    for record in records {
        record.check()?;
        let room = room_for(&record);
        bytes += room;
        match chunks.last_mut() {
            Some(chunk) if bytes <= most && chunk.len() < MOST_RECORDS => chunk.push(record),
            _ => {
                bytes = room;
                chunks.push(vec![record]);
            }
        }
    }
    Ok(chunks)
}

/// Keeps other processes out of a directory as long as the file is open.
pub(crate) fn lock(dir: &Path) -> Result<File, ReportError> {
    let path = dir.join("lock");
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = opened.map_err(ReportError::file("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ReportError::InUse(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(ReportError::file("lock", &path)(error)),
    }
}

/// The kinds that have a directory.
pub(crate) fn kinds_in(dir: &Path) -> Result<Vec<Kind>, ReportError> {
    let entries = std::fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut kinds = Vec::new();
    for entry in entries.map_err(ReportError::file("read", dir))? {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        kinds.extend(entry.file_name().to_str().filter(|_| is_dir).and_then(|name| Kind::parse(name).ok()));
    }
    kinds.sort();
    Ok(kinds)
}

fn read_or_make_id(dir: &Path) -> Result<SpoolId, ReportError> {
    let path = dir.join("id");
    match std::fs::read(&path) {
        Ok(bytes) => match bytes.try_into() {
            Ok(id) => Ok(SpoolId(id)),
            Err(_) => Err(ReportError::file("read", &path)(io::Error::other("it does not have 16 bytes"))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_id(dir),
        Err(error) => Err(ReportError::file("read", &path)(error)),
    }
}

fn make_id(dir: &Path) -> Result<SpoolId, ReportError> {
    let (path, unfinished) = (dir.join("id"), dir.join("id.new"));
    let id = SpoolId(rand::random());
    let written = || -> io::Result<()> {
        std::fs::write(&unfinished, id.0)?;
        File::open(&unfinished)?.sync_all()?;
        std::fs::rename(&unfinished, &path)?;
        segments::sync_directory(dir)
    };
    written().map_err(ReportError::file("write", &path))?;
    Ok(id)
}
