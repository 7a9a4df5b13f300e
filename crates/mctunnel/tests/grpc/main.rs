//! A gRPC stack that is not ours, with a hub and an agent between its client and its server: both see what they would see
//! without us.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that goes wrong should panic; its tasks are held by handles that abort on drop"
)]

mod cancelled;
mod ends;
mod far;
mod few_streams;
mod kinds;
mod large;
mod lost;
mod metadata;
mod near;
mod note;
#[expect(dead_code, reason = "it is the rig of the gateway's tests, which use all of it")]
#[path = "../gateway/rig.rs"]
mod rig;
mod stage;

use std::time::Duration;

/// How many messages, or calls, a test of a kind has.
const MESSAGES: u64 = 10_000;
/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(30);
