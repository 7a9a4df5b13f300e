//! How long a client may take for the head of a request. There is a timer only while a head is due.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

/// Where a client that has nothing to read stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// No byte of the next head is here.
    NotBegun,
    /// Some bytes of it are.
    Partial,
    /// The head is whole; its body is being read.
    Behind,
}

#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    /// The first head is due from the beginning, every other from its first byte.
    first_is_due: bool,
    running: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, first_is_due: true, running: None }
    }

    /// A head is through: the next one is due once it begins.
    pub(super) fn passed(&mut self) {
        self.first_is_due = false;
        self.running = None;
    }

    /// Ready with the limit once it is over.
    pub(super) fn poll(&mut self, head: Head, cx: &mut Context<'_>) -> Poll<Duration> {
        let due = head == Head::Partial || head == Head::NotBegun && self.first_is_due;
        if !due {
            self.running = None;
            return Poll::Pending;
        }
        let limit = self.limit;
        let timer = self.running.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(limit)
    }
}
