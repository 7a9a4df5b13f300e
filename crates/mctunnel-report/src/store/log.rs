//! The log of one kind: stores each number of a lane at most once. The marks of the lanes are in the log itself, in the head of each
//! segment and then in each entry, so that no crash can part them from the records. It waits for nobody and knows no threads.

#[cfg(test)]
mod tests;

use super::{
    Retention,
    index::{Index, Indexed, LaneKey, Mark, forget_lanes},
};
use crate::{
    Batch, ReportError, SpoolId,
    segments::{Found, Place, Segments},
};
use bytes::Bytes;
use mctunnel_core::ClusterName;
use prost::Message;
use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

const LEAST_BYTES: u64 = 1 << 20;
/// A segment is this part of the size and of the age that is kept.
const SEGMENTS: u64 = 8;
const MOST_SEGMENT: u64 = 64 << 20;

/// A batch as it is stored.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Stored {
    #[prost(string, tag = "1")]
    pub(crate) cluster: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) spool: Bytes,
    #[prost(message, tag = "3")]
    pub(crate) batch: Option<Batch>,
    /// When it came, in seconds since 1970.
    #[prost(uint64, tag = "4")]
    pub(crate) received: u64,
    /// The position of its first record.
    #[prost(uint64, tag = "5")]
    pub(crate) position: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Head {
    #[prost(uint64, tag = "1")]
    position: u64,
    #[prost(message, repeated, tag = "2")]
    lanes: Vec<LaneMark>,
    /// When the segment was begun, in seconds since 1970.
    #[prost(uint64, tag = "3")]
    begun: u64,
}

#[derive(Clone, PartialEq, Message)]
struct LaneMark {
    #[prost(string, tag = "1")]
    cluster: String,
    #[prost(bytes = "bytes", tag = "2")]
    spool: Bytes,
    #[prost(uint64, tag = "3")]
    next: u64,
    #[prost(uint64, tag = "4")]
    stored: u64,
    #[prost(uint64, tag = "5")]
    missing: u64,
    #[prost(uint64, tag = "6")]
    used: u64,
}

impl Stored {
    pub(crate) fn new(cluster: &ClusterName, spool: SpoolId, batch: Batch) -> Self {
        Self {
            cluster: cluster.to_string(),
            spool: spool.0.to_vec().into(),
            batch: Some(batch),
            received: now(),
            position: 0,
        }
    }

    pub(super) fn key(&self) -> Option<LaneKey> {
        lane_key(&self.cluster, &self.spool)
    }
}

/// The log.
#[derive(Debug)]
pub(crate) struct KindLog {
    segments: Segments,
    lanes: BTreeMap<LaneKey, Mark>,
    position: u64,
    /// Segments, oldest first, with when each was begun and when its last batch came.
    spans: VecDeque<Span>,
    retention: Retention,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    segment: u64,
    begun: u64,
    last: u64,
    /// Whether it has records.
    filled: bool,
}

impl Span {
    fn new(segment: u64, begun: u64) -> Self {
        Self { segment, begun, last: begun, filled: false }
    }

    fn fill(&mut self, now: u64) {
        (self.last, self.filled) = (now, true);
    }
}

impl KindLog {
    /// Opens the log in a directory, which is made if it is not there.
    pub(crate) fn open(dir: &Path, retention: Retention) -> Result<(Self, Index), ReportError> {
        let mut index = Index::default();
        let (mut position, mut spans) = (0, VecDeque::new());
        let segments = Segments::open(
            dir,
            || Head { position: 0, lanes: Vec::new(), begun: now() }.encode_to_vec(),
            |place, found| match found {
                Found::Head(head) => {
                    let head = Head::decode(head).unwrap_or_default();
                    position = position.max(head.position);
                    // The first head says what came before; later ones repeat what was read.
                    for lane in head.lanes {
                        if let Some(key) = lane_key(&lane.cluster, &lane.spool) {
                            let LaneMark { next, stored, missing, used, .. } = lane;
                            index.lanes.insert(key, Mark { next, stored, missing, used });
                        }
                    }
                    spans.push_back(Span::new(place.segment, head.begun));
                }
                Found::Entry(entry) => {
                    let Ok(stored) = Stored::decode(entry) else { return };
                    let (Some(key), Some(batch)) = (stored.key(), &stored.batch) else { return };
                    index.lanes.entry(key.clone()).or_default().advance(batch.first, batch.next(), stored.received);
                    position = stored.position + u64::from(batch.count);
                    if let Some(span) = spans.back_mut() {
                        span.fill(stored.received);
                    }
                    index.batches.push_back(indexed(key.cluster, place, stored.position, batch));
                }
            },
        )?;
        let lanes = index.lanes.clone();
        Ok((Self { segments, lanes, position, spans, retention }, index))
    }

