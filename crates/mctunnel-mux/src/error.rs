//! What can go wrong, and who ended it.

use crate::{CloseCode, ResetCode};
use core::fmt;

/// The peer broke a rule; the tunnel ends, and the peer is told with CLOSE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolError {
    /// What the peer is told.
    pub code: CloseCode,
    /// What happened, for people.
    pub what: &'static str,
}

impl ProtocolError {
    pub(crate) const fn rule(what: &'static str) -> Self {
        Self { code: CloseCode::Protocol, what }
    }
    pub(crate) const fn flow_control(what: &'static str) -> Self {
        Self { code: CloseCode::FlowControl, what }
    }
    pub(crate) const fn budget(what: &'static str) -> Self {
        Self { code: CloseCode::Budget, what }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
}

impl core::error::Error for ProtocolError {}

/// Bytes that are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeError(pub(crate) &'static str);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for DecodeError {}

impl From<DecodeError> for ProtocolError {
    fn from(DecodeError(what): DecodeError) -> Self {
        Self::rule(what)
    }
}

/// Who ended a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// Our application.
    Local,
    /// The peer.
    Peer,
    /// The tunnel ended under it.
    Tunnel,
}

/// A command on a stream that no longer carries bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamError {
    /// The stream was cut.
    Reset {
        /// Why.
        code: ResetCode,
        /// By whom.
        by: EndedBy,
    },
    /// We have already finished our direction.
    Finished,
    /// There is no such stream.
    Unknown,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset { by: EndedBy::Local, .. } => f.write_str("the stream was cut by this side"),
            Self::Reset { code, by: EndedBy::Peer } => write!(f, "the stream was cut by the other side ({code:?})"),
            Self::Reset { by: EndedBy::Tunnel, .. } => f.write_str("the tunnel was lost"),
            Self::Finished => f.write_str("the stream was already finished by this side"),
            Self::Unknown => f.write_str("there is no such stream"),
        }
    }
}

impl core::error::Error for StreamError {}

/// A stream cannot be opened here now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenRefused {
    /// HELLO and WELCOME have not been exchanged yet.
    NotReady,
    /// The peer asked us to open no more.
    Draining,
    /// The tunnel has ended.
    Closed,
    /// Our own limit of open streams is reached.
    TooManyStreams,
    /// The routing headers are larger than a peer takes.
    HeadersTooLarge,
    /// A peer does not take the name of a routing header.
    BadHeaderName,
    /// A peer does not take the user: it has no name, or a text is too long.
    BadUser,
}

impl fmt::Display for OpenRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReady => "the tunnel is not ready yet",
            Self::Draining => "the tunnel is being drained",
            Self::Closed => "the tunnel has ended",
            Self::TooManyStreams => "the tunnel's limit of open streams is reached",
            Self::HeadersTooLarge => "the routing headers are too large",
            Self::BadHeaderName => "a routing header's name is not made of a-z, 0-9 and '-'",
            Self::BadUser => "the user has no name, or one of its texts is longer than 1024 bytes",
        })
    }
}

impl core::error::Error for OpenRefused {}
