//! The control socket: how commands change the state of a hub, whether it runs or not.
//!
//! A running hub has the store open and listens on a socket in its data directory that only its owner can reach. A command speaks
//! to it there; when nobody listens it opens the store itself and does the same thing with the same code, [`Handler`].
//!
//! ```text
//! mctunnel api-key create  ── control.sock ──>  hub: Handler ── Store
//! mctunnel api-key create  ── no hub ──────────────> Handler ── Store
//! ```
//!
//! One request and one answer per connection, each one line of JSON.

mod client;
mod error;
mod handler;
mod protocol;
mod server;
mod socket;
mod socket_file;
#[cfg(test)]
mod tests;

pub(crate) use client::{ask_hub, call};
pub(crate) use error::ControlError;
pub(crate) use handler::Handler;
pub(crate) use protocol::{ApiKeyLine, Command, Failure, Reply};
pub(crate) use server::{Control, serve};
