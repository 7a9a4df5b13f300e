//! The one thread that numbers, chains and writes. The order of records in every place is the order in which it took them.

use crate::{
    chain::{Head, seal},
    json::Members,
    pending::{Entry, Pending, Work},
    record::{self, Fact},
    recover::{Lost, Recovered},
    sink::{Batch, Sink, file::Files},
    slots::Held,
    strangers::LeftOut,
};
use std::{
    collections::VecDeque,
    io,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// Owns the places where records go.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) pending: Arc<Pending>,
    /// The first of the places, if it is one: others may write there as well, so it says where the record ends.
    pub(crate) files: Option<Files>,
    pub(crate) sinks: Vec<Box<dyn Sink>>,
    pub(crate) head: Head,
    /// What `start` and `stop` of this writer have in common.
    pub(crate) name: String,
    /// The most bytes written at once.
    pub(crate) batch_bytes: usize,
    pub(crate) sync_every: Duration,
    /// When what was written has to be durable; `None` when all is.
    pub(crate) sync_by: Option<Instant>,
    pub(crate) patience: Patience,
}

/// It was closed, and what fails did not work within the time for that.
#[derive(Debug)]
pub(crate) struct GaveUp {
    /// What was in the way.
    pub(crate) reason: String,
    /// How many records were not written.
    pub(crate) records: usize,
}

impl Writer {
    /// Writes until it is closed and nothing is left.
    pub(crate) fn run(mut self) -> Result<(), GaveUp> {
        // Also when a sink of somebody's own panics: without a writer no slot is given.
        let over = Over(Arc::clone(&self.pending));
        let ended = self.write_all();
        let left = over.0.over();
        ended.map_err(|gave_up| GaveUp { records: gave_up.records + left, ..gave_up })
    }

    fn write_all(&mut self) -> Result<(), GaveUp> {
        loop {
            let Work { entries, dropped, left_out, flush, is_closed } = self.pending.take_work(self.sync_by);
            if dropped > 0 {
                self.write_own("dropped", &[("count", Fact::Number(dropped))])?;
            }
            self.write(entries)?;
            if let Some(left_out) = left_out {
                self.write_left_out(left_out)?;
            }
            if is_closed {
                let name = self.name.clone();
                self.write_own("stop", &[("writer", Fact::Text(&name))])?;
            }
            if flush.is_some() || is_closed || self.sync_by.is_some_and(|by| Instant::now() >= by) {
                self.sync()?;
            }
            if let Some(flush) = flush {
                self.pending.flushed(flush);
            }
            if is_closed {
                return self.close();
            }
        }
    }

    /// The records about how the log was found, and that it is written again.
    pub(crate) fn opening(recovered: Option<&Recovered>, name: &str) -> Vec<Entry> {
        let mut entries = recovered.map(Self::found).unwrap_or_default();
        let facts = [("version", Fact::Text(env!("CARGO_PKG_VERSION"))), ("writer", Fact::Text(name))];
        let members = record::of_log(SystemTime::now(), "start", &facts);
        entries.push(Entry { members, ends: None });
        entries
    }

