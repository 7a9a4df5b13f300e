//! Reports the end of a stream exactly once, however it ends: also when its task is cut.

use crate::{Recording, meter::Account};
use mctunnel_core::{ClusterName, Happening, observe::SharedObserver};
use std::{
    sync::Arc,
    task::{Context, Poll},
};
use tokio::time::Instant;

/// A stream that was reported as opened, and is reported as ended when this is dropped.
///
/// An adapter keeps it beside the stream: its future may be dropped at any time, and the report must not be lost with it.
#[derive(Debug)]
pub struct OpenStream {
    observer: SharedObserver,
    cluster: ClusterName,
    opened: Instant,
    bytes_up: u64,
    bytes_down: u64,
    end: End,
    held: Held,
}

/// What a stream holds as long as it lives: its permission with what was moved, and its entry in the audit log.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) account: Arc<Account>,
    pub(crate) recording: Option<Recording>,
}

#[derive(Debug)]
enum End {
    /// Nobody said how it ended: the task was dropped.
    Cut,
    Clean,
    Broken(String),
}

impl OpenStream {
    /// A stream that was just opened; `bytes_up` were sent with the opening frame already.
    #[must_use]
    pub fn new(observer: SharedObserver, cluster: ClusterName, bytes_up: u64) -> Self {
        Self {
            observer,
            cluster,
            opened: Instant::now(),
            bytes_up,
            bytes_down: 0,
            end: End::Cut,
            held: Held::default(),
        }
    }

    /// Keeps its permission and its entry in the audit log with it.
    pub(crate) fn hold(mut self, held: Held) -> Self {
        self.held = held;
        self
    }

    /// The audit log shows it from now on: it may live long.
    pub(crate) fn started(&self) {
        if let Some(recording) = &self.held.recording {
            recording.started();
        }
    }

    /// Where its bytes are counted.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.held.account
    }

    /// Resolves when its permission was taken back; gives the reason.
    pub(crate) fn poll_revoked(&self, cx: &Context<'_>) -> Poll<Arc<str>> {
        self.held.account.permit().map_or(Poll::Pending, |permit| permit.poll_revoked(cx))
    }

    pub(crate) async fn revoked(&self) -> Arc<str> {
        std::future::poll_fn(|cx| self.poll_revoked(cx)).await
    }

    /// Reports how it ended. What was moved stands in its account.
    pub(crate) fn over(self, error: Option<String>) {
        self.ended(0, 0, error);
    }

    /// Reports how it ended, and what was moved since it was opened.
    pub fn ended(mut self, bytes_up: u64, bytes_down: u64, error: Option<String>) {
        self.bytes_up += bytes_up;
        self.bytes_down += bytes_down;
        self.end = error.map_or(End::Clean, End::Broken);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let error = match std::mem::replace(&mut self.end, End::Clean) {
            End::Cut => {
                let reason = self.held.account.permit().and_then(|permit| permit.why_revoked());
                Some(reason.map_or_else(|| "the gateway cut the connection".to_owned(), |reason| reason.to_string()))
            }
            End::Clean => None,
            End::Broken(error) => Some(error),
        };
        let (up, down) = self.held.account.so_far();
        let (bytes_up, bytes_down) = (self.bytes_up + up, self.bytes_down + down);
        if let Some(recording) = &self.held.recording {
            recording.ended(bytes_up, bytes_down, error.clone());
        }
        self.observer.observe(&Happening::StreamEnded {
            cluster: self.cluster.clone(),
            bytes_up,
            bytes_down,
            lasted: self.opened.elapsed(),
            error,
        });
    }
}
