//! What can be asked of the store: records of a kind, of one cluster or all, in a span of time, from a position on.

use super::index::{Index, Indexed};
use crate::{Kind, Record, ReportError, segments::SegmentReader, store::log::Stored};
use mctunnel_core::ClusterName;
use prost::Message as _;
use std::{io, path::Path};

/// Batches that are looked up at once.
const AT_ONCE: usize = 64;

/// A question.
#[derive(Debug, Clone)]
pub struct Query {
    /// Which kind.
    pub kind: Kind,
    /// Which cluster; all if none.
    pub cluster: Option<ClusterName>,
    /// Not before this time, in microseconds since 1970.
    pub since: i64,
    /// Not after this time.
    pub until: i64,
    /// Records at or behind this position alone: one more than that of the last that was seen.
    pub from: u64,
    /// At most so many records.
    pub limit: usize,
    /// No more once there are so many bytes of bodies; one record there always is.
    pub bytes: usize,
}

impl Query {
    /// Everything of a kind, at most 1,000 records.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { kind, cluster: None, since: i64::MIN, until: i64::MAX, from: 0, limit: 1000, bytes: usize::MAX }
    }
}

/// A record in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Whose.
    pub cluster: ClusterName,
    /// Its number in its lane.
    pub number: u64,
    /// Its position among all that were ever stored of the kind.
    pub position: u64,
    /// When the hub stored it, in seconds since 1970: by the hub's clock, whatever the time of the record says.
    pub received: u64,
    /// The record.
    pub record: Record,
}

impl Query {
    /// Some batches that may have what is asked for, from a position on.
    pub(crate) fn find(&self, index: &Index, from: u64) -> Vec<Indexed> {
        let wanted = |batch: &&Indexed| {
            self.cluster.as_ref().is_none_or(|cluster| *cluster == batch.cluster)
                && batch.latest >= self.since
                && batch.earliest <= self.until
        };
        let behind = index.batches.partition_point(|batch| batch.position + u64::from(batch.count) <= from);
        index.batches.iter().skip(behind).filter(wanted).take(AT_ONCE).cloned().collect()
    }

    /// Whether nothing more is to be found.
    pub(crate) fn is_answered(&self, found: &[StoredRecord]) -> bool {
        found.len() >= self.limit || bytes_of(found) >= self.bytes
    }

    /// Reads the records of batches; gives the position behind the last batch, if there was one.
    pub(crate) fn read(
        &self,
        dir: &Path,
        batches: &[Indexed],
        found: &mut Vec<StoredRecord>,
    ) -> Result<Option<u64>, ReportError> {
        for batch in batches {
            if self.is_answered(found) {
                break;
            }
            let reader = match SegmentReader::open(dir, batch.place.segment) {
                Ok(reader) => reader,
                // It was forgotten since.
                Err(ReportError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            self.read_one(reader.at(batch.place.offset), batch, found)?;
        }
        Ok(batches.last().map(|batch| batch.position + u64::from(batch.count)))
    }

    fn read_one(
        &self,
        mut reader: SegmentReader,
        batch: &Indexed,
        found: &mut Vec<StoredRecord>,
    ) -> Result<(), ReportError> {
        let Some((_, entry)) = reader.next()? else { return Ok(()) };
        let Ok(Stored { batch: Some(stored), received, .. }) = Stored::decode(entry) else { return Ok(()) };
        let Ok(records) = stored.unpack() else { return Ok(()) };
        let mut bytes = bytes_of(found);
        for (offset, record) in (0..).zip(records) {
            let position = batch.position + offset;
            let in_time = (self.since..=self.until).contains(&record.time);
            if position >= self.from && in_time && found.len() < self.limit && bytes < self.bytes {
                bytes += record.body.len();
                let cluster = batch.cluster.clone();
                found.push(StoredRecord { cluster, number: stored.first + offset, position, received, record });
            }
        }
        Ok(())
    }
}

fn bytes_of(found: &[StoredRecord]) -> usize {
    found.iter().map(|found| found.record.body.len()).sum()
}
