//! One small change of the code.

use std::fmt;

/// A change, and where it is.
#[derive(Debug, Clone)]
pub(crate) struct Mutant {
    /// Unique in a run.
    pub(crate) id: usize,
    /// From the root of the repository.
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The function it is in, with its type.
    pub(crate) function: String,
    /// What is changed into what.
    pub(crate) change: String,
}

impl Mutant {
    /// What names it in the list of accepted ones: everything but its line, which moves.
    pub(crate) fn key(&self) -> String {
        format!("{} | {} | {}", self.file, self.function, self.change)
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} | {} | {}", self.file, self.line, self.function, self.change)
    }
}
