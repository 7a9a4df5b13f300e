//! Drives the multiplexer over a carrier with tokio: a [`Session`] is one end of a tunnel, a [`Stream`] one connection inside it.
//!
//! A carrier is anything that can be made a [`Link`]: gRPC over HTTP/2 ([`grpc`]), or a plain byte pipe for tests ([`ByteLink`]).
//! Nothing here dials, listens, authenticates or retries; that is the business of the hub and the agent.
//!
//! One task per tunnel polls the [`Driver`]; streams share its state behind one short lock. There is no task and no channel per stream.

pub mod grpc;

mod aside;
mod driver;
mod ending;
mod linger;
mod link;
mod read_ahead;
mod rounds;
mod session;
mod socket;
mod state;
mod stream;

pub use aside::Aside;
pub use driver::Driver;
pub use ending::{Ending, OpenFailed};
pub use link::{ByteLink, Link, LinkEnd};
pub use mctunnel_mux::{
    Budgets, CloseCode, Config, Drain, DrainReason, EndedBy, Header, Hello, MAX_PAYLOAD, Offer, Open, OpenUser,
    Priority, RefuseCode, ResetCode, StreamId, Transmit, User, Welcome,
};
pub use read_ahead::ReadAhead;
pub use session::{Greeting, Incoming, Offers, Opening, Session};
pub use socket::{CongestionControl, tune};
pub use stream::Stream;
