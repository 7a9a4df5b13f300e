//! The sending half of an exchange.

use crate::{BodyKind, head::fields_to_wire, split::SharedStream, wire};
use bytes::{Bytes, BytesMut};
use http_body::Body;
use mctunnel_core::ByteStream;
use std::{fmt, future::poll_fn, io, pin::pin, task::Poll};

/// Sends a message.
#[derive(Debug)]
pub struct MessageWriter<S> {
    stream: SharedStream<S>,
}

impl<S: ByteStream> MessageWriter<S> {
    pub(crate) fn new(stream: SharedStream<S>) -> Self {
        Self { stream }
    }

    /// Sends bytes as they are: an encoded head.
    pub async fn send(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            poll_fn(|cx| self.stream.poll_write(cx, &mut bytes)).await?;
        }
        Ok(())
    }

    /// Ends the direction.
    pub async fn finish(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.stream.poll_finish(cx)).await
    }

    /// Sends a whole body and ends the direction. When the body breaks, so does the stream; dropping the future leaves it cut.
    pub async fn pump<B>(&mut self, kind: BodyKind, body: B) -> Result<(), PumpError<B::Error>>
    where
        B: Body<Data = Bytes>,
    {
        let mut body = pin!(body);
        loop {
            // A body may be silent for hours; that nobody wants it any more must be noticed meanwhile.
            let next = poll_fn(|cx| match body.as_mut().poll_frame(cx) {
                Poll::Ready(frame) => Poll::Ready(Ok(frame)),
                Poll::Pending => self.stream.poll_cut(cx).map(|()| Err(cut())),
            });
            let Some(frame) = next.await.map_err(PumpError::Stream)? else { break };
            let frame = frame.map_err(|error| {
                self.stream.abort();
                PumpError::Body(error)
            })?;
            match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) if kind == BodyKind::Chunks => self.send_chunk(data).await.map_err(PumpError::Stream)?,
                Ok(data) => self.send(data).await.map_err(PumpError::Stream)?,
                Err(frame) => {
                    if let (BodyKind::Chunks, Ok(fields)) = (kind, frame.into_trailers()) {
                        let trailers = wire::Trailers { fields: fields_to_wire(&fields) };
                        self.send(wire::trailers_chunk(&trailers)).await.map_err(PumpError::Stream)?;
                    }
                }
            }
        }
        self.finish().await.map_err(PumpError::Stream)
    }

    /// A small chunk travels with its head in one piece; the data of a large one is not copied.
    async fn send_chunk(&mut self, data: Bytes) -> io::Result<()> {
        let mut head = BytesMut::with_capacity(CHUNK_HEAD + if data.len() <= SMALL { data.len() } else { 0 });
        wire::put_data_head(&mut head, data.len());
        if data.len() <= SMALL {
            head.extend_from_slice(&data);
            return self.send(head.freeze()).await;
        }
        self.send(head.freeze()).await?;
        self.send(data).await
    }

    /// Resolves when the other side has cut the stream. Nothing is sent meanwhile.
    pub async fn cut(&mut self) {
        poll_fn(|cx| self.stream.poll_cut(cx)).await;
    }

    /// Ends both directions as an error.
    pub fn abort(&mut self) {
        self.stream.abort();
    }

    /// Ends both directions as an error, behind what was sent.
    pub fn abort_behind_sent(&mut self) {
        self.stream.abort_behind_written();
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the other end cut the stream")
}

const CHUNK_HEAD: usize = 10;
const SMALL: usize = 8 * 1024;

/// A body could not be sent whole.
#[derive(Debug)]
pub enum PumpError<E> {
    /// The body broke; the other end was told by a cut.
    Body(E),
    /// The stream was cut.
    Stream(io::Error),
}

impl<E: fmt::Display> fmt::Display for PumpError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => write!(f, "the body broke: {error}"),
            Self::Stream(error) => write!(f, "the stream was cut: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for PumpError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body(error) => Some(error),
            Self::Stream(error) => Some(error),
        }
    }
}
