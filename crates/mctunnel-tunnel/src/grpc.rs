//! The gRPC carrier: `mctunnel.tunnel.v1.TunnelService/Tunnel` over HTTP/2, spoken with the `h2` crate directly; and single calls of
//! one message and one answer ([`call`], [`UnaryCall`]).
//!
//! Real gRPC on the wire: length-prefixed protobuf messages in DATA frames, `grpc-status` in the trailers. ADR 0003 says why not
//! through a gRPC framework. HTTP/2's own windows are set so large, and given back so soon, that they are never the limit.

use crate::{Link, LinkEnd};
use bytes::{Buf, Bytes};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue};
use mctunnel_mux::Transmit;
use std::{
    io::IoSlice,
    task::{Context, Poll, Waker, ready},
};

mod client;
mod server;
mod unary;

pub use client::{ClientLink, connect};
pub use server::{Accepting, Call, ServerLink, Status, UnaryCall};
pub use unary::{CallFailed, call};

/// The path of the one call.
pub const TUNNEL_PATH: &str = "/mctunnel.tunnel.v1.TunnelService/Tunnel";

/// HTTP/2 window, stream and connection.
const WINDOW: u32 = 8 * 1024 * 1024;
/// Large enough for one transmit of the multiplexer in one HTTP/2 frame.
const FRAME_SIZE: u32 = 128 * 1024;
/// What may wait inside HTTP/2 for the socket; small, so that the scheduler decides late.
const SEND_BUFFER: usize = 192 * 1024;
/// The most header bytes a peer may send.
const HEADER_LIST: u32 = 16 * 1024;

/// Bytes for one HTTP/2 DATA frame: small frames and at most one payload behind them, neither copied.
#[derive(Debug)]
pub struct Piece {
    head: Bytes,
    body: Bytes,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.head.len() + self.body.len()
    }

    fn chunk(&self) -> &[u8] {
        if self.head.is_empty() { &self.body } else { &self.head }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let parts = [&self.head, &self.body].into_iter().filter(|part| !part.is_empty());
        parts.zip(slices).map(|(part, slice)| *slice = IoSlice::new(part)).count()
    }

    fn advance(&mut self, count: usize) {
        let from_head = count.min(self.head.len());
        self.head.advance(from_head);
        self.body.advance(count - from_head);
    }
}

/// The two directions of the call, once it is open: the part both ends share.
///
/// HTTP/2 has news for it only while the connection is polled, and after that both directions are asked anyway; so nobody is to be
/// woken for them.
#[derive(Debug)]
struct Duplex {
    send: SendStream<Piece>,
    receive: RecvStream,
}

impl Duplex {
    fn poll_receive(&mut self) -> Poll<Result<Bytes, LinkEnd>> {
        loop {
            match ready!(self.receive.poll_data(&mut nobody())) {
                Some(Ok(bytes)) => {
                    let given_back = self.receive.flow_control().release_capacity(bytes.len());
                    given_back.map_err(|error| broken(&error))?;
                    if !bytes.is_empty() {
                        return Poll::Ready(Ok(bytes));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(broken(&error))),
                None => return self.poll_trailers().map(Err),
            }
        }
    }

    /// The call ended: the trailers say why.
    fn poll_trailers(&mut self) -> Poll<LinkEnd> {
        Poll::Ready(match ready!(self.receive.poll_trailers(&mut nobody())) {
            Ok(Some(trailers)) => status_of(&trailers),
            Ok(None) => LinkEnd::Broken("the call ended without a status".into()),
            Err(error) => broken(&error),
        })
    }

    fn poll_ready(&mut self) -> Poll<Result<(), LinkEnd>> {
        self.send.reserve_capacity(SEND_BUFFER);
        loop {
            if self.send.capacity() > 0 {
                return Poll::Ready(Ok(()));
            }
            match ready!(self.send.poll_capacity(&mut nobody())) {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(broken(&error))),
                None => return Poll::Ready(Err(LinkEnd::Broken("the call was closed".into()))),
            }
        }
    }

    fn send(&mut self, transmit: Transmit) -> Result<(), LinkEnd> {
        let piece = Piece { head: transmit.head, body: transmit.body };
        self.send.send_data(piece, false).map_err(|error| broken(&error))
    }
}

/// Nobody to wake.
fn nobody() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// What a `grpc-status` says about the end of the call.
fn status_of(headers: &HeaderMap) -> LinkEnd {
    let text = |name| headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok());
    let code = text("grpc-status").unwrap_or("?");
    let message = text("grpc-message").map(percent_decode).unwrap_or_default();
    let printable: String = message.chars().filter(|c| !c.is_control()).take(300).collect();
    match code {
        "0" => LinkEnd::Closed(if printable.is_empty() { "done".into() } else { printable }),
        _ => LinkEnd::Closed(format!("{printable} (gRPC status {code})")),
    }
}

fn broken(error: &h2::Error) -> LinkEnd {
    let hung_up = error.get_io().is_some_and(|io| io.kind() == std::io::ErrorKind::UnexpectedEof);
    LinkEnd::Broken(if hung_up { "the other side hung up".into() } else { error.to_string() })
}

/// gRPC writes messages with percent codes for everything that is not printable ASCII.
fn percent_encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn percent_decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|h| std::str::from_utf8(h).ok()).and_then(|h| u8::from_str_radix(h, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_percent_codes() {
        let text = "no: 100 % “done”\r\n";
        assert_eq!(percent_encode("a%b\n"), "a%25b%0A");
        assert_eq!(percent_decode(&percent_encode(text)), text);
        assert_eq!(percent_decode("%zz%4"), "%zz%4");
    }

    #[test]
    fn a_piece_is_its_head_then_its_body() {
        let mut piece = Piece { head: "head".into(), body: "body!".into() };
        assert_eq!(piece.remaining(), 9);
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(piece.chunks_vectored(&mut slices), 2);
        piece.advance(6);
        assert_eq!(piece.chunk(), b"dy!");
        assert_eq!(piece.copy_to_bytes(3), "dy!");
    }
}
