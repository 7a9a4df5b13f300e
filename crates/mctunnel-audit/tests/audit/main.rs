//! The record from outside: what stands in it, what it survives, and what is found when somebody changes it.

#![expect(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod chain;
mod content;
mod full;
mod restart;
mod rig;
mod rotation;
mod shared;
mod strangers;
