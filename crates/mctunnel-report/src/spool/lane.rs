//! One lane: numbers records, keeps them in segments, and forgets what the hub has. It waits for nobody and knows no threads.

#[cfg(test)]
mod tests;

use super::marks::{Marks, MarksFile};
use crate::{
    Batch, Record, ReportError,
    segments::{Found, Segments},
};
use bytes::Bytes;
use prost::Message;
use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::Arc,
};

/// How a lane behaves.
#[derive(Debug, Clone)]
pub struct LaneConfig {
    /// The most bytes of its segments, at least 64 KiB; default 256 MiB. An entry more may be there for a moment.
    pub limit: u64,
    /// What happens at the limit.
    pub at_limit: AtLimit,
}

impl Default for LaneConfig {
    fn default() -> Self {
        Self { limit: 256 << 20, at_limit: AtLimit::Block }
    }
}

/// What happens when a lane is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtLimit {
    /// Its sources wait until the hub has taken some.
    Block,
    /// The oldest records go. Their numbers are missing at the hub, which counts them.
    DropOldest,
}

/// What an entry of a lane holds: a batch as it is sent, and how far each source of it is, in one piece.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Kept {
    #[prost(message, tag = "1")]
    pub(crate) batch: Option<Batch>,
    #[prost(message, repeated, tag = "2")]
    checkpoints: Vec<CheckpointText>,
}

/// What a segment continues.
#[derive(Clone, PartialEq, Message)]
struct Head {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(message, repeated, tag = "2")]
    checkpoints: Vec<CheckpointText>,
}

#[derive(Clone, PartialEq, Message)]
struct CheckpointText {
    #[prost(string, tag = "1")]
    source: String,
    /// Nothing, when the source is forgotten.
    #[prost(bytes = "bytes", tag = "2")]
    token: Bytes,
}

/// How far sources are: what each said with its last records. A source whose token is empty is forgotten.
pub(crate) type Checkpoints = BTreeMap<Arc<str>, Bytes>;

/// The most sources of a lane with a checkpoint.
pub const MOST_CHECKPOINTS: usize = 4096;

/// The least limit.
const LEAST_LIMIT: u64 = 64 << 10;
/// A segment is this part of the limit.
const SEGMENTS: u64 = 8;
/// But not more.
const MOST_SEGMENT: u64 = 16 << 20;

/// What others may know of a lane.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    /// The segments, oldest first, each with its first number. Never empty.
    pub(crate) starts: Arc<[Start]>,
    /// Everything below this number is on disk.
    pub(crate) synced: u64,
    pub(crate) wanted: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
}

impl Progress {
    pub(crate) fn oldest(&self) -> u64 {
        self.starts.first().map_or(self.synced, |start| start.first)
    }
}

/// A segment and the number of its first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) segment: u64,
    pub(crate) first: u64,
}

#[derive(Debug)]
pub(crate) struct Lane {
    segments: Segments,
    starts: VecDeque<Start>,
    /// The number of the next record.
    next: u64,
    synced: u64,
    checkpoints: Checkpoints,
    /// What the hub wants next, as far as it said.
    wanted: u64,
    /// What was dropped before the hub had acknowledged it.
    dropped: u64,
    marks: MarksFile,
    limit: u64,
    at_limit: AtLimit,
}

impl Lane {
    pub(crate) fn open(dir: &Path, config: &LaneConfig) -> Result<Self, ReportError> {
        let (mut starts, mut checkpoints) = (VecDeque::new(), Checkpoints::new());
        let mut next = 1;
        let segments = Segments::open(
            dir,
            || Head { first: 1, checkpoints: Vec::new() }.encode_to_vec(),
            |place, found| match found {
                Found::Head(head) => {
                    let head = Head::decode(head).unwrap_or_default();
                    next = head.first.max(next);
                    starts.push_back(Start { segment: place.segment, first: next });
                    merge(&mut checkpoints, head.checkpoints);
                }
                Found::Entry(entry) => {
                    let Ok(Kept { batch: Some(batch), checkpoints: changed }) = Kept::decode(entry) else { return };
                    next = batch.next();
                    merge(&mut checkpoints, changed);
                }
            },
        )?;
        let marks = MarksFile::open(dir)?;
        let oldest = starts.front().map_or(next, |start| start.first);
        let Marks { wanted, dropped, gone } = marks.kept().unwrap_or(Marks { wanted: 1, dropped: 0, gone: oldest });
        let mut lane = Self {
            segments,
            starts,
            next,
            synced: next,
            checkpoints,
            wanted: wanted.min(next),
            // What went just before a crash is not counted yet.
            dropped: dropped.saturating_add(oldest.saturating_sub(gone.max(wanted))),
            marks,
            limit: config.limit.max(LEAST_LIMIT),
            at_limit: config.at_limit,
        };
        lane.keep_marks(false);
        Ok(lane)
    }

