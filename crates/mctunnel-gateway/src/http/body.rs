//! The body of an answer: the target's, as it comes through the tunnel, or our own.

use super::{answer::Refused, page::PageBody};
use crate::{meter::Pace, open_stream::OpenStream};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use mctunnel_core::ByteStream;
use mctunnel_http::{ExchangeError, MessageBody};
use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio_util::task::AbortOnDropHandle;

/// What clients get.
pub(super) enum GatewayBody<S: ByteStream> {
    Own(Full<Bytes>),
    /// A page of the gateway itself that comes piece by piece.
    Page(Box<PageBody>),
    Tunnelled(Box<Tunnelled<S>>),
}

impl<S: ByteStream> GatewayBody<S> {
    /// For gRPC over HTTP/2: should the answer be cut, the call ends with a status that says so. A reset would be read as an
    /// internal error, and not be tried again.
    pub(super) fn cut_as_status(mut self) -> Self {
        if let Self::Tunnelled(body) = &mut self {
            body.cut_as_status = true;
        }
        self
    }
}

impl<S: ByteStream> From<Full<Bytes>> for GatewayBody<S> {
    fn from(body: Full<Bytes>) -> Self {
        Self::Own(body)
    }
}

impl<S: ByteStream> Body for GatewayBody<S> {
    type Data = Bytes;
    type Error = ExchangeError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        match self.get_mut() {
            Self::Own(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Self::Page(body) => body.poll_frame(cx),
            Self::Tunnelled(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_end_stream(),
            Self::Page(_) => false,
            Self::Tunnelled(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => body.size_hint(),
            Self::Page(_) => SizeHint::default(),
            Self::Tunnelled(body) => body.body.size_hint(),
        }
    }
}

/// The body of an answer that came through the tunnel. Dropping it ends the exchange; a cut is an error, never a clean end.
pub struct ForwardedBody<S: ByteStream>(pub(super) GatewayBody<S>);

impl<S: ByteStream> Body for ForwardedBody<S> {
    type Data = Bytes;
    type Error = ExchangeError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        Pin::new(&mut self.get_mut().0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl<S: ByteStream> fmt::Debug for ForwardedBody<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardedBody").finish_non_exhaustive()
    }
}

/// The target's answer. Dropping it ends the exchange: the rest of the request is not sent any more.
pub(super) struct Tunnelled<S: ByteStream> {
    body: MessageBody<S>,
    /// The request's body on its way, if it has not arrived whole.
    _upload: Option<AbortOnDropHandle<()>>,
    open: Option<OpenStream>,
    /// What is still to come, where that is known: of a body with a length, and behind the end. Nobody asks for the end behind the last
    /// byte, and what came there would be neither recorded nor counted.
    left: Option<u64>,
    /// Until it ended.
    pace: Option<Pace>,
    cut_as_status: bool,
    /// How it broke off, while what came before is sent to the client.
    broken: Option<ExchangeError>,
}

impl<S: ByteStream> Tunnelled<S> {
    pub(super) fn new(
        body: MessageBody<S>,
        length: Option<u64>,
        upload: Option<AbortOnDropHandle<()>>,
        open: OpenStream,
    ) -> Self {
        let pace = Some(Pace::down(Arc::clone(open.account())));
        let (open, cut_as_status, broken) = (Some(open), false, None);
        let mut tunnelled = Self { body, _upload: upload, open, left: length, pace, cut_as_status, broken };
        if tunnelled.body.is_end_stream() || length == Some(0) {
            tunnelled.ended(None);
        }
        tunnelled
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        if let Some(Poll::Ready(rule)) = self.open.as_ref().map(|open| open.poll_revoked(cx)) {
            let cut = std::io::Error::new(std::io::ErrorKind::PermissionDenied, rule.to_string());
            self.ended(Some(cut.to_string()));
            return Poll::Ready(Some(self.cut(ExchangeError::Cut(cut), |_| Refused::Denied(rule.to_string()))));
        }
        if let Some(pace) = &mut self.pace {
            ready!(pace.poll_ready(cx));
        }
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(self.cut(error, |error| Refused::Cut(told(error)))));
        }
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Err(error) = self.passed(frame.as_ref()) {
            return self.breaks(error, cx);
        }
        match frame {
            Some(Err(error)) => self.breaks(error, cx),
            frame => Poll::Ready(frame),
        }
    }

    /// Counts what comes, and sees whether it was the last of it.
    fn passed(&mut self, frame: Option<&Result<Frame<Bytes>, ExchangeError>>) -> Result<(), ExchangeError> {
        match frame {
            Some(Err(_)) => {}
            // Nothing follows trailers, and nobody asks again.
            Some(Ok(frame)) if frame.is_trailers() => self.ended(None),
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                if let Some(left) = self.left {
                    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                    let more = ExchangeError::Protocol("the answer is longer than it says");
                    self.left = Some(left.checked_sub(bytes).ok_or(more)?);
                }
                if let Some(pace) = &mut self.pace {
                    pace.moved(bytes);
                }
                if self.left == Some(0) {
                    self.ended(None);
                }
            }
            None if self.left.is_some() => return Err(ExchangeError::Truncated),
            None => self.ended(None),
        }
        Ok(())
    }

    /// Ends with this error, once what came before it was sent: whoever serves the client throws away with an error what it has not
    /// sent yet, and sends when there is nothing more.
    fn breaks(&mut self, error: ExchangeError, cx: &Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        self.ended(Some(error.to_string()));
        self.broken = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.broken.is_none() && (self.left == Some(0) || self.body.is_end_stream())
    }

    /// The last frame of an answer that does not end as it should.
    fn cut(
        &self,
        error: ExchangeError,
        refused: impl FnOnce(&ExchangeError) -> Refused,
    ) -> Result<Frame<Bytes>, ExchangeError> {
        if self.cut_as_status { Ok(Frame::trailers(refused(&error).to_grpc_trailers())) } else { Err(error) }
    }

    /// Whatever comes behind this is not passed on.
    fn ended(&mut self, error: Option<String>) {
        self.left = Some(0);
        if let Some(open) = self.open.take() {
            self.pace = None;
            open.over(error);
        }
    }
}

/// The error and what is behind it.
fn told(error: &ExchangeError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
