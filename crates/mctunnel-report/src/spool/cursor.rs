//! A place in a lane from which on it is sent. It reads files alone, so that it never waits for whoever writes.

use super::{Progress, lane::Kept};
use crate::{Batch, ReportError, segments::SegmentReader};
use prost::Message as _;
use std::{
    io,
    path::{Path, PathBuf},
};

/// A place in a lane.
#[derive(Debug)]
pub(crate) struct Cursor {
    dir: PathBuf,
    next: u64,
    reader: Option<SegmentReader>,
}

impl Cursor {
    pub(crate) fn new(dir: &Path, next: u64) -> Self {
        Self { dir: dir.to_owned(), next, reader: None }
    }

    /// The number of the next record it gives.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// The batch that has the next record, or the first behind it if that is gone; `None` when nothing further is synced.
    pub(crate) fn read(&mut self, progress: &Progress) -> Result<Option<Batch>, ReportError> {
        while self.next < progress.synced {
            let Some(reader) = self.reader_for(progress)? else { continue };
            match reader.next()? {
                Some((_, entry)) => {
                    let batch = decode(entry)?;
                    if batch.next() > self.next {
                        self.next = batch.next();
                        return Ok(Some(batch));
                    }
                }
                None => self.leave_segment(progress),
            }
        }
        Ok(None)
    }

    /// The reader of the segment that has the next record, behind its head. `None` when the segment went while it was opened.
    fn reader_for(&mut self, progress: &Progress) -> Result<Option<&mut SegmentReader>, ReportError> {
        // A lane that is full forgets segments; what was not sent of them is not sent any more.
        let oldest = progress.starts.first().map_or(0, |start| start.segment);
        self.reader.take_if(|reader| reader.segment() < oldest);
        if self.reader.is_none() {
            self.next = self.next.max(progress.oldest());
            let holds = progress.starts.iter().rev().find(|start| start.first <= self.next);
            let segment = holds.map_or(oldest, |start| start.segment);
            match SegmentReader::open(&self.dir, segment) {
                Ok(mut reader) => {
                    reader.next()?;
                    self.reader = Some(reader);
                }
                Err(ReportError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    // Forgotten since the progress was looked at: nothing in it is wanted any more.
                    self.skip_to_segment_after(segment, progress);
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.reader.as_mut())
    }

    /// The segment has no further whole entry, and yet more was synced: it goes on in the next one.
    fn leave_segment(&mut self, progress: &Progress) {
        let segment = self.reader.take().map_or(0, |reader| reader.segment());
        self.skip_to_segment_after(segment, progress);
    }

    fn skip_to_segment_after(&mut self, segment: u64, progress: &Progress) {
        let following = progress.starts.iter().find(|start| start.segment > segment);
        // What is missing of a damaged segment is skipped; the hub sees the gap.
        self.next = following.map_or(progress.synced, |start| start.first.max(self.next));
    }
}

fn decode(entry: &[u8]) -> Result<Batch, ReportError> {
    let kept = Kept::decode(entry).ok().and_then(|kept| kept.batch);
    let broken = || ReportError::file("read", Path::new("a batch"))(io::Error::other("it is not one"));
    kept.ok_or_else(broken)
}
