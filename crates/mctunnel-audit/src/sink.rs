//! Where records go: a file, standard output, a webhook, or a place of your own.

pub(crate) mod file;
pub(crate) mod stdout;
pub(crate) mod webhook;

use crate::chain::Head;
use bytes::Bytes;
use std::{fmt, io};

/// Some records, sealed, in order: whole lines, each with its line end.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The lines.
    pub lines: Bytes,
    /// How many.
    pub records: usize,
    /// The number of the first.
    pub first: u64,
    /// The place of the last.
    pub head: Head,
}

/// Takes records. Called from one thread, which may be blocked as long as the place needs; requests that find no more slots
/// meanwhile are refused.
///
/// Obligations: 1. after `Ok` of `write` the batch was taken, whole and once; 2. after an error the same batch is offered again,
/// and what of it was taken already is not taken twice.
pub trait Sink: Send + fmt::Debug {
    /// What it is, for messages: `file`, `webhook`.
    fn name(&self) -> &'static str;

    /// Takes a batch.
    fn write(&mut self, batch: &Batch) -> io::Result<()>;

    /// Makes what was taken durable, up to `head`.
    fn sync(&mut self, head: &Head) -> io::Result<()> {
        let _ = head;
        Ok(())
    }

    /// The end: nothing more comes. Whatever waits is to be delivered now, in a bounded time.
    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
