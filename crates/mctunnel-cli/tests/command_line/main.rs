//! The command line as a contract: flags, files, output, exit status, signals. What tunnels do is tested in `process`.

#![expect(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod api_keys;
mod audit;
mod clusters;
mod configuration;
mod enrolment;
mod help;
mod life;
mod policy;
mod rig;
mod secrets;
