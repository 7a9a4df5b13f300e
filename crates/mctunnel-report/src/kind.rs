//! The kind of a record: one DNS label, such as `events` or `logs`. It names a lane, a directory and a limit.

use mctunnel_core::target::Label;
use std::fmt;

/// A kind of records.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(Label);

impl Kind {
    /// Parses `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`: never normalised, and no path can hide in it.
    pub fn parse(text: &str) -> Result<Self, InvalidKind> {
        Label::parse(text).map(Self).map_err(|_| InvalidKind)
    }

    /// The kind as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text is not a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a kind is 1 to 63 of the letters a-z, digits and '-', and begins and ends with a letter or digit")]
pub struct InvalidKind;
