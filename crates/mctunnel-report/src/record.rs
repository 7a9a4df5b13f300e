//! One record: when, from where, and what. Its kind is that of the lane it is in.

use bytes::Bytes;
use std::sync::Arc;

/// The longest body, in bytes.
pub const MOST_BODY: usize = 256 << 10;
/// The longest name of a source, in bytes.
pub const MOST_SOURCE: usize = 512;

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When, in microseconds since 1970.
    pub time: i64,
    /// Where in the cluster it is from: `default/web-0/nginx`, `events`. Records of one source stay in order.
    pub source: Arc<str>,
    /// What it says. The crate does not look at it.
    pub body: Bytes,
}

impl Record {
    /// A record, if its source and body are within bounds.
    pub fn new(time: i64, source: impl Into<Arc<str>>, body: impl Into<Bytes>) -> Result<Self, OversizedRecord> {
        let record = Self { time, source: source.into(), body: body.into() };
        record.check().map(|()| record)
    }

    /// Whether source and body are within bounds. The fields are public, so whoever takes a record asks again.
    pub(crate) fn check(&self) -> Result<(), OversizedRecord> {
        if self.source.is_empty() || self.source.len() > MOST_SOURCE {
            return Err(OversizedRecord::Source(self.source.len()));
        }
        if self.body.len() > MOST_BODY {
            return Err(OversizedRecord::Body(self.body.len()));
        }
        Ok(())
    }
}

/// The record is too large, or has no source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OversizedRecord {
    /// The source.
    #[error("a record's source has 1 to {MOST_SOURCE} bytes, not {0}")]
    Source(usize),
    /// The body.
    #[error("a record's body has at most {MOST_BODY} bytes, not {0}")]
    Body(usize),
}
