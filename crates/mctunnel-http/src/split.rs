//! A stream in two halves, so that an answer can be read while the request is still being sent.

use crate::{MessageReader, MessageWriter};
use bytes::Bytes;
use mctunnel_core::ByteStream;
use parking_lot::Mutex;
use std::{
    io,
    sync::Arc,
    task::{Context, Poll},
};

/// Splits a stream. It is cut when both halves are gone and its sending half was not ended.
pub fn split<S: ByteStream>(stream: S) -> MessageHalves<S> {
    let shared = SharedStream(Arc::new(Mutex::new(stream)));
    MessageHalves { writer: MessageWriter::new(shared.clone()), reader: MessageReader::new(shared) }
}

/// Both halves of a stream.
#[derive(Debug)]
pub struct MessageHalves<S> {
    /// Sends.
    pub writer: MessageWriter<S>,
    /// Receives.
    pub reader: MessageReader<S>,
}

impl<S: ByteStream> MessageHalves<S> {
    /// The whole stream again, with what was received of it but not yet read; `None` while something else holds a half.
    #[must_use]
    pub fn reunite(self) -> Option<(S, Bytes)> {
        let Self { writer, reader } = self;
        drop(writer);
        let (shared, unread) = reader.into_parts();
        Arc::into_inner(shared.0).map(|stream| (stream.into_inner(), unread))
    }
}

/// The lock is held for one poll at a time.
pub(crate) struct SharedStream<S>(Arc<Mutex<S>>);

impl<S> Clone for SharedStream<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: ByteStream> SharedStream<S> {
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.0.lock().poll_read_bytes(cx)
    }

    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>> {
        self.0.lock().poll_write_bytes(cx, bytes)
    }

    pub(crate) fn poll_finish(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::pin::Pin::new(&mut *self.0.lock()).poll_shutdown(cx)
    }

    pub(crate) fn poll_cut(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.lock().poll_cut(cx)
    }

    pub(crate) fn abort(&self) {
        self.0.lock().abort();
    }

    pub(crate) fn abort_behind_written(&self) {
        self.0.lock().abort_behind_written();
    }
}

impl<S> std::fmt::Debug for SharedStream<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedStream")
    }
}
