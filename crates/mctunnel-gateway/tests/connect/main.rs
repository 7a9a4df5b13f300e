//! The CONNECT gateway over real sockets, with an opener that the tests script.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and talks to the one that started it"
)]

mod answers;
mod audited;
mod bad_input;
mod established;
mod footprint;
mod lifetime;
mod out_of_descriptors;
mod rig;
mod sni_trust;
mod trust;
