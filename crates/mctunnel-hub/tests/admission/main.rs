//! Who the hub takes in, as whom, and which of two tunnels is the active one: real TCP, TLS and HTTP/2, in one program.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

#[cfg(test)]
mod bad_frames;
#[cfg(test)]
mod fake_agent;
#[cfg(test)]
mod name_bound;
#[cfg(test)]
mod refused_early;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod stage;
