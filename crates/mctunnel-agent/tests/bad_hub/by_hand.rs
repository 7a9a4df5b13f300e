//! The hub's end of a tunnel, frame by frame: it can say what no hub says.

use super::fake_hub::{FakeHub, HubLink};
use bytes::{Bytes, BytesMut};
use mctunnel_mux::{Deframer, Frame, Welcome};
use mctunnel_tunnel::{Link, Transmit};
use std::{future::poll_fn, task::Poll};

/// The hub's end of the tunnel, by hand.
pub(super) struct Hub {
    pub(super) link: HubLink,
    deframer: Deframer,
}

impl Hub {
    /// Takes the agent in.
    pub(super) async fn take_in(fake: &FakeHub) -> Self {
        let mut hub = Self { link: fake.call().await, deframer: Deframer::default() };
        assert!(matches!(hub.receive().await, Frame::Hello(_)));
        let welcome = Welcome { version: 1, tunnel: "c1/1".to_owned(), generation: 1, ..Welcome::default() };
        assert!(hub.push(encoded(&[Frame::Welcome(welcome)])).await);
        hub
    }

    pub(super) async fn receive(&mut self) -> Frame {
        loop {
            if let Some(message) = self.deframer.next_message().unwrap() {
                return Frame::decode(message).unwrap();
            }
            let link = &mut self.link;
            let chunk = poll_fn(|cx| {
                if let Poll::Ready(Err(end)) = link.poll_flush(cx) {
                    return Poll::Ready(Err(end));
                }
                link.poll_receive(cx)
            });
            self.deframer.push(chunk.await.unwrap());
        }
    }

    /// Sends no more than the agent takes, so that what waits is not on our side; false when the agent has ended the tunnel.
    pub(super) async fn push(&mut self, bytes: Bytes) -> bool {
        let link = &mut self.link;
        let mut transmit = Some(Transmit { head: bytes, body: Bytes::new() });
        poll_fn(|cx| {
            if link.poll_flush(cx).map(|flushed| flushed.is_err()) == Poll::Ready(true) {
                return Poll::Ready(false);
            }
            if let Some(transmit) = transmit.take_if(|_| link.poll_ready(cx).is_ready()) {
                let sent = link.send(transmit).is_ok();
                let _ = link.poll_flush(cx);
                return Poll::Ready(sent);
            }
            Poll::Pending
        })
        .await
    }
}

pub(super) fn encoded(frames: &[Frame]) -> Bytes {
    let mut bytes = BytesMut::new();
    frames.iter().for_each(|frame| frame.encode(&mut bytes));
    bytes.freeze()
}
