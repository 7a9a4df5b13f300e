//! Fault injection for the multiplexer: two connections in virtual time, with links that delay, stall, cut and lie.
//!
//! Nothing here does I/O, reads a clock or draws a random number from outside: a run is a function of its seed, so every failure
//! is replayed by its number. [`Pair`] is the laboratory, [`simulate`] the random workload on it, [`fuzzing`] what the fuzz targets
//! and the replay of their corpus share.

mod content;
mod flow;
pub mod fuzzing;
mod host;
mod link;
mod outcome;
mod pair;
mod ping;
mod rng;
mod simulation;

pub use content::Content;
pub use flow::{Ending, Flow, Plan, Reading, Start};
pub use host::{Answer, Host, Talk, Turn};
pub use link::{Arrival, Knobs, Link, Stall};
pub use outcome::{Outcome, ReadEnd, Violation, agree};
pub use pair::{End, Pair, Setup};
pub use ping::{Echo, Pinger};
pub use rng::Rng;
pub use simulation::{Faults, Report, simulate};
