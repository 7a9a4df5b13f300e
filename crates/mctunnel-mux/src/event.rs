//! What the connection has to tell the application.

use crate::{Drain, EndedBy, Header, Hello, OpenUser, Priority, RefuseCode, ResetCode, StreamId, Welcome};
use alloc::{string::String, sync::Arc, vec::Vec};

/// Something the application must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Hub: the agent introduced itself; answer with `welcome` or `close`.
    Hello(Hello),
    /// Agent: the hub took us in.
    Welcomed(Welcome),
    /// The peer wants a stream; answer with `join` or `refuse`.
    Opened(Offer),
    /// The peer joined our stream to its target.
    Joined(StreamId),
    /// The peer did not open our stream.
    Refused {
        /// Which.
        stream: StreamId,
        /// Why.
        code: RefuseCode,
        /// Why, for people.
        message: String,
    },
    /// Bytes, or the end, can be read.
    Readable(StreamId),
    /// There is room to write again, after a write that found none.
    Writable(StreamId),
    /// The stream was cut.
    Reset {
        /// Which.
        stream: StreamId,
        /// Why.
        code: ResetCode,
        /// By whom.
        by: EndedBy,
    },
    /// The peer will soon close.
    Draining(Drain),
    /// The peer closed the tunnel.
    Closed {
        /// Why.
        code: crate::CloseCode,
        /// Why, for people.
        message: String,
    },
}

/// A stream the peer wants to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its id.
    pub stream: StreamId,
    /// Its scheduling class.
    pub priority: Priority,
    /// Its routing metadata.
    pub headers: Vec<Header>,
    /// Whom it is for, if the opener asked.
    pub user: Option<Arc<OpenUser>>,
}
