//! The bodies of an exchange: the request's on its way to the target, the target's answer on its way back. They count what passes.

use super::{
    Speak,
    connection::TargetBody,
    forged::forged_trailer,
    pool::{LongRequest, Sharing},
};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

/// The request's body; none for upgrades, whose stream is needed whole afterwards.
pub(super) struct RequestBody {
    body: Option<TargetBody>,
    /// How many bytes of it were taken, for whoever reports them; none for a request without a body.
    sent: Option<Arc<AtomicU64>>,
    /// The others on the same connection: they are spared a request that turns out to be long.
    pub(super) sharing: Option<Weak<Sharing>>,
    long: Option<LongRequest>,
}

impl RequestBody {
    pub(super) fn new(body: Option<TargetBody>) -> Self {
        let sent = body.as_ref().filter(|body| !body.is_end_stream()).map(|_| Arc::default());
        Self { body, sent, sharing: None, long: None }
    }

    pub(super) fn counted(&self) -> Option<Arc<AtomicU64>> {
        self.sent.clone()
    }
}

/// More than most requests have, and less than any server lets come on a connection without reading it.
const LONG: u64 = 16 * 1024;

impl Body for RequestBody {
    type Data = Bytes;
    /// What breaks it is the client, which is gone. Over HTTP/2 the target is told so by the reason that a client would give.
    type Error = h2::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        let mut frame = frame.map(|frame| frame.map_err(|_| h2::Error::from(h2::Reason::CANCEL)));
        if let Some(Ok(sent)) = &frame
            && sent.trailers_ref().is_some_and(|trailers| forged_trailer(trailers).is_some())
        {
            // Held to the rules for heads, as at the gateway.
            frame = Some(Err(h2::Reason::PROTOCOL_ERROR.into()));
        }
        if let (Some(Ok(frame)), Some(sent)) = (&frame, &this.sent) {
            let bytes = u64::try_from(frame.data_ref().map_or(0, Bytes::len)).unwrap_or(u64::MAX);
            let sent = sent.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            if sent > LONG && this.long.is_none() {
                this.long = this.sharing.as_ref().and_then(Weak::upgrade).map(|sharing| sharing.long_request());
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }
}

/// The target's answer: counts what passes, and ends only where the target ended it.
pub(super) struct AnswerBody {
    pub(super) body: Incoming,
    pub(super) bytes: u64,
    pub(super) speak: Speak,
}

impl Body for &mut AnswerBody {
    type Data = Bytes;
    type Error = BrokenAnswer;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenAnswer>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx)).transpose()?;
        match &frame {
            Some(frame) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                this.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
            }
            // A reset without error reads like the end, but is not where the target said it would be.
            None if this.speak == Speak::Http2 && !this.body.is_end_stream() => {
                return Poll::Ready(Some(Err(BrokenAnswer::Reset)));
            }
            None => {}
        }
        Poll::Ready(frame.map(Ok))
    }
}

/// What breaks an answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokenAnswer {
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    #[error("the target reset the stream")]
    Reset,
}
