//! The kind of a record: one DNS label, such as `events` or `logs`. It names a lane, a directory and a limit.
//! What agents report by themselves has kinds of its own, for which there is always room.

use mctunnel_core::target::Label;
use std::fmt;

/// The kinds of what agents report by themselves.
pub const BUILT_IN: [&str; 3] = ["status", "events", "logs"];

/// The most kinds of one cluster that are not built in.
pub const MOST_CUSTOM: usize = 16;

/// The most kinds of one cluster.
pub(crate) const MOST_EACH: usize = BUILT_IN.len() + MOST_CUSTOM;

/// A kind of records.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(Label);

impl Kind {
    /// Parses `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`: never normalised, and no path can hide in it.
    pub fn parse(text: &str) -> Result<Self, InvalidKind> {
        Label::parse(text).map(Self).map_err(|_| InvalidKind)
    }

    /// Whether it is of what agents report by themselves.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        BUILT_IN.contains(&self.as_str())
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
