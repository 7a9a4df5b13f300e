//! The record of every request and stream: one JSON line each, numbered, chained by hashes, written by one thread.
//!
//! It implements the port [`Audit`] and is *not* the log of the program: it says who did what, not how the program fares. A request
//! takes its slot before it is served; when there is none, or the record cannot be written, the request is refused.
//!
//! ```
//! use mctunnel_audit::{AuditConfig, AuditLog, FileConfig, Layout, verify};
//! use mctunnel_core::{Action, Audit, AuditOutcome, AuditSubject, ClusterName, Decision, Destination, Target, User};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let data_dir = directory.path();
//! let mut config = AuditConfig::default();
//! config.file = Some(FileConfig::in_data_dir(data_dir));
//! let log = AuditLog::open(config)?;
//!
//! // Before anything is opened for a request: no slot, no request.
//! let slot = log.begin()?;
//! let target = Target::KubeApi;
//! let subject = AuditSubject {
//!     request_id: "4f1c".into(),
//!     gateway: "http",
//!     identity: Some(User::new("alice", "keys").into()),
//!     source: None,
//!     cluster: None,
//!     action: Some(Action::of_http(&target, "GET", "/api/v1/namespaces/kube-system/pods")?),
//!     destination: Some(Destination { cluster: ClusterName::parse("cluster-a")?, target }),
//!     decision: Some(Decision::allowed("admins")),
//! };
//! let outcome =
//!     AuditOutcome { status: 200, bytes_up: 0, bytes_down: 4096, lasted: Duration::from_millis(12), error: None };
//! slot.finish(&subject, &outcome);
//! log.close()?;
//!
//! // The record holds: it was opened, the request, it was closed.
//! let layout = Layout::of(&data_dir.join(FileConfig::IN_DATA_DIR));
//! let known = layout.read_head()?;
//! let verified = verify(&layout.files()?, known.as_slice())?;
//! assert_eq!(verified.records, 3);
//! # Ok(())
//! # }
//! ```
//!
//! [`Audit`]: mctunnel_core::Audit

mod chain;
pub mod config;
pub mod error;
mod json;
mod layout;
mod log;
mod pending;
mod read;
pub mod recipient;
mod record;
mod recover;
mod redact;
pub mod sink;
mod slot;
mod slots;
mod status;
mod strangers;
mod turn;
mod verify;
mod writer;

pub use chain::{Hash, Head};
pub use config::{AuditConfig, FileConfig, OnFull, WebhookConfig};
pub use error::AuditError;
pub use layout::Layout;
pub use log::AuditLog;
pub use read::Record;
pub use recipient::{InvalidRecipient, NotSent, Recipient, RecipientConfig};
pub use record::Fact;
pub use sink::{Batch, Sink};
pub use status::AuditStatus;
pub use verify::{Broken, Problem, Verified, VerifyError, verify};
