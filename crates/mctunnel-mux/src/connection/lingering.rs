//! Streams we ended while the peer may still have frames under way for them. Such frames are dropped without complaint, until an
//! answered PING proves that the peer has seen the end. Anything later is a broken rule.

use crate::StreamId;
use alloc::collections::{BTreeSet, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Lingering {
    ids: BTreeSet<StreamId>,
    /// In the order of the PING that will clear them.
    fences: VecDeque<(u64, StreamId)>,
}

impl Lingering {
    /// Remembers the stream until the PING with this nonce, which is still to be sent, is answered.
    pub(super) fn remember(&mut self, id: StreamId, next_nonce: u64) {
        if self.ids.insert(id) {
            self.fences.push_back((next_nonce, id));
        }
    }

    pub(super) fn contains(&self, id: StreamId) -> bool {
        self.ids.contains(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The PING with this nonce was answered.
    pub(super) fn clear_up_to(&mut self, nonce: u64) {
        while let Some((_, id)) = self.fences.pop_front_if(|(fence, _)| *fence <= nonce) {
            self.ids.remove(&id);
        }
    }
}
