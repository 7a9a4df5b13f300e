//! Records of one lane, packed once and then carried as they are: on the spool's disk, on the wire, on the hub's disk.

use crate::{
    Record,
    record::{MOST_BODY, MOST_SOURCE},
};
use bytes::{Buf, Bytes};
use prost::Message;
use std::sync::Arc;

/// The most records of a batch.
pub const MOST_RECORDS: usize = 4096;
/// The most bytes of a batch before compression.
pub const MOST_PLAIN: usize = 1 << 20;
/// What a batch is filled up to, where nothing keeps its records together: packing and unpacking it takes a tenth of a millisecond, which
/// is what others on the same processors wait for it.
pub(crate) const USUAL_PLAIN: usize = 128 << 10;
/// The most bytes of a batch as a message: what does not compress is kept plain.
pub const MOST_PACKED: usize = MOST_PLAIN + 128;

/// Below this, compression gains less than it costs.
const WORTH_COMPRESSING: usize = 256;
const LEVEL: i32 = 1;
const PLAIN: u32 = 0;
const ZSTD: u32 = 1;
/// What a record may take beside its source and its body.
const RECORD_HEAD: usize = 32;

/// A batch, as `report.proto` has it.
#[derive(Clone, PartialEq, Message)]
pub struct Batch {
    /// The number of its first record.
    #[prost(uint64, tag = "1")]
    pub first: u64,
    /// How many records.
    #[prost(uint32, tag = "2")]
    pub count: u32,
    #[prost(uint32, tag = "3")]
    codec: u32,
    #[prost(uint32, tag = "4")]
    plain_len: u32,
    /// The least time in it.
    #[prost(sint64, tag = "5")]
    pub earliest: i64,
    /// The greatest time in it.
    #[prost(sint64, tag = "6")]
    pub latest: i64,
    #[prost(bytes = "bytes", tag = "7")]
    records: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct RecordText {
    #[prost(sint64, tag = "1")]
    time: i64,
    #[prost(string, tag = "2")]
    source: String,
    #[prost(bytes = "bytes", tag = "3")]
    body: Bytes,
}

/// How much of a batch a record takes, at most.
pub(crate) fn room_for(record: &Record) -> usize {
    record.source.len() + record.body.len() + RECORD_HEAD
}

impl Batch {
    /// Packs records under the numbers from `first` on. There must be 1 to [`MOST_RECORDS`], and not more than [`MOST_PLAIN`] bytes.
    pub(crate) fn pack(first: u64, records: &[Record]) -> Self {
        let mut plain = Vec::with_capacity(records.iter().map(room_for).sum());
        for Record { time, source, body } in records {
            let text = RecordText { time: *time, source: source.as_ref().to_owned(), body: body.clone() };
            // Writing to a vector does not fail.
            let _ = text.encode_length_delimited(&mut plain);
        }
        let plain_len = u32::try_from(plain.len()).unwrap_or(u32::MAX);
        let packed = (plain.len() >= WORTH_COMPRESSING).then(|| zstd::bulk::compress(&plain, LEVEL).ok()).flatten();
        let (codec, records_bytes) = match packed.filter(|packed| packed.len() < plain.len()) {
            Some(packed) => (ZSTD, packed.into()),
            None => (PLAIN, plain.into()),
        };
        Self {
            first,
            count: u32::try_from(records.len()).unwrap_or(u32::MAX),
            codec,
            plain_len,
            earliest: records.iter().map(|record| record.time).min().unwrap_or_default(),
            latest: records.iter().map(|record| record.time).max().unwrap_or_default(),
            records: records_bytes,
        }
    }

    /// Its bytes before compression, as declared.
    pub(crate) fn plain_len(&self) -> u32 {
        self.plain_len
    }

    /// The number behind its last record.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.first.saturating_add(self.count.into())
    }

    /// Its records. Whoever made it is not trusted: everything that is declared is checked, and nothing larger is made room for.
    pub fn unpack(&self) -> Result<Vec<Record>, BadBatch> {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        let len = usize::try_from(self.plain_len).unwrap_or(usize::MAX);
        if self.first == 0 || self.first.checked_add(self.count.into()).is_none() {
            return Err(BadBatch("its numbers are none"));
        }
        if count == 0 || count > MOST_RECORDS || len > MOST_PLAIN {
            return Err(BadBatch("it is empty or too large"));
        }
        let plain: Bytes = match self.codec {
            PLAIN => self.records.clone(),
            ZSTD => zstd::bulk::decompress(&self.records, len).map_err(|_| BadBatch("it cannot be unpacked"))?.into(),
            _ => return Err(BadBatch("it is packed in a way that is not known")),
        };
        if plain.len() != len {
            return Err(BadBatch("its length is not the declared one"));
        }
        self.read(plain, count)
    }

