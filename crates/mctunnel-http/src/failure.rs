//! What can go wrong in an exchange, and what each side is told.

use mctunnel_core::OpenError;
use mctunnel_mux::RefuseCode;
use std::io;

/// The answering end has no answer of the target, and says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind of failure.
    pub code: RefuseCode,
    /// For people.
    pub message: String,
}

impl Failure {
    /// The failure as whoever opened the stream sees it.
    #[must_use]
    pub fn into_open_error(self) -> OpenError {
        OpenError::from_refusal(self.code, self.message)
    }
}

/// An exchange broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The stream was cut.
    #[error("the stream was cut")]
    Cut(#[source] io::Error),
    /// The stream ended where more was promised.
    #[error("the stream ended in the middle of a message")]
    Truncated,
    /// The other end does not keep to `http.proto`.
    #[error("the other end of the stream broke the protocol: {0}")]
    Protocol(&'static str),
}

impl From<ExchangeError> for io::Error {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Cut(error) => error,
            ExchangeError::Truncated => Self::new(io::ErrorKind::UnexpectedEof, error),
            ExchangeError::Protocol(_) => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}
