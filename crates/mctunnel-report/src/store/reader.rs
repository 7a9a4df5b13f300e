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
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

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
        while let Some(stored) = self.next_entry()? {
            let found = select(&self.query, stored);
            if !found.is_empty() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Goes on to where there are no more now, and gives the last record of each cluster on the way.
    pub fn last_of_each(&mut self) -> Result<Vec<StoredRecord>, ReportError> {
        // Only the last ones are unpacked.
        let mut last = BTreeMap::new();
        while let Some(stored) = self.next_entry()? {
            last.insert(stored.cluster.clone(), stored);
        }
        Ok(last.into_values().filter_map(|stored| select(&self.query, stored).pop()).collect())
    }

    /// The next batch, of whichever cluster.
    fn next_entry(&mut self) -> Result<Option<Stored>, ReportError> {
        loop {
            let newer = self.newer_segment();
            let Some(reader) = &mut self.segment else {
                let Some(id) = newer else { return Ok(None) };
                self.segment = Some(self.open(id)?);
                continue;
            };
            match reader.next()? {
                Some((_, entry)) => {
                    if let Ok(stored) = Stored::decode(entry) {
                        return Ok(Some(stored));
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

/// The records of a batch that are asked for.
fn select(query: &Query, stored: Stored) -> Vec<StoredRecord> {
    let Stored { cluster, batch: Some(batch), position, received, .. } = stored else { return Vec::new() };
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
