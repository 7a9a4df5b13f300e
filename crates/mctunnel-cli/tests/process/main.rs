//! The real binary in real processes: bytes, faults and drains, as an operator would meet them.
#![expect(clippy::expect_used, clippy::panic, reason = "in a test program a broken expectation is the result")]

mod bytes;
mod drain;
mod faults;
mod rig;
mod rotate;
mod stall;
mod wire;
