//! Reading a segment, one entry after the other, while another thread may still write behind them.

use super::{ENTRY_HEAD, MAGIC, MOST_ENTRY, Place, as_u64, checksum, path_of};
use crate::ReportError;
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

/// What stands in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// What the segment continues.
    Head(&'a [u8]),
    /// An entry.
    Entry(&'a [u8]),
}

/// A place in a segment from which on it is read.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    path: PathBuf,
    file: File,
    segment: u64,
    offset: u64,
    buffer: Vec<u8>,
}

impl SegmentReader {
    /// Stands before the head.
    pub(crate) fn open(dir: &Path, segment: u64) -> Result<Self, ReportError> {
        let path = path_of(dir, segment);
        let file = File::open(&path).map_err(ReportError::file("open", &path))?;
        Ok(Self { path, file, segment, offset: as_u64(MAGIC.len()), buffer: Vec::new() })
    }

    /// Stands before the entry at an offset.
    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    pub(crate) fn segment(&self) -> u64 {
        self.segment
    }

    pub(crate) fn file_len(&self) -> Result<u64, ReportError> {
        Ok(self.file.metadata().map_err(ReportError::file("read", &self.path))?.len())
    }

    /// The next entry (or the head, if that is next) and where it is; `None` where no whole one is.
    pub(crate) fn next(&mut self) -> Result<Option<(Place, &[u8])>, ReportError> {
        let place = Place { segment: self.segment, offset: self.offset };
        match self.read() {
            Ok(true) => {
                self.offset += as_u64(ENTRY_HEAD + self.buffer.len());
                Ok(Some((place, &self.buffer)))
            }
            Ok(false) => Ok(None),
            Err(error) => Err(ReportError::file("read", &self.path)(error)),
        }
    }

    /// Shows the head and every entry; gives the length up to the last that is whole.
    pub(crate) fn visit_all(&mut self, visit: &mut impl FnMut(Place, Found<'_>)) -> Result<u64, ReportError> {
        let mut magic = [0; MAGIC.len()];
        let named = self.file.read_exact_at(&mut magic, 0).is_ok() && magic == *MAGIC;
        // A segment is made with its magic and its head; without them it is not one of ours, and nothing of it is cut.
        let foreign = || ReportError::file("read", &self.path)(io::Error::other("it is not a segment of reports"));
        if !named {
            return Err(foreign());
        }
        let path = self.path.clone();
        let Some((place, head)) = self.next()? else {
            return Err(ReportError::file("read", &path)(io::Error::other("the head of the segment is damaged")));
        };
        visit(place, Found::Head(head));
        while let Some((place, entry)) = self.next()? {
            visit(place, Found::Entry(entry));
        }
        Ok(self.offset)
    }

    /// Reads the entry at the offset into the buffer; `false` when there is no whole one.
    fn read(&mut self) -> io::Result<bool> {
        let mut head = [0; ENTRY_HEAD];
        if !read_whole(&self.file, &mut head, self.offset)? {
            return Ok(false);
        }
        let [a, b, c, d, e, f, g, h] = head;
        let (len_bytes, crc) = ([a, b, c, d], u32::from_be_bytes([e, f, g, h]));
        let len = usize::try_from(u32::from_be_bytes(len_bytes)).unwrap_or(usize::MAX);
        if len > MOST_ENTRY {
            return Ok(false);
        }
        self.buffer.clear();
        self.buffer.resize(len, 0);
        let whole = read_whole(&self.file, &mut self.buffer, self.offset + as_u64(ENTRY_HEAD))?;
        Ok(whole && checksum(len_bytes, &self.buffer) == crc)
    }
}

/// Whether so many bytes are there.
fn read_whole(file: &File, into: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(into, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