    /// Takes records that fit into one batch, with how far their sources are: both or neither will be there after a crash. `Err(Full)`
    /// when the lane is full and its sources are to wait. Nothing is on disk before [`Lane::sync`].
    pub(crate) fn append(&mut self, records: &[Record], checkpoints: &Checkpoints) -> Result<(), ReportError> {
        let changes = |is_new: bool| {
            let known = |source| self.checkpoints.contains_key(source) != is_new;
            checkpoints.iter().filter(move |(source, token)| token.is_empty() != is_new && known(*source)).count()
        };
        if self.checkpoints.len() + changes(true) > MOST_CHECKPOINTS + changes(false) {
            return Err(ReportError::TooManySources(self.checkpoints.len()));
        }
        let batch = Batch::pack(self.next, records);
        let next = batch.next();
        let checkpoints = texts(checkpoints);
        let entry = Kept { batch: Some(batch), checkpoints: checkpoints.clone() }.encode_to_vec();
        self.make_room(entry.len())?;
        self.segments.append(&entry)?;
        self.next = next;
        merge(&mut self.checkpoints, checkpoints);
        Ok(())
    }

    pub(crate) fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// How far a source is, if it said so.
    pub(crate) fn checkpoint(&self, source: &str) -> Option<&Bytes> {
        self.checkpoints.get(source)
    }

    /// Returns when everything that was taken is on disk.
    pub(crate) fn sync(&mut self) -> Result<(), ReportError> {
        self.segments.sync()?;
        self.synced = self.next;
        Ok(())
    }

    /// The hub has everything below this number: segments that have nothing else go.
    pub(crate) fn forget_below(&mut self, number: u64) -> Result<(), ReportError> {
        self.wanted = self.wanted.max(number.min(self.synced));
        let has_all = |lane: &Self| lane.starts.get(1).is_some_and(|second| second.first <= lane.wanted);
        // Before anything goes, lest it be taken for dropped.
        self.keep_marks(has_all(self));
        while has_all(self) {
            self.forget_oldest()?;
        }
        Ok(())
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            starts: self.starts.iter().copied().collect(),
            synced: self.synced,
            wanted: self.wanted,
            bytes: self.segments.bytes(),
            dropped: self.dropped,
        }
    }

    /// What a crash may leave.
    #[cfg(test)]
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    #[cfg(test)]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Begins a new segment if the entry does not fit into this one, and lets the oldest go if there are too many.
    fn make_room(&mut self, entry: usize) -> Result<(), ReportError> {
        let entry = u64::try_from(entry).unwrap_or(u64::MAX);
        let is_new = |lane: &Self| lane.starts.back().is_some_and(|active| active.first == lane.next);
        if self.segments.active().len + entry > (self.limit / SEGMENTS).min(MOST_SEGMENT) && !is_new(self) {
            self.roll()?;
        }
        while self.segments.bytes() + entry > self.limit {
            if self.starts.len() == 1 {
                if is_new(self) {
                    // One entry that is larger than the limit: it is the only one.
                    return Ok(());
                }
                if self.wanted < self.next && self.at_limit == AtLimit::Block {
                    return Err(ReportError::Full);
                }
                self.roll()?;
            }
            let (oldest, second) = (self.starts.front().copied(), self.starts.get(1).copied());
            let (Some(oldest), Some(second)) = (oldest, second) else { return Ok(()) };
            if second.first > self.wanted && self.at_limit == AtLimit::Block {
                return Err(ReportError::Full);
            }
            self.forget_oldest()?;
            let dropped = second.first.saturating_sub(oldest.first.max(self.wanted));
            if dropped > 0 {
                self.dropped += dropped;
                self.keep_marks(true);
            }
        }
        Ok(())
    }

    /// Keeps what is to be known after a restart.
    fn keep_marks(&mut self, surely: bool) {
        let gone = self.starts.front().map_or(self.next, |start| start.first);
        self.marks.keep(Marks { wanted: self.wanted, dropped: self.dropped, gone }, surely);
    }

    fn roll(&mut self) -> Result<(), ReportError> {
        let head = Head { first: self.next, checkpoints: texts(&self.checkpoints) };
        self.segments.roll(&head.encode_to_vec())?;
        self.starts.push_back(Start { segment: self.segments.active().id, first: self.next });
        Ok(())
    }

    fn forget_oldest(&mut self) -> Result<(), ReportError> {
        self.segments.forget_oldest()?;
        self.starts.pop_front();
        Ok(())
    }
}

fn texts(checkpoints: &Checkpoints) -> Vec<CheckpointText> {
    let text =
        |(source, token): (&Arc<str>, &Bytes)| CheckpointText { source: source.to_string(), token: token.clone() };
    checkpoints.iter().map(text).collect()
}

fn merge(into: &mut Checkpoints, changed: Vec<CheckpointText>) {
    for CheckpointText { source, token } in changed {
        match token.is_empty() {
            true => into.remove(source.as_str()),
            false => into.insert(source.into(), token),
        };
    }
}
