//! Turns at asking the cluster: so many at once, and one for each source, so that nobody who asks a lot keeps the others out.

use mctunnel_core::source_of;
use parking_lot::Mutex;
use std::{collections::BTreeSet, net::IpAddr};

/// Who is asking. Those of whom nobody knows where they come from are one source.
#[derive(Debug)]
pub(super) struct Turns {
    asking: Mutex<BTreeSet<Option<IpAddr>>>,
    most: usize,
}

impl Turns {
    pub(super) fn new(most: usize) -> Self {
        Self { asking: Mutex::default(), most }
    }

    /// A turn, unless there is none left or the source has one already.
    pub(super) fn take(&self, source: Option<IpAddr>) -> Option<Turn<'_>> {
        let source = source.map(source_of);
        let mut asking = self.asking.lock();
        // A turn that is not given must not be made: it would give back another's.
        (asking.len() < self.most && asking.insert(source)).then(|| Turn { turns: self, source })
    }
}

/// A turn, given back when dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    source: Option<IpAddr>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.asking.lock().remove(&self.source);
    }
}
