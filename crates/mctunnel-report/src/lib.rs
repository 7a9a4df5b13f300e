//! Reports from clusters to their hub: a record is spooled on the agent's disk, sent over a stream of the tunnel, and stored at the hub
//! exactly once, whatever is cut or killed on the way.
//!
//! ```text
//! Source -> Spool (disk) -> send -> stream of the tunnel -> Receiver -> Store (disk) -> queries, sinks
//!                  ^                                          |
//!                  +----- forgets what the hub has synced <---+
//! ```
//!
//! It opens no connections and knows no tunnel: a sender is given a way to [`Connect`], a [`Receiver`] the streams that came. Why it is
//! as it is: ADR 0017; what is on the wire: `proto/mctunnel/report/v1/report.proto`.

pub mod batch;
pub mod error;
pub mod kind;
pub mod receiver;
pub mod record;
pub mod sender;
pub mod sink;
pub mod source;
pub mod spool;
pub mod store;

mod segments;
mod wire;

#[cfg(test)]
mod simulation;

pub use batch::Batch;
pub use error::ReportError;
pub use kind::Kind;
pub use receiver::Receiver;
pub use record::Record;
pub use sender::{Connect, send};
pub use sink::{NotTaken, Sink, feed};
pub use source::{Found, Source, collect};
pub use spool::{AtLimit, LaneConfig, Spool, SpoolId};
pub use store::{Query, Retention, Store, StoreReader, StoredRecord};
