//! A queue of bytes that passes large buffers through and gathers small ones, so that neither a copy per large write nor a
//! buffer per small write is paid. Its caller bounds its length.

use alloc::collections::VecDeque;
use bytes::{Bytes, BytesMut};

/// Writes below this are copied into a shared tail: a slice of a few bytes must not keep a large buffer alive.
pub(crate) const SMALL: usize = 2048;
/// The tail is closed at this size.
const TAIL: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct ByteQueue {
    whole: VecDeque<Bytes>,
    tail: BytesMut,
    len: usize,
}

impl ByteQueue {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        self.len += bytes.len();
        if bytes.len() < SMALL {
            self.tail.extend_from_slice(&bytes);
            if self.tail.len() >= TAIL {
                self.close_tail();
            }
        } else {
            self.close_tail();
            self.whole.push_back(bytes);
        }
    }

    /// Takes up to `max` bytes that lie together; `None` when empty or `max` is 0.
    pub(crate) fn pop(&mut self, max: usize) -> Option<Bytes> {
        if self.len == 0 || max == 0 {
            return None;
        }
        let bytes = match self.whole.pop_front() {
            Some(mut front) if front.len() > max => {
                let bytes = front.split_to(max);
                self.whole.push_front(front);
                bytes
            }
            Some(front) => front,
            None if self.tail.len() <= max => core::mem::take(&mut self.tail).freeze(),
            None => self.tail.split_to(max).freeze(),
        };
        self.len -= bytes.len();
        if self.len == 0 {
            // An idle stream holds no memory.
            *self = Self::default();
        }
        Some(bytes)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.whole.push_back(core::mem::take(&mut self.tail).freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    #[test]
    fn order_is_kept_across_small_and_large() {
        let mut queue = ByteQueue::default();
        let mut sent = Vec::new();
        for (i, size) in [1, 5000, 10, 10, 3000, 2047, 2048, 17_000, 3].into_iter().enumerate() {
            let piece = vec![u8::try_from(i).unwrap(); size];
            sent.extend_from_slice(&piece);
            queue.push(piece.into());
        }
        assert_eq!(queue.len(), sent.len());
        let mut got = Vec::new();
        while let Some(bytes) = queue.pop(777) {
            got.extend_from_slice(&bytes);
        }
        assert_eq!(got, sent);
        assert!(queue.is_empty() && queue.pop(1).is_none());
    }

    #[test]
    fn single_bytes_cost_no_buffer_each() {
        let mut queue = ByteQueue::default();
        for _ in 0..TAIL {
            queue.push(Bytes::from_static(b"x"));
        }
        assert_eq!(queue.whole.len(), 1, "one buffer for {TAIL} writes");
    }
}
