//! A client's body that ends only where the client ended it.

use bytes::Bytes;
use hyper::{
    Version,
    body::{Body, Frame, Incoming, SizeHint},
};
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

/// The body of a request.
pub(super) struct WholeBody {
    body: Incoming,
    http2: bool,
}

impl WholeBody {
    pub(super) fn new(body: Incoming, version: Version) -> Self {
        Self { body, http2: version == Version::HTTP_2 }
    }
}

/// What breaks such a body.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokenOff {
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    #[error("the client reset the stream")]
    Reset,
}

impl Body for WholeBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx)).transpose()?;
        if frame.is_none() && this.http2 && !this.body.is_end_stream() {
            // A reset without error reads like the end, but is not where the client said it would be.
            return Poll::Ready(Some(Err(BrokenOff::Reset)));
        }
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
