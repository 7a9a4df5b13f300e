//! A log on disk, in segments: entries are appended, synced, read again, and forgotten a whole segment at a time. What was synced
//! survives any crash; what was not is there as a whole or not at all. It knows nothing of what the entries mean.
//!
//! ```text
//! 00000000000000000042.seg:  magic  head  entry  entry ...     head and entry: length u32 | crc32 u32 | bytes
//! ```

mod read;
#[cfg(test)]
mod tests;

pub(crate) use read::{Found, SegmentReader};

use crate::ReportError;
use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 8] = b"MCTREP1\n";
const ENTRY_HEAD: usize = 8;
/// A longer entry is not one of ours.
pub(crate) const MOST_ENTRY: usize = 16 << 20;

/// A log. One process has it open, and one thread writes.
#[derive(Debug)]
pub(crate) struct Segments {
    dir: PathBuf,
    /// Full ones, oldest first.
    sealed: VecDeque<Segment>,
    active: Active,
    /// After a sync that failed nobody knows what is on disk.
    broken: bool,
}

/// A segment that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) id: u64,
    pub(crate) len: u64,
}

#[derive(Debug)]
struct Active {
    file: File,
    segment: Segment,
    /// What is surely on disk.
    synced: u64,
}

/// Where an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

impl Segments {
    /// Opens the log in a directory, which is made if it is not there; `first_head` is the head of its first segment. Every head and
    /// every whole entry is shown to `visit`, oldest first; the last segment is cut behind the last whole one.
    pub(crate) fn open(
        dir: &Path,
        first_head: impl FnOnce() -> Vec<u8>,
        mut visit: impl FnMut(Place, Found<'_>),
    ) -> Result<Self, ReportError> {
        make_directory(dir)?;
        remove_unfinished(dir)?;
        let mut ids = ids(dir)?;
        let Some(last) = ids.pop() else {
            let active = create(dir, 1, &first_head())?;
            let mut reader = SegmentReader::open(dir, 1)?;
            reader.visit_all(&mut visit)?;
            return Ok(Self { dir: dir.to_owned(), sealed: VecDeque::new(), active, broken: false });
        };
        let mut sealed = VecDeque::new();
        for id in ids {
            let mut reader = SegmentReader::open(dir, id)?;
            let whole = reader.visit_all(&mut visit)?;
            let len = reader.file_len()?;
            if whole < len {
                let file = path_of(dir, id);
                tracing::warn!(file = %file.display(), at = whole, "A segment of reports is damaged; the rest of it is lost.");
            }
            sealed.push_back(Segment { id, len });
        }
        let active = reopen(dir, last, &mut visit)?;
        Ok(Self { dir: dir.to_owned(), sealed, active, broken: false })
    }

    /// Writes an entry behind the last one. It is not on disk before [`Segments::sync`].
    pub(crate) fn append(&mut self, entry: &[u8]) -> Result<Place, ReportError> {
        let path = self.active_path();
        if self.broken {
            return Err(ReportError::file("write", &path)(io::Error::other("a sync failed before")));
        }
        let Segment { id, len } = self.active.segment;
        let framed = framed(entry);
        if let Err(error) = self.active.file.write_all_at(&framed, len) {
            // What was written of it goes, so that the next entry follows the last whole one.
            self.broken = self.active.file.set_len(len).is_err();
            return Err(ReportError::file("write", &path)(error));
        }
        self.active.segment.len += as_u64(framed.len());
        Ok(Place { segment: id, offset: len })
    }

    /// Returns when everything that was appended is on disk.
    pub(crate) fn sync(&mut self) -> Result<(), ReportError> {
        let path = self.active_path();
        if self.broken {
            return Err(ReportError::file("sync", &path)(io::Error::other("a sync failed before")));
        }
        if self.active.synced == self.active.segment.len {
            return Ok(());
        }
        if let Err(error) = self.active.file.sync_data() {
            self.broken = true;
            return Err(ReportError::file("sync", &path)(error));
        }
        self.active.synced = self.active.segment.len;
        Ok(())
    }

    /// Begins a new segment with this head. What the old one has is synced first.
    pub(crate) fn roll(&mut self, head: &[u8]) -> Result<(), ReportError> {
        self.sync()?;
        let next = create(&self.dir, self.active.segment.id + 1, head)?;
        let old = std::mem::replace(&mut self.active, next);
        self.sealed.push_back(old.segment);
        Ok(())
    }

    /// Deletes the oldest full segment, if there is one. A crash may leave it there; it is then found again.
    pub(crate) fn forget_oldest(&mut self) -> Result<Option<Segment>, ReportError> {
        let Some(oldest) = self.sealed.pop_front() else { return Ok(None) };
        let path = path_of(&self.dir, oldest.id);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.sealed.push_front(oldest);
                Err(ReportError::file("remove", &path)(error))
            }
            _ => Ok(Some(oldest)),
        }
    }

    /// The bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.sealed.iter().map(|segment| segment.len).sum::<u64>() + self.active.segment.len
    }

    /// The segment that is written.
    pub(crate) fn active(&self) -> Segment {
        self.active.segment
    }

    /// What of it is surely on disk: what a crash may leave.
    #[cfg(test)]
    pub(crate) fn synced_len(&self) -> u64 {
        self.active.synced
    }

    pub(crate) fn active_path(&self) -> PathBuf {
        path_of(&self.dir, self.active.segment.id)
    }
}

