//! A thousand agents and one hub, in a test program of their own: they need the whole machine.
#![expect(clippy::expect_used, clippy::panic, reason = "in a test program a broken expectation is the result")]

mod agents;
#[path = "../process/rig.rs"]
#[expect(dead_code, reason = "shared with the other process tests, which use all of it")]
mod rig;
