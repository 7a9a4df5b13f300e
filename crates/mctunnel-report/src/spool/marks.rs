//! What is to be known of a lane's past after a restart: how far the hub has it, and how much of it was dropped. It is beside the
//! segments, in a file of its own that is written over, for the hub says how far it is when nothing is appended. No record depends on it: a
//! power failure may take it back a little, and then records that the hub had count as dropped.

use crate::ReportError;
use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// The marks of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    /// The hub has everything below this number.
    pub(super) wanted: u64,
    /// Records that were dropped before the hub had acknowledged them.
    pub(super) dropped: u64,
    /// Numbers below this one are gone, and counted.
    pub(super) gone: u64,
}

/// Three numbers and a checksum.
const LEN: usize = 28;

impl Marks {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [self.wanted, self.dropped, self.gone].into_iter().flat_map(u64::to_be_bytes).collect();
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        bytes
    }

    fn parse(bytes: [u8; LEN]) -> Option<Self> {
        let (numbers, sum) = bytes.split_at(LEN - 4);
        if crc32fast::hash(numbers).to_be_bytes() != sum {
            return None;
        }
        let mut numbers = numbers.chunks_exact(8).map(|number| Some(u64::from_be_bytes(number.try_into().ok()?)));
        Some(Self { wanted: numbers.next()??, dropped: numbers.next()??, gone: numbers.next()?? })
    }
}

/// Where they are kept.
#[derive(Debug)]
pub(super) struct MarksFile {
    path: PathBuf,
    file: File,
    kept: Option<Marks>,
}

impl MarksFile {
    /// Opens the file in the directory of a lane, which is there. A file that cannot be read, or that no lane had before, has no marks.
    pub(super) fn open(dir: &Path) -> Result<Self, ReportError> {
        let path = dir.join("marks");
        let opened = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let file = opened.map_err(ReportError::file("open", &path))?;
        let mut bytes = [0; LEN];
        let kept = file.read_exact_at(&mut bytes, 0).ok().and_then(|()| Marks::parse(bytes));
        Ok(Self { path, file, kept })
    }

    pub(super) fn kept(&self) -> Option<Marks> {
        self.kept
    }

    /// Keeps other marks; with `surely`, over a power failure too. Records are not refused because they cannot be counted.
    pub(super) fn keep(&mut self, marks: Marks, surely: bool) {
        if self.kept == Some(marks) && !surely {
            return;
        }
        let written = self.file.write_all_at(&marks.to_bytes(), 0);
        let synced = written.and_then(|()| if surely { self.file.sync_data() } else { Ok(()) });
        match synced {
            Ok(()) => self.kept = Some(marks),
            Err(error) => {
                let file = self.path.display();
                tracing::warn!(%file, %error, "What was dropped of a lane is not known after a restart.");
            }
        }
    }
}
