//! How a tunnel ended, and why a stream did not open.

use mctunnel_mux::{CloseCode, EndedBy, OpenRefused, RefuseCode};
use std::{fmt, sync::Arc};

/// Why a tunnel is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Who ended it; [`EndedBy::Tunnel`] is the network.
    pub by: EndedBy,
    /// The code that went with it, when there was one.
    pub code: Option<CloseCode>,
    /// For people.
    pub message: Arc<str>,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.by {
            EndedBy::Local => "ended by this side",
            EndedBy::Peer => "ended by the other side",
            EndedBy::Tunnel => "connection lost",
        };
        write!(f, "{who}: {}", self.message)
    }
}

/// A stream was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenFailed {
    /// This side would not even ask, or the tunnel ended before it could: nothing was sent.
    #[error("{0}")]
    NotAsked(OpenRefused),
    /// The other side said no.
    #[error("{message}")]
    Refused {
        /// Why.
        code: RefuseCode,
        /// Why, for people.
        message: String,
    },
    /// The tunnel ended, or the other side cut the stream, before the answer came.
    #[error("{0}")]
    Lost(String),
}