pub(crate) fn path_of(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id:020}.seg"))
}

/// Makes a directory for this user alone, with those above it, and makes that survive a crash: a file that was synced is of no use in a
/// directory that is gone.
pub(crate) fn make_directory(dir: &Path) -> Result<(), ReportError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    let above = dir.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    made.and_then(|()| sync_directory(above)).map_err(ReportError::file("create", dir))
}

/// Makes what was created or renamed in a directory survive a crash.
pub(crate) fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// The ids of the segments, in order.
pub(crate) fn ids(dir: &Path) -> Result<Vec<u64>, ReportError> {
    let names = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let names = names.map_err(ReportError::file("read", dir))?;
    let id = |entry: &fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".seg")?.parse().ok();
    let mut ids: Vec<u64> = names.iter().filter_map(id).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Removes what a crash left half made.
fn remove_unfinished(dir: &Path) -> Result<(), ReportError> {
    let names = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    for entry in names.map_err(ReportError::file("read", dir))? {
        if entry.path().extension().is_some_and(|extension| extension == "new") {
            fs::remove_file(entry.path()).map_err(ReportError::file("remove", &entry.path()))?;
        }
    }
    Ok(())
}

/// A segment comes into being with its head, or not at all.
fn create(dir: &Path, id: u64, head: &[u8]) -> Result<Active, ReportError> {
    let path = path_of(dir, id);
    let made = || -> io::Result<(File, u64)> {
        let unfinished = path.with_extension("new");
        let mut file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(&unfinished)?;
        let bytes = [MAGIC, framed(head).as_slice()].concat();
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)?;
        sync_directory(dir)?;
        Ok((file, as_u64(bytes.len())))
    };
    let (file, len) = made().map_err(ReportError::file("create", &path))?;
    Ok(Active { file, segment: Segment { id, len }, synced: len })
}

/// The last segment after a restart: what is not whole at its end goes, and what is there is synced before anybody relies on it.
fn reopen(dir: &Path, id: u64, visit: &mut impl FnMut(Place, Found<'_>)) -> Result<Active, ReportError> {
    let path = path_of(dir, id);
    let whole = SegmentReader::open(dir, id)?.visit_all(visit)?;
    let prepared = || -> io::Result<File> {
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let len = file.metadata()?.len();
        if whole < len {
            tracing::info!(file = %path.display(), cut = len - whole, "The end of a segment was not whole and is cut off.");
            file.set_len(whole)?;
        }
        file.sync_all()?;
        Ok(file)
    };
    let file = prepared().map_err(ReportError::file("open", &path))?;
    Ok(Active { file, segment: Segment { id, len: whole }, synced: whole })
}

fn framed(entry: &[u8]) -> Vec<u8> {
    let len = u32::try_from(entry.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut out = Vec::with_capacity(ENTRY_HEAD + entry.len());
    out.extend_from_slice(&len);
    out.extend_from_slice(&checksum(len, entry).to_be_bytes());
    out.extend_from_slice(entry);
    out
}

/// Over the length as well: a length that was damaged must not be believed.
fn checksum(len: [u8; 4], entry: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&len);
    hasher.update(entry);
    hasher.finalize()
}

fn as_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