    fn read(&self, mut plain: Bytes, count: usize) -> Result<Vec<Record>, BadBatch> {
        let mut records: Vec<Record> = Vec::with_capacity(count);
        while plain.has_remaining() {
            if records.len() == count {
                return Err(BadBatch("it has more records than declared"));
            }
            let text = RecordText::decode_length_delimited(&mut plain).map_err(|_| BadBatch("a record is broken"))?;
            if text.source.is_empty() || text.source.len() > MOST_SOURCE || text.body.len() > MOST_BODY {
                return Err(BadBatch("a record is too large, or has no source"));
            }
            // Neighbours are of one source as a rule; one text is enough for them.
            let source = match records.last() {
                Some(last) if *last.source == *text.source => Arc::clone(&last.source),
                _ => text.source.into(),
            };
            records.push(Record { time: text.time, source, body: text.body });
        }
        let times = || records.iter().map(|record| record.time);
        if records.len() != count {
            return Err(BadBatch("it has fewer records than declared"));
        }
        if times().min() != Some(self.earliest) || times().max() != Some(self.latest) {
            return Err(BadBatch("its times are not the declared ones"));
        }
        Ok(records)
    }

    /// What of it is at or above a number; `None` when nothing is.
    pub(crate) fn at_or_above(self, number: u64) -> Result<Option<Self>, BadBatch> {
        if self.first >= number {
            return Ok(Some(self));
        }
        let skipped = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        let records = self.unpack()?;
        Ok(records.get(skipped..).filter(|rest| !rest.is_empty()).map(|rest| Self::pack(number, rest)))
    }
}

/// A batch that no honest agent makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadBatch(&'static str);

#[cfg(test)]
mod tests {
    use super::*;

    fn records(count: usize) -> Vec<Record> {
        let body = |i: usize| format!("{{\"message\":\"line {i} of a log that repeats itself\"}}");
        (0..count).map(|i| Record::new(1_000 + i as i64, format!("source-{}", i % 4), body(i)).unwrap()).collect()
    }

    #[test]
    fn what_was_packed_is_what_is_unpacked_and_it_is_smaller() {
        for count in [1, 2, 500, MOST_RECORDS] {
            let records = records(count);
            let batch = Batch::pack(7, &records);
            assert_eq!(batch.unpack().unwrap(), records);
            assert_eq!(batch.next(), 7 + count as u64);
            let plain: usize = records.iter().map(|r| r.body.len()).sum();
            assert!(count < 500 || batch.encoded_len() * 4 < plain, "{} of {plain}", batch.encoded_len());
            assert_eq!(Batch::decode(batch.encode_to_vec().as_slice()).unwrap(), batch);
        }
    }

    #[test]
    fn what_does_not_compress_stays_within_the_bound() {
        let noise: Vec<u8> = (0..MOST_BODY).map(|_| rand::random()).collect();
        let record = Record::new(0, "s".repeat(MOST_SOURCE), noise).unwrap();
        let most = MOST_PLAIN / room_for(&record);
        let batch = Batch::pack(1, &vec![record; most]);
        assert!(batch.encoded_len() <= MOST_PACKED, "{}", batch.encoded_len());
        assert_eq!(batch.unpack().unwrap().len(), most);
    }

    #[test]
    fn t22_a_batch_that_lies_is_refused() {
        let good = Batch::pack(1, &records(100));
        type Lie = (&'static str, fn(&mut Batch));
        let lies: [Lie; 11] = [
            ("number 0", |b| b.first = 0),
            ("numbers that overflow", |b| b.first = u64::MAX - 5),
            ("no records", |b| b.count = 0),
            ("fewer than it has", |b| b.count -= 1),
            ("more than it has", |b| b.count += 1),
            ("a million records", |b| b.count = 1_000_000),
            ("a bomb", |b| b.records = zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap().into()),
            ("4 GiB", |b| b.plain_len = u32::MAX),
            ("another codec", |b| b.codec = 9),
            ("bytes cut off", |b| b.records.truncate(b.records.len() / 2)),
            ("another time", |b| b.latest += 1),
        ];
        for (lie, tell) in lies {
            let mut batch = good.clone();
            tell(&mut batch);
            assert!(batch.unpack().is_err(), "{lie}");
        }
        let long = RecordText { time: 0, source: "s".into(), body: vec![0; MOST_BODY + 1].into() };
        for text in [long, RecordText { time: 0, source: String::new(), body: Bytes::new() }] {
            let plain = text.encode_length_delimited_to_vec();
            let plain_len = u32::try_from(plain.len()).unwrap();
            let batch = Batch { first: 1, count: 1, plain_len, records: plain.into(), ..Batch::default() };
            assert!(batch.unpack().is_err());
        }
    }

    #[test]
    fn a_batch_is_cut_at_a_number() {
        let (all, batch) = (records(10), Batch::pack(5, &records(10)));
        for number in [1, 5] {
            assert_eq!(batch.clone().at_or_above(number).unwrap().unwrap(), batch);
        }
        let rest = batch.clone().at_or_above(12).unwrap().unwrap();
        assert_eq!((rest.first, rest.unpack().unwrap()), (12, all[7..].to_vec()));
        assert_eq!(batch.at_or_above(15).unwrap(), None);
    }
}
