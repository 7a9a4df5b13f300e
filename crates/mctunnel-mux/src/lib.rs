//! The multiplexer of mctunnel: many streams, in both directions, over one ordered carrier.
//!
//! It does no I/O, reads no clock, starts no task and draws no random number; `#![no_std]` is the proof. Bytes and time are
//! handed in, bytes and events are handed out, so two of them can be run against each other in virtual time.
//!
//! [`Connection`] has four kinds of methods:
//!
//! 1. **inputs** `handle_*`: what happened (bytes came, time passed);
//! 2. **commands**, bare verbs: what the application wants (`open`, `join`, `refuse`, `write`, `read`, `finish`, `reset`, `drain`, `close`);
//! 3. **outputs** `poll_*`: what to do now (`poll_event`, `poll_transmit`, `poll_timeout`);
//! 4. **getters**, without side effect.
//!
//! **The single-mutation rule:** after one input or command, drain `poll_event`, then `poll_transmit` as far as the carrier takes
//! bytes, then arm `poll_timeout`.
//!
//! ```
//! use mctunnel_mux::{Config, Connection, Event, Hello, Moment, Open, Welcome};
//!
//! let now = Moment::ZERO;
//! let mut agent = Connection::agent(Config::default(), Hello::default());
//! let mut hub = Connection::hub(Config::default());
//!
//! // Moves everything one side wants to send to the other side.
//! fn carry(now: Moment, from: &mut Connection, to: &mut Connection) {
//!     while let Some(transmit) = from.poll_transmit() {
//!         to.handle_input(now, transmit.head).unwrap();
//!         to.handle_input(now, transmit.body).unwrap();
//!     }
//! }
//!
//! carry(now, &mut agent, &mut hub);
//! assert!(matches!(hub.poll_event(), Some(Event::Hello(_))));
//! hub.welcome(now, Welcome::default());
//! carry(now, &mut hub, &mut agent);
//! assert!(matches!(agent.poll_event(), Some(Event::Welcomed(_))));
//!
//! let stream = hub.open(Open::default()).unwrap();
//! hub.write(stream, &mut "hello".into()).unwrap();
//! carry(now, &mut hub, &mut agent);
//! let Some(Event::Opened(offer)) = agent.poll_event() else { unreachable!() };
//! agent.join(offer.stream).unwrap();
//! assert_eq!(agent.read(now, offer.stream, 100).unwrap(), mctunnel_mux::Read::Bytes("hello".into()));
//! ```
#![no_std]

extern crate alloc;

mod budget;
mod code;
mod connection;
mod error;
mod event;
mod frame;
mod framing;
mod moment;
mod queue;
mod schedule;
mod stream;
mod window;
mod wire;

pub use budget::Budgets;
pub use code::{CloseCode, DrainReason, Priority, RefuseCode, ResetCode};
pub use connection::{Config, Connection, Read, Side, Transmit};
pub use error::{DecodeError, EndedBy, OpenRefused, ProtocolError, StreamError};
pub use event::{Event, Offer};
pub use frame::{Drain, Frame, Header, Hello, MAX_PAYLOAD, Open, OpenUser, StreamId, User, Welcome};
pub use framing::{Deframer, MAX_MESSAGE};
pub use moment::Moment;
