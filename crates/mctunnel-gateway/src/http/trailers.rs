//! A request's body whose trailers are held to the rules for heads. One that breaks them breaks the body, and so the exchange.

use super::{BadHead, check_trailers};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

/// The body with its trailers checked.
pub(super) struct CheckedTrailers<B>(pub(super) B);

/// What breaks such a body.
pub(super) enum BrokenBody<E> {
    /// The body itself.
    Body(E),
    /// A trailer that clients may not send.
    Trailers(BadHead),
}

impl<E: fmt::Display> fmt::Display for BrokenBody<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => error.fmt(f),
            Self::Trailers(bad) => write!(f, "in the trailers: {bad}"),
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for CheckedTrailers<B> {
    type Data = Bytes;
    type Error = BrokenBody<B::Error>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.get_mut().0).poll_frame(cx);
        polled.map(|frame| {
            frame.map(|frame| {
                let frame = frame.map_err(BrokenBody::Body)?;
                match frame.trailers_ref().map_or(Ok(()), check_trailers) {
                    Ok(()) => Ok(frame),
                    Err(bad) => Err(BrokenBody::Trailers(bad)),
                }
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
