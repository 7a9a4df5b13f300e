//! The real binary in real processes: bytes, faults and drains, as an operator would meet them.

mod bytes;
mod drain;
mod faults;
mod rig;
mod stall;
mod wire;
