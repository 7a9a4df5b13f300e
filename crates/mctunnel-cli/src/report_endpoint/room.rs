//! Room for what is posted: a body is not read before there is room for it and for the records that it may have. While a kind is full, its
//! clients wait with their bodies in their own memory; they leave room for other kinds.

use mctunnel::report::Kind;
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The KiB of all bodies that are in memory.
const MOST_KIB: u32 = 16 << 10;
/// Of one kind. The largest body with the most records takes no more.
const MOST_OF_A_KIND_KIB: u32 = MOST_KIB / 3;
/// The bytes that a record takes beside its body while it is handed on.
const RECORD: u64 = 128;

/// Room for bodies.
#[derive(Debug)]
pub(super) struct Room {
    all: Arc<Semaphore>,
    /// Of kinds for which somebody has room, or waits for it.
    of_kinds: Mutex<BTreeMap<Kind, Arc<Semaphore>>>,
}

/// Some of the room, until it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    _of_kind: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Room {
    pub(super) fn new() -> Self {
        Self { all: semaphore(MOST_KIB), of_kinds: Mutex::default() }
    }

    /// Waits until there is room for a body of so many bytes and records, at most. `None` never comes.
    pub(super) async fn hold(&self, kind: &Kind, bytes: u64, records: u64) -> Option<Held> {
        let kib = bytes.saturating_add(records.saturating_mul(RECORD)) / 1024 + 1;
        let kib = u32::try_from(kib).unwrap_or(u32::MAX).min(MOST_OF_A_KIND_KIB);
        let of_kind = self.of_kind(kind).acquire_many_owned(kib).await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_many_owned(kib).await.ok()?;
        Some(Held { _of_kind: of_kind, _of_all: of_all })
    }

    fn of_kind(&self, kind: &Kind) -> Arc<Semaphore> {
        let mut of_kinds = self.of_kinds.lock();
        // Those that nobody uses go: a client may name any number of kinds, one after the other.
        of_kinds.retain(|_, room| Arc::strong_count(room) > 1);
        Arc::clone(of_kinds.entry(kind.clone()).or_insert_with(|| semaphore(MOST_OF_A_KIND_KIB)))
    }
}

fn semaphore(kib: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(usize::try_from(kib).unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What there is room for without waiting.
    async fn now_or_never<T>(holding: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! {
            biased;
            held = holding => held,
            () = async {} => None,
        }
    }

    fn kind(name: &str) -> Kind {
        Kind::parse(name).unwrap()
    }

    #[tokio::test]
    async fn a_kind_that_waits_leaves_room_for_others_and_what_is_given_back_is_had_again() {
        let room = Room::new();
        let full = room.hold(&kind("a"), u64::MAX, u64::MAX).await.unwrap();
        assert!(now_or_never(room.hold(&kind("a"), 0, 0)).await.is_none(), "the kind has no more");
        let others = [room.hold(&kind("b"), 4 << 20, 10_000).await, room.hold(&kind("c"), 4 << 20, 10_000).await];
        assert!(others.iter().all(Option::is_some));
        assert!(now_or_never(room.hold(&kind("d"), 4 << 20, 0)).await.is_none(), "nor has anybody");
        assert!(now_or_never(room.hold(&kind("d"), 100, 1)).await.is_some(), "but for little");
        drop(full);
        assert!(now_or_never(room.hold(&kind("d"), 4 << 20, 0)).await.is_some());
        drop(others);
        let _ = room.hold(&kind("e"), 1, 1).await;
        assert_eq!(room.of_kinds.lock().len(), 1, "kinds of which nobody holds anything are forgotten");
    }
}
