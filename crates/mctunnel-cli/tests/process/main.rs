//! The real binary in real processes: bytes, faults and drains, as an operator would meet them.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "in a test program a broken expectation is the result, and figures are printed"
)]

mod bad_wire;
mod bytes;
mod bytes_on_a_bad_wire;
mod crash;
mod detection;
mod drain;
mod drain_trusted;
mod event_reports;
mod faults;
mod floods;
mod head_of_line;
mod log_reports;
mod many;
mod paths_to_the_hub;
mod raw_h2;
mod reports;
mod rig;
mod rotate;
mod rotate_files;
mod services;
mod stall;
mod wire;
