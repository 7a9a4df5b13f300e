//! The one thread that numbers, chains and writes. The order of records in every place is the order in which it took them.

use crate::{
    chain::{Head, seal},
    json::Members,
    pending::{Entry, Pending, Work},
    record::{self, Fact},
    recover::{Lost, Recovered},
    sink::{Batch, Sink},
};
use std::{
    io,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// Owns the places where records go.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) pending: Arc<Pending>,
    pub(crate) sinks: Vec<Box<dyn Sink>>,
    pub(crate) head: Head,
    /// The most bytes written at once.
    pub(crate) batch_bytes: usize,
    pub(crate) sync_every: Duration,
    pub(crate) retry_every: Duration,
    pub(crate) close_within: Duration,
    /// When what was written has to be durable; `None` when all is.
    pub(crate) sync_by: Option<Instant>,
    /// Since when it is closed.
    pub(crate) closed: Option<Instant>,
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
            let Work { entries, dropped, flush, is_closed } = self.pending.take_work(self.sync_by);
            if dropped > 0 {
                self.write_own("dropped", &[("count", Fact::Number(dropped))])?;
            }
            self.write(entries)?;
            if is_closed {
                self.write_own("stop", &[])?;
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
    pub(crate) fn opening(recovered: Option<&Recovered>) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut add = |event, facts: &[(&'static str, Fact<'_>)]| {
            let members = record::of_log(SystemTime::now(), event, facts);
            entries.push(Entry { members, ends_slot: false });
        };
        if let Some(torn) = recovered.and_then(|recovered| recovered.torn) {
            add(TORN, &[("bytes", Fact::Number(torn.bytes)), ("sha256", Fact::Text(torn.sha256.as_str()))]);
        }
        if let Some(Lost { found, known }) = recovered.and_then(|recovered| recovered.lost) {
            add("lost", &[("found", Fact::Text(&found.to_string())), ("known", Fact::Text(&known.to_string()))]);
        }
        add("start", &[("version", Fact::Text(env!("CARGO_PKG_VERSION")))]);
        entries
    }

    fn write_own(&mut self, event: &'static str, facts: &[(&'static str, Fact<'_>)]) -> Result<(), GaveUp> {
        let members = record::of_log(SystemTime::now(), event, facts);
        self.write(vec![Entry { members, ends_slot: false }])
    }

    pub(crate) fn write(&mut self, entries: Vec<Entry>) -> Result<(), GaveUp> {
        let mut left = entries.len();
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            let (batch, slots) = self.seal(&mut entries);
            let outcome = self.for_each_sink(|sink| sink.write(&batch));
            outcome.map_err(|reason| GaveUp { reason, records: left })?;
            left -= batch.records;
            self.pending.wrote(batch.records, slots);
            self.sync_by.get_or_insert_with(|| Instant::now() + self.sync_every);
        }
        Ok(())
    }

    /// Numbers and chains records until the batch is full.
    fn seal(&mut self, entries: &mut std::iter::Peekable<impl Iterator<Item = Entry>>) -> (Batch, usize) {
        let (mut lines, mut slots) = (Vec::with_capacity(self.batch_bytes.min(64 << 10)), 0);
        let first = self.head.seq + 1;
        let fits = |lines: &Vec<u8>, members: &Members| {
            lines.is_empty() || lines.len() + members.as_str().len() + SEAL_BYTES <= self.batch_bytes
        };
        while let Some(entry) = entries.next_if(|entry| fits(&lines, &entry.members)) {
            seal(&mut lines, &mut self.head, entry.members.as_str());
            slots += usize::from(entry.ends_slot);
        }
        let records = usize::try_from(self.head.seq + 1 - first).unwrap_or(usize::MAX);
        (Batch { lines: lines.into(), records, first, head: self.head }, slots)
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
        for sink in &mut self.sinks {
            if let Err(error) = sink.close() {
                outcome = Err(GaveUp { reason: format!("{}: {error}", sink.name()), records: 0 });
            }
        }
        outcome
    }

    /// Does it with each place, again and again until it works; no slots are given meanwhile.
    fn for_each_sink(&mut self, mut deed: impl FnMut(&mut dyn Sink) -> io::Result<()>) -> Result<(), String> {
        for sink in &mut self.sinks {
            let mut has_failed = false;
            while let Err(error) = deed(&mut **sink) {
                let reason = format!("{}: {error}", sink.name());
                if !has_failed {
                    tracing::error!(
                        reason,
                        "The audit log cannot be written; requests that must be recorded are refused."
                    );
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

/// The event of a record behind bytes that are no record.
pub(crate) const TORN: &str = "torn";

/// What sealing adds to a record at most.
const SEAL_BYTES: usize = 256;