    /// Appends what of a batch is not there yet. It is not on disk before [`KindLog::sync`]. Gives what is to be indexed then, and the
    /// number that is wanted next. `follows` is the number up to which whoever sent it has sent before: if that is not there, a batch
    /// before this one failed, and what is missing is not missing for good.
    pub(crate) fn append(&mut self, mut stored: Stored, follows: u64) -> Result<(Option<Change>, u64), ReportError> {
        let (Some(key), Some(batch)) = (stored.key(), stored.batch.take()) else { return Err(ReportError::Ended) };
        let mark = self.lanes.get(&key).copied().unwrap_or_default();
        if mark.next < follows {
            return Err(ReportError::Interrupted);
        }
        // It was checked when it came.
        let Ok(Some(batch)) = batch.at_or_above(mark.next) else { return Ok((None, mark.next)) };
        self.roll_if_due(stored.received)?;
        stored.position = self.position;
        stored.batch = Some(batch.clone());
        let place = self.segments.append(&stored.encode_to_vec())?;
        self.position += u64::from(batch.count);
        let mut mark = mark;
        mark.advance(batch.first, batch.next(), stored.received);
        self.lanes.insert(key.clone(), mark);
        let forgotten = forget_lanes(&mut self.lanes, &key.cluster);
        if let Some(span) = self.spans.back_mut() {
            span.fill(stored.received);
        }
        let added = indexed(key.cluster.clone(), place, stored.position, &batch);
        Ok((Some(Change { key, mark, forgotten, added }), mark.next))
    }

    pub(super) fn lanes(&self) -> &BTreeMap<LaneKey, Mark> {
        &self.lanes
    }

    /// Returns when everything that was appended is on disk.
    pub(crate) fn sync(&mut self) -> Result<(), ReportError> {
        self.segments.sync()
    }

    pub(crate) fn is_over_size(&self) -> bool {
        self.spans.len() > 1 && self.segments.bytes() > self.retention.bytes.max(LEAST_BYTES)
    }

    /// Lets segments go that are too old or too many; gives the last that went.
    pub(crate) fn retain(&mut self, now: u64) -> Result<Option<u64>, ReportError> {
        let most = self.retention.bytes.max(LEAST_BYTES);
        let mut gone = None;
        while let Some(oldest) = self.spans.front().copied() {
            let too_old = oldest.last.saturating_add(self.retention.age.as_secs()) < now;
            let is_last = self.spans.len() == 1;
            if !too_old && (is_last || self.segments.bytes() <= most) {
                break;
            }
            // Of a kind of which nothing comes any more, the segment that is written goes too.
            if is_last {
                if !oldest.filled {
                    break;
                }
                self.roll(now)?;
            }
            self.segments.forget_oldest()?;
            self.spans.pop_front();
            gone = Some(oldest.segment);
        }
        Ok(gone)
    }

    /// What a crash may leave.
    #[cfg(test)]
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    fn roll_if_due(&mut self, now: u64) -> Result<(), ReportError> {
        let most = (self.retention.bytes.max(LEAST_BYTES) / SEGMENTS).min(MOST_SEGMENT);
        let long_ago = |span: &Span| now.saturating_sub(span.begun) > (self.retention.age.as_secs() / SEGMENTS).max(1);
        if self.segments.active().len < most && !self.spans.back().is_some_and(long_ago) {
            return Ok(());
        }
        self.roll(now)
    }

    fn roll(&mut self, now: u64) -> Result<(), ReportError> {
        let lanes = self.lanes.iter().map(|(key, mark)| LaneMark {
            cluster: key.cluster.to_string(),
            spool: key.spool.0.to_vec().into(),
            next: mark.next,
            stored: mark.stored,
            missing: mark.missing,
            used: mark.used,
        });
        let head = Head { position: self.position, lanes: lanes.collect(), begun: now };
        self.segments.roll(&head.encode_to_vec())?;
        self.spans.push_back(Span::new(self.segments.active().id, now));
        Ok(())
    }
}

/// What a batch changes in the index once it is on disk.
#[derive(Debug)]
pub(crate) struct Change {
    key: LaneKey,
    mark: Mark,
    forgotten: Vec<LaneKey>,
    added: Indexed,
}

impl Change {
    pub(crate) fn apply(self, index: &mut Index) {
        index.lanes.insert(self.key, self.mark);
        for key in &self.forgotten {
            index.lanes.remove(key);
        }
        index.batches.push_back(self.added);
    }
}

fn indexed(cluster: ClusterName, place: Place, position: u64, batch: &Batch) -> Indexed {
    let Batch { count, earliest, latest, .. } = *batch;
    Indexed { cluster, place, position, count, earliest, latest }
}

fn lane_key(cluster: &str, spool: &[u8]) -> Option<LaneKey> {
    Some(LaneKey { cluster: ClusterName::parse(cluster).ok()?, spool: SpoolId(spool.try_into().ok()?) })
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
