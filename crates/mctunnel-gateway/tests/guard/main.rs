//! A guarded connection in front of a real HTTP/1.1 server, and a client that speaks raw bytes.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod connections;
mod corpus;
mod rig;
mod smuggling;
mod upgrades;
