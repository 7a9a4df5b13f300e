//! A thousand agents and one hub, in a test program of their own: they need the whole machine.

mod agents;
#[path = "../process/rig.rs"]
#[expect(dead_code, reason = "shared with the other process tests, which use all of it")]
mod rig;
