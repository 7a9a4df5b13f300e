//! Reads the store of a hub from another process, while the hub writes it: takes no lock, changes nothing, and can wait for more.

use super::{
    log::Stored,
    query::{Query, StoredRecord},
};
use crate::{
    Kind, ReportError,
    segments::{self, SegmentReader},
    spool,
};
use mctunnel_core::ClusterName;
use prost::Message as _;
use std::path::{Path, PathBuf};

/// A place in the store, of one kind.
#[derive(Debug)]
pub struct StoreReader {
    dir: PathBuf,
    query: Query,
    segment: Option<SegmentReader>,
}

impl StoreReader {
    /// Stands before the oldest record of a kind that the query asks for. Its limit does not count here.
    #[must_use]
    pub fn new(dir: &Path, query: Query) -> Self {
        Self { dir: dir.join(query.kind.as_str()), query, segment: None }
    }

    /// The kinds of which something was stored.
    pub fn kinds(dir: &Path) -> Result<Vec<Kind>, ReportError> {
        spool::kinds_in(dir)
    }

    /// The next records; `None` when there are no more now. Records that a crash of the hub takes back may be seen.
    pub fn next_records(&mut self) -> Result<Option<Vec<StoredRecord>>, ReportError> {
        loop {
            let newer = self.newer_segment();
            let Some(reader) = &mut self.segment else {
                let Some(id) = newer else { return Ok(None) };
                self.segment = Some(self.open(id)?);
                continue;
            };
            match reader.next()? {
                Some((_, entry)) => {
                    let found = select(&self.query, entry);
                    if !found.is_empty() {
                        return Ok(Some(found));
                    }
                }
                None => match newer {
                    // The newer one was looked for first: nothing was added here since, or it would have been found.
                    Some(id) => self.segment = Some(self.open(id)?),
                    None => return Ok(None),
                },
            }
        }
    }

    /// Stands behind the head of a segment.
    fn open(&self, id: u64) -> Result<SegmentReader, ReportError> {
        let mut reader = SegmentReader::open(&self.dir, id)?;
        reader.next()?;
        Ok(reader)
    }

    /// The segment behind the one that is read, or the oldest.
    fn newer_segment(&self) -> Option<u64> {
        let current = self.segment.as_ref().map_or(0, SegmentReader::segment);
        // A kind of which nothing was stored yet has no directory.
        segments::ids(&self.dir).unwrap_or_default().into_iter().find(|id| *id > current)
    }
}

/// The records of an entry that are asked for.
fn select(query: &Query, entry: &[u8]) -> Vec<StoredRecord> {
    let Ok(Stored { cluster, batch: Some(batch), position, received, .. }) = Stored::decode(entry) else {
        return Vec::new();
    };
    let Ok(cluster) = ClusterName::parse(&cluster) else { return Vec::new() };
    let other = query.cluster.as_ref().is_some_and(|wanted| *wanted != cluster);
    if other || batch.latest < query.since || batch.earliest > query.until {
        return Vec::new();
    }
    let records = batch.unpack().unwrap_or_default();
    let found = (0..).zip(records).map(|(offset, record)| StoredRecord {
        cluster: cluster.clone(),
        number: batch.first + offset,
        position: position + offset,
        received,
        record,
    });
    let wanted =
        |found: &StoredRecord| found.position >= query.from && (query.since..=query.until).contains(&found.record.time);
    found.filter(wanted).collect()
}
