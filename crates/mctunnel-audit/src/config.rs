//! What an operator can choose about the record.

use crate::sink::Sink;
use mctunnel_core::Secret;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Where records go, and what happens when they cannot.
#[derive(Debug)]
#[non_exhaustive]
pub struct AuditConfig {
    /// How many requests and streams may be open or unwritten at once. Each costs a few hundred bytes, a kilobyte or two once it
    /// ended and is not written yet. Default: 65,536.
    pub slots: usize,
    /// How many of them may be open or unwritten for one source at once: an address, or with IPv6 a network of 64 bits.
    /// Default: 16,384, a quarter.
    pub slots_per_source: usize,
    /// What happens to a request that finds no slot, or finds that the record cannot be written. Default: refuse. Whose source has
    /// its share is refused in any case.
    pub on_full: OnFull,
    /// A file with rotation. Default: none.
    pub file: Option<FileConfig>,
    /// Standard output, one line each. Default: off.
    pub stdout: bool,
    /// A receiver that is sent every record. Default: none.
    pub webhook: Option<WebhookConfig>,
    /// Other places, of your own. Default: none.
    pub sinks: Vec<Box<dyn Sink>>,
    /// How long what was written may wait until it is made durable; zero syncs each batch. Default: 1 s.
    pub sync_every: Duration,
    /// How long to wait until something that failed is tried again. Default: 250 ms.
    pub retry_every: Duration,
    /// How long closing may wait for something that fails. Default: 5 s.
    pub close_within: Duration,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            slots: 65_536,
            slots_per_source: 16_384,
            on_full: OnFull::Refuse,
            file: None,
            stdout: false,
            webhook: None,
            sinks: Vec::new(),
            sync_every: Duration::from_secs(1),
            retry_every: Duration::from_millis(250),
            close_within: Duration::from_secs(5),
        }
    }
}

/// What happens to what cannot be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFull {
    /// It is refused.
    #[default]
    Refuse,
    /// It is served, and the record says later how many were not recorded.
    DropAndCount,
}

/// A file with rotation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FileConfig {
    /// The file that is written. Files that are full are called after it and after the number of their first record:
    /// `audit.log` becomes `audit-00000000000000000001.log`. Its directory is made if it is missing.
    pub path: PathBuf,
    /// The size at which the next file is begun. Default: 100 MiB.
    pub rotate_bytes: u64,
    /// How many full files are kept. Default: 10.
    pub keep: usize,
    /// Whether other processes of this machine that say so too may write this record as well, each in its turn: one chain, whoever
    /// writes. Default: no.
    pub shared: bool,
    /// How long to wait for a turn until requests are refused. Default: 5 s.
    pub turn_within: Duration,
}

impl FileConfig {
    /// Where a data directory has its audit log.
    pub const IN_DATA_DIR: &'static str = "audit/audit.log";

    /// With the defaults.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let turn_within = Duration::from_secs(5);
        Self { path: path.into(), rotate_bytes: 100 << 20, keep: 10, shared: false, turn_within }
    }

    /// The audit log of a data directory.
    #[must_use]
    pub fn in_data_dir(data_dir: &Path) -> Self {
        Self::new(data_dir.join(Self::IN_DATA_DIR))
    }
}

/// A receiver that is sent every record, in order, at least once, as lines of JSON (`application/x-ndjson`). Anything but a 2xx is
/// tried again; redirects are not followed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WebhookConfig {
    /// `http://` or `https://`.
    pub url: String,
    /// The value of `authorization`, if the receiver wants one.
    pub authorization: Option<Secret>,
    /// Whom to trust; needed for `https://`.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// How many records may wait for the receiver. Default: 65,536.
    pub queue: usize,
    /// What happens when more would wait: refusing holds up the whole record, and with it requests; the other leaves them out for
    /// this receiver alone. Default: refuse.
    pub on_full: OnFull,
    /// The most bytes in one request. Default: 1 MiB.
    pub batch_bytes: usize,
    /// How long the receiver may take. Default: 10 s.
    pub timeout: Duration,
}

impl WebhookConfig {
    /// With the defaults.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            authorization: None,
            tls: None,
            queue: 65_536,
            on_full: OnFull::Refuse,
            batch_bytes: 1 << 20,
            timeout: Duration::from_secs(10),
        }
    }
}
