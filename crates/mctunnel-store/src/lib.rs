//! What the hub remembers, in one crash-safe file of its data directory, behind the port [`Store`].
//!
//! It is *not* a database for anybody's use: it knows nothing of what it keeps. One process has the file open at a time; commands
//! speak to a running hub instead of opening it beside the hub.
//!
//! ```
//! use mctunnel_core::store::{Change, Namespace, Store};
//! use mctunnel_store::FileStore;
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let data_dir = directory.path().join("data");
//! const TOKENS: Namespace = Namespace::new("tokens");
//!
//! let store: Arc<dyn Store> = Arc::new(FileStore::open(&data_dir)?);
//! store.put(TOKENS, "t1", b"unused")?;
//!
//! // A token that counts once, however many ask at the same time, and however soon the power fails after the answer.
//! let used = store.update_with(TOKENS, "t1", |before| match before {
//!     Some(b"unused") => (Change::Put(b"used".to_vec()), true),
//!     _ => (Change::Keep, false),
//! })?;
//! assert!(used);
//! # Ok(())
//! # }
//! ```
//!
//! [`Store`]: mctunnel_core::Store

pub mod directory;
pub mod error;
mod file_store;

pub use error::OpenStoreError;
pub use file_store::FileStore;
