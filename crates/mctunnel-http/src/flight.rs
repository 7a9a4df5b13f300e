//! The first flight of a message: its head, and so much of a short body as is there already. Most messages need no second one.

use crate::BodyKind;
use bytes::{Bytes, BytesMut};
use http_body::Body;
use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// Appends to an encoded head what can be had of a short body without waiting. What is left stays in the body.
pub fn first_flight<B>(head: Bytes, kind: BodyKind, body: &mut B) -> Result<Bytes, B::Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let short = body.size_hint().exact().is_some_and(|len| len <= SHORT);
    if kind != BodyKind::Raw || !short {
        return Ok(head);
    }
    let mut flight = BytesMut::from(&head[..]);
    // Nobody is woken by this: who sends the rest polls the body again, and is.
    let mut cx = Context::from_waker(Waker::noop());
    while !body.is_end_stream() {
        // Not there yet, or over without having said so.
        let Poll::Ready(Some(frame)) = Pin::new(&mut *body).poll_frame(&mut cx) else { break };
        if let Ok(data) = frame?.into_data() {
            flight.extend_from_slice(&data);
        }
    }
    Ok(flight.freeze())
}

/// Fits, with a usual head, into the early window of a stream.
const SHORT: u64 = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;

    #[test]
    fn a_short_body_travels_with_its_head_and_a_long_one_does_not() {
        let head = Bytes::from_static(b"head");
        for (len, together) in [(1, true), (16 * 1024, true), (16 * 1024 + 1, false)] {
            let mut body = Full::new(Bytes::from(vec![b'x'; len]));
            let flight = first_flight(head.clone(), BodyKind::Raw, &mut body).unwrap();
            assert_eq!((flight.len() > 4, body.is_end_stream()), (together, together), "{len}");
        }
        // Chunks have heads of their own.
        let mut body = Full::new(Bytes::from_static(b"x"));
        assert_eq!(first_flight(head, BodyKind::Chunks, &mut body).unwrap(), "head");
        assert!(!body.is_end_stream());
    }
}
