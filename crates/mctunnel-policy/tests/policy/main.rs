//! Policies as a whole: what they decide, what is refused when they are read, and what an independent reading of the same documents
//! decides.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and says what it saw"
)]

mod check;
mod decide;
mod documents;
mod doubt;
mod expectation;
mod generate;
mod oracle;
mod properties;
mod question;
mod strict;
mod verbs;
