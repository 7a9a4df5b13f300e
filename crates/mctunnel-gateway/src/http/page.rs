//! A page of the gateway itself: at once, or piece by piece from a task that the answer owns. Here is that it is paced, counted, cut
//! when the permission goes, and never ends cleanly before its end.

#[cfg(test)]
mod tests;

use crate::{
    Permit, Recording,
    meter::{Account, Pace},
};
use bytes::Bytes;
use hyper::body::Frame;
use mctunnel_http::ExchangeError;
use std::{
    fmt, io,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// Pieces that wait for the client at once.
const WAITING: usize = 1;

/// What a request for the gateway itself is answered with.
pub struct Page {
    pub(super) content_type: &'static str,
    pub(super) content: Content,
}

pub(super) enum Content {
    Whole(Bytes),
    Pieces(Pieces),
}

impl Page {
    /// JSON, at once.
    #[must_use]
    pub fn json(text: impl Into<Bytes>) -> Self {
        Self { content_type: "application/json", content: Content::Whole(text.into()) }
    }

    /// What `write` writes, from a task that ends with the client or when the permit is taken back. An error there cuts the answer.
    #[must_use]
    pub fn written<F>(content_type: &'static str, permit: Permit, write: impl FnOnce(PageWriter) -> F) -> Self
    where
        F: Future<Output = Result<(), PageEnded>> + Send + 'static,
    {
        let (sender, pieces) = mpsc::channel(WAITING);
        let writing = write(PageWriter(sender.clone()));
        #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when the answer is dropped")]
        let writing = AbortOnDropHandle::new(tokio::spawn(async move {
            let last = match writing.await {
                Ok(()) => Piece::End,
                Err(PageEnded::Broken(reason)) => Piece::Broken(reason),
                Err(PageEnded::Gone) => return,
            };
            // Nobody is left to be told otherwise.
            let _ = sender.send(last).await;
        }));
        let account = Arc::new(Account::new(permit));
        Self { content_type, content: Content::Pieces(Pieces { pieces, _writing: writing, account }) }
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("content_type", &self.content_type).finish_non_exhaustive()
    }
}

/// Where the pieces of a page go. It waits for the client.
#[derive(Debug)]
pub struct PageWriter(mpsc::Sender<Piece>);

impl PageWriter {
    /// Sends a piece. The error says that nobody reads any more.
    pub async fn write(&self, piece: impl Into<Bytes>) -> Result<(), PageEnded> {
        self.0.send(Piece::Bytes(piece.into())).await.map_err(|_| PageEnded::Gone)
    }

    /// Resolves when nobody reads any more.
    pub async fn gone(&self) {
        self.0.closed().await;
    }
}

/// A page ends before it is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageEnded {
    /// The client is gone, or may not read any more.
    Gone,
    /// What should follow cannot be read, and why.
    Broken(String),
}

#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    End,
    Broken(String),
}

pub(super) struct Pieces {
    pieces: mpsc::Receiver<Piece>,
    _writing: AbortOnDropHandle<()>,
    pub(super) account: Arc<Account>,
}

// === PageBody ===

/// The body of such an answer. Dropping it ends whoever writes it.
pub(super) struct PageBody {
    pieces: Pieces,
    recording: Recording,
    pace: Pace,
    bytes: u64,
    ended: bool,
}

impl PageBody {
    pub(super) fn new(pieces: Pieces, recording: Recording) -> Self {
        let pace = Pace::down(Arc::clone(&pieces.account));
        Self { pieces, recording, pace, bytes: 0, ended: false }
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(Poll::Ready(rule)) = self.pieces.account.permit().map(|permit| permit.poll_revoked(cx)) {
            let cut = io::Error::new(io::ErrorKind::PermissionDenied, rule.to_string());
            return Poll::Ready(Some(Err(self.broke(cut))));
        }
        ready!(self.pace.poll_ready(cx));
        match ready!(self.pieces.pieces.poll_recv(cx)) {
            Some(Piece::Bytes(bytes)) => {
                self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                self.pace.moved(bytes.len());
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Some(Piece::End) => {
                self.ended = true;
                self.recording.ended(0, self.bytes, None);
                Poll::Ready(None)
            }
            Some(Piece::Broken(reason)) => Poll::Ready(Some(Err(self.broke(io::Error::other(reason))))),
            None => Poll::Ready(Some(Err(self.broke(io::Error::other("whoever wrote the page is gone"))))),
        }
    }

    fn broke(&mut self, cut: io::Error) -> ExchangeError {
        self.ended = true;
        self.recording.ended(0, self.bytes, Some(cut.to_string()));
        ExchangeError::Cut(cut)
    }
}

impl Drop for PageBody {
    fn drop(&mut self) {
        if !self.ended {
            self.recording.ended(0, self.bytes, Some("the client went away".to_owned()));
        }
    }
}
