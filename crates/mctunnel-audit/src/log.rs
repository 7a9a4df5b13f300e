//! The record as the rest of the program sees it.

use crate::{
    AuditConfig, AuditError, AuditStatus,
    chain::Head,
    pending::{Entry, Pending, Taken},
    record::{self, Fact},
    recover::Recovered,
    sink::{Sink, file::Files, stdout::Stdout, webhook::Webhook},
    slot::{NoSlot, Slot},
    slots::Slots,
    writer::{GaveUp, Patience, Writer},
};
use mctunnel_core::{Audit, AuditFull, AuditSlot};
use parking_lot::Mutex;
use std::{
    net::IpAddr,
    sync::{Arc, atomic::AtomicU64},
    thread::{self, JoinHandle},
    time::SystemTime,
};

/// The most bytes written at once.
const BATCH_BYTES: usize = 1 << 20;

/// Keeps the record. Dropping it closes it.
#[derive(Debug)]
pub struct AuditLog {
    pending: Arc<Pending>,
    writer: Mutex<Option<JoinHandle<Result<(), GaveUp>>>>,
}

impl AuditLog {
    /// Opens the record and goes on where it ended, however it ended.
    pub fn open(config: AuditConfig) -> Result<Self, AuditError> {
        let AuditConfig { slots, slots_per_source, on_full, file, stdout, webhook, sinks: own, .. } = config;
        let AuditConfig { sync_every, retry_every, close_within, .. } = config;
        let left_out = Arc::new(AtomicU64::new(0));
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        let (mut files, mut recovered): (Option<Files>, Option<Recovered>) = (None, None);
        let mut batch_bytes = BATCH_BYTES;
        if let Some(file) = file {
            batch_bytes = batch_bytes.min(usize::try_from(file.rotate_bytes).unwrap_or(usize::MAX));
            let (opened, found) = Files::open(&file)?;
            (files, recovered) = (Some(opened), Some(found));
        }
        if stdout {
            sinks.push(Box::new(Stdout::default()));
        }
        if let Some(webhook) = webhook {
            sinks.push(Box::new(Webhook::start(webhook, close_within, Arc::clone(&left_out))?));
        }
        sinks.extend(own);
        if files.is_none() && sinks.is_empty() {
            return Err(AuditError::NoSink);
        }
        let pending = Arc::new(Pending::new(Slots::new(slots, slots_per_source), on_full, left_out));
        let name = writer_name();
        Writer::opening(recovered.as_ref(), &name).into_iter().for_each(|entry| pending.push(entry));
        let writer = Writer {
            pending: Arc::clone(&pending),
            files,
            sinks,
            head: recovered.map_or(Head::START, |recovered| recovered.head),
            batch_bytes,
            name,
            sync_every,
            sync_by: None,
            patience: Patience { pending: Arc::clone(&pending), retry_every, close_within, closed: None },
        };
        let thread = thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run());
        let writer = Mutex::new(Some(thread.map_err(AuditError::Thread)?));
        Ok(Self { pending, writer })
    }

    /// How the record fares.
    #[must_use]
    pub fn status(&self) -> AuditStatus {
        self.pending.status()
    }

    /// Records something that is no request: what decides about them has changed. It takes a slot until it is written.
    pub fn note(&self, event: &'static str, facts: &[(&'static str, Fact<'_>)]) -> Result<(), AuditFull> {
        match self.pending.take_slot(None) {
            Taken::Slot(held) => {
                let members = record::of_log(SystemTime::now(), event, facts);
                self.pending.push(Entry { members, ends: Some(held) });
                Ok(())
            }
            // It was counted.
            Taken::Unrecorded => Ok(()),
            Taken::Refused => Err(AuditFull),
        }
    }

    /// Waits until all that was recorded before is written and durable. It blocks.
    pub fn flush(&self) {
        self.pending.flush();
    }

    /// Writes what is left and ends; slots that are still out are not recorded any more. It blocks, for as long as the record
    /// needs, or for `close_within` when it cannot be written. Closing twice is no error.
    pub fn close(&self) -> Result<(), AuditError> {
        self.pending.close();
        let Some(writer) = self.writer.lock().take() else { return Ok(()) };
        match writer.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(GaveUp { reason, records })) => Err(AuditError::Unwritten { records, reason }),
            Err(_) => Err(AuditError::Unwritten { records: 0, reason: "the writer panicked".to_owned() }),
        }
    }
}

/// Which process this is, among all that ever write the record.
fn writer_name() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), now.as_micros())
}

impl Audit for AuditLog {
    fn begin(&self) -> Result<Box<dyn AuditSlot>, AuditFull> {
        self.begin_from(None)
    }

    fn begin_from(&self, source: Option<IpAddr>) -> Result<Box<dyn AuditSlot>, AuditFull> {
        match self.pending.take_slot(source) {
            Taken::Slot(held) => Ok(Box::new(Slot::new(Arc::clone(&self.pending), held, source))),
            Taken::Unrecorded => Ok(Box::new(NoSlot)),
            Taken::Refused => Err(AuditFull),
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "The audit log was closed with records that are not in it.");
        }
    }
}