    /// The records about what somebody before left.
    fn found(recovered: &Recovered) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut add = |event, facts: &[(&'static str, Fact<'_>)]| {
            let members = record::of_log(SystemTime::now(), event, facts);
            entries.push(Entry { members, ends: None });
        };
        if let Some(torn) = recovered.torn {
            add(TORN, &[("bytes", Fact::Number(torn.bytes)), ("sha256", Fact::Text(torn.sha256.as_str()))]);
        }
        if let Some(Lost { found, known }) = recovered.lost {
            add("lost", &[("found", Fact::Text(&found.to_string())), ("known", Fact::Text(&known.to_string()))]);
        }
        entries
    }

    fn write_own(&mut self, event: &'static str, facts: &[(&'static str, Fact<'_>)]) -> Result<(), GaveUp> {
        let members = record::of_log(SystemTime::now(), event, facts);
        self.write(vec![Entry { members, ends: None }])
    }

    fn write_left_out(&mut self, LeftOut { count, sources, most }: LeftOut) -> Result<(), GaveUp> {
        let mut facts = vec![("left_out", Fact::Number(count)), ("sources", Fact::Number(sources as u64))];
        let source = most.map(|(source, _)| source.to_string());
        if let (Some(source), Some((_, count))) = (&source, most) {
            facts.extend([("source", Fact::Text(source)), ("from_source", Fact::Number(count))]);
        }
        self.write_own(STRANGERS, &facts)
    }

    pub(crate) fn write(&mut self, entries: Vec<Entry>) -> Result<(), GaveUp> {
        let mut left = entries.len();
        let mut entries = VecDeque::from(entries);
        while !entries.is_empty() {
            let found = self.take_turn().map_err(|reason| GaveUp { reason, records: left })?;
            left += found.len();
            found.into_iter().rev().for_each(|entry| entries.push_front(entry));
            let (batch, ended) = self.seal(&mut entries);
            let outcome = self.for_each_sink(|sink| sink.write(&batch));
            outcome.map_err(|reason| GaveUp { reason, records: left })?;
            left -= batch.records;
            self.pending.wrote(batch.records, ended);
            self.pending.deleted(self.files.as_mut().map_or(0, Files::take_deleted));
            self.sync_by.get_or_insert_with(|| Instant::now() + self.sync_every);
        }
        Ok(())
    }

    /// From here until the batch is in the file nobody else writes there. Gives what has to be said first about how it was found.
    fn take_turn(&mut self) -> Result<Vec<Entry>, String> {
        let Some(files) = &mut self.files else { return Ok(Vec::new()) };
        let mut found = None;
        self.patience.insist(files, |files| {
            found = files.take_turn()?;
            Ok(())
        })?;
        let Some(recovered) = found else { return Ok(Vec::new()) };
        self.head = recovered.head;
        Ok(Self::found(&recovered))
    }

    /// Numbers and chains records until the batch is full.
    fn seal(&mut self, entries: &mut VecDeque<Entry>) -> (Batch, Vec<Held>) {
        let (mut lines, mut ended) = (Vec::with_capacity(self.batch_bytes.min(64 << 10)), Vec::new());
        let first = self.head.seq + 1;
        let fits = |lines: &Vec<u8>, members: &Members| {
            lines.is_empty() || lines.len() + members.as_str().len() + SEAL_BYTES <= self.batch_bytes
        };
        while let Some(entry) = entries.pop_front_if(|entry| fits(&lines, &entry.members)) {
            seal(&mut lines, &mut self.head, entry.members.as_str());
            ended.extend(entry.ends);
        }
        let records = usize::try_from(self.head.seq + 1 - first).unwrap_or(usize::MAX);
        (Batch { lines: lines.into(), records, first, head: self.head }, ended)
    }

    fn sync(&mut self) -> Result<(), GaveUp> {
        if self.sync_by.take().is_some() {
            let head = self.head;
            self.for_each_sink(|sink| sink.sync(&head)).map_err(|reason| GaveUp { reason, records: 0 })?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), GaveUp> {
        let mut outcome = Ok(());
        for sink in places(&mut self.files, &mut self.sinks) {
            if let Err(error) = sink.close() {
                outcome = Err(GaveUp { reason: format!("{}: {error}", sink.name()), records: 0 });
            }
        }
        outcome
    }

    /// Does it with each place.
    fn for_each_sink(&mut self, mut deed: impl FnMut(&mut dyn Sink) -> io::Result<()>) -> Result<(), String> {
        for sink in places(&mut self.files, &mut self.sinks) {
            self.patience.insist(sink, |sink| deed(sink))?;
        }
        Ok(())
    }
}

/// All places, the files first.
fn places<'a>(
    files: &'a mut Option<Files>,
    sinks: &'a mut [Box<dyn Sink>],
) -> impl Iterator<Item = &'a mut (dyn Sink + 'static)> {
    let files = files.iter_mut().map(|files| files as &mut dyn Sink);
    files.chain(sinks.iter_mut().map(|sink| &mut **sink))
}

/// With a place that fails.
#[derive(Debug)]
pub(crate) struct Patience {
    pub(crate) pending: Arc<Pending>,
    pub(crate) retry_every: Duration,
    pub(crate) close_within: Duration,
    /// Since when it is known that it is closed.
    pub(crate) closed: Option<Instant>,
}

impl Patience {
    /// Does it again and again until it works; no slots are given meanwhile.
    fn insist<S: Sink + ?Sized>(
        &mut self,
        sink: &mut S,
        mut deed: impl FnMut(&mut S) -> io::Result<()>,
    ) -> Result<(), String> {
        let mut has_failed = false;
        while let Err(error) = deed(sink) {
            let reason = format!("{}: {error}", sink.name());
            if !has_failed {
                tracing::error!(reason, "The audit log cannot be written; requests that must be recorded are refused.");
            }
            has_failed = true;
            self.pending.block(reason.clone());
            if self.pending.pause(self.retry_every) {
                let closed = *self.closed.get_or_insert_with(Instant::now);
                if closed.elapsed() >= self.close_within {
                    return Err(reason);
                }
                std::thread::sleep(self.retry_every.min(self.close_within));
            }
        }
        if has_failed {
            tracing::info!(sink = sink.name(), "The audit log can be written again.");
            self.pending.unblock();
        }
        Ok(())
    }
}

/// Ends the record when the writer has ended, however it ended.
#[derive(Debug)]
struct Over(Arc<Pending>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.over();
    }
}

/// The event of a record that stands for requests of strangers.
const STRANGERS: &str = "strangers";

/// The event of a record behind bytes that are no record.
pub(crate) const TORN: &str = "torn";

/// What sealing adds to a record at most.
const SEAL_BYTES: usize = 256;
