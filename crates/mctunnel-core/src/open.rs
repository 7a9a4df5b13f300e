//! Port: opening a stream to a destination, and the stream it gives.

use crate::{Destination, Identity, OpenError, Protocol};
use bytes::Bytes;
use std::{
    io,
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite};

pub use mctunnel_mux::Priority;

/// Opens streams to targets inside clusters. The hub implements it; the gateway only sees this.
///
/// Obligations: 1. it resolves when the target accepted (or refused), not when the request was sent; 2. it is cancel safe:
/// dropping the future takes the open back; 3. it waits no longer than `request.wait_for_tunnel` for a tunnel, and once there is
/// one, no longer than `request.timeout` for the answer; no longer than both together in any case.
pub trait Open: Send + Sync + 'static {
    /// The stream to the target.
    type Stream: ByteStream;

    /// Opens a stream.
    fn open(&self, request: OpenRequest) -> impl Future<Output = Result<Self::Stream, OpenError>> + Send;
}

/// What to open, and how.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// Where to.
    pub destination: Destination,
    /// Which adapter of the agent serves the stream.
    pub protocol: Protocol,
    /// Scheduling class inside the tunnel.
    pub priority: Priority,
    /// The longest to wait for the target's answer, once a tunnel is there.
    pub timeout: Duration,
    /// How long to wait for a cluster that has no tunnel right now; zero fails at once.
    pub wait_for_tunnel: Duration,
    /// Whom it is for: told to the agent, which speaks for that user and for nobody else.
    pub identity: Identity,
    /// Bytes to send right behind the opening frame, without waiting for the answer.
    pub first_bytes: Bytes,
}

impl OpenRequest {
    /// A request with the defaults: plain bytes, normal priority, 8 s, no wait for a tunnel, no first bytes.
    #[must_use]
    pub fn new(destination: Destination) -> Self {
        Self {
            destination,
            protocol: Protocol::tcp(),
            priority: Priority::Normal,
            timeout: Duration::from_secs(8),
            wait_for_tunnel: Duration::ZERO,
            identity: Identity::Anonymous,
            first_bytes: Bytes::new(),
        }
    }
}

/// A two-way byte stream that also hands over and takes whole buffers, so that bytes need not be copied on their way.
///
/// As with `AsyncRead`, `Ok(None)` is the peer's clean end; a cut is always an error.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Takes the next bytes that arrived.
    fn poll_read_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>>;

    /// Waits until at least one byte can be written; gives how many can be.
    fn poll_write_capacity(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>>;

    /// Writes from the front of `bytes` as much as there is room for; what was taken is cut off.
    fn poll_write_bytes(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<io::Result<()>>;

    /// Resolves when the stream was cut. Uses the place of the one waiter for writing: do not write while waiting for it.
    fn poll_cut(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Ends the stream with an error at the other end, at once: what was written may be lost.
    fn abort(&mut self);

    /// Ends the stream with an error at the other end, behind what was written.
    fn abort_behind_written(&mut self) {
        self.abort();
    }
}
