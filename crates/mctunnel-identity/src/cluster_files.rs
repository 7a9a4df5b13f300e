//! The list of added clusters: one small file each in `<data_dir>/clusters`, read anew whenever it is asked.
//!
//! So a cluster added or removed by another process counts at once. It holds no certificates and no keys.

use crate::{
    IdentityError,
    clock::unix_now,
    private_file::{self, IfExists},
};
use mctunnel_core::{ClusterName, Clusters};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

// === ClusterFiles ===

/// The clusters added to a hub.
#[derive(Debug, Clone)]
pub struct ClusterFiles {
    dir: PathBuf,
}

impl ClusterFiles {
    /// The list in `data_dir`; nothing is read or made yet.
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        Self { dir: data_dir.join("clusters") }
    }

    /// Adds a cluster that the certificate with this serial (lower-case hex) stands for.
    ///
    /// A cluster that is there already is an error; with `reissue` its earlier certificates no longer count instead.
    pub fn add(&self, cluster: &ClusterName, serial: &str, reissue: bool) -> Result<(), IdentityError> {
        private_file::create_directory(&self.dir)?;
        // A damaged record must not stand in the way of writing it anew.
        let earlier = if reissue { self.record(cluster).ok() } else { None };
        let file = RecordFile {
            cluster: cluster.to_string(),
            serials: vec![serial.to_owned()],
            added: earlier.map_or_else(unix_now, |record| record.added_unix),
        };
        let if_exists = if reissue { IfExists::Replace } else { IfExists::Refuse };
        match private_file::write(&self.path(cluster), &file.to_json(), if_exists) {
            Err(IdentityError::FileExists { .. }) => Err(IdentityError::ClusterExists(cluster.clone())),
            written => written,
        }
    }

    /// Removes a cluster: from now on its agent is refused and its name unknown.
    pub fn remove(&self, cluster: &ClusterName) -> Result<(), IdentityError> {
        let path = self.path(cluster);
        match fs::remove_file(&path) {
            Ok(()) => private_file::sync_directory(&self.dir),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(IdentityError::ClusterUnknown(cluster.clone()))
            }
            Err(error) => Err(IdentityError::file("remove", &path)(error)),
        }
    }

    /// All clusters, by name. A damaged record is an error; files of other names are not ours and are passed over.
    pub fn list(&self) -> Result<Vec<ClusterRecord>, IdentityError> {
        let unreadable = || IdentityError::file("read", &self.dir);
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unreadable())?,
        };
        let mut records = Vec::new();
        for entry in entries {
            let name = entry.map_err(unreadable())?.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(".json"));
            if let Some(Ok(cluster)) = stem.map(ClusterName::parse) {
                records.push(self.record(&cluster)?);
            }
        }
        records.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        Ok(records)
    }

    fn record(&self, cluster: &ClusterName) -> Result<ClusterRecord, IdentityError> {
        let path = self.path(cluster);
        let text = fs::read_to_string(&path).map_err(IdentityError::file("read", &path))?;
        let invalid = |reason| IdentityError::ClusterRecordInvalid { path: path.clone(), reason };
        let file: RecordFile = serde_json::from_str(&text).map_err(|e| invalid(e.to_string()))?;
        if file.cluster != cluster.as_str() {
            return Err(invalid("it is of another cluster".to_owned()));
        }
        Ok(ClusterRecord { cluster: cluster.clone(), serials: file.serials, added_unix: file.added })
    }

    fn path(&self, cluster: &ClusterName) -> PathBuf {
        self.dir.join(format!("{cluster}.json"))
    }
}

/// Reads the record on the calling thread: one small file, which takes less time than handing the work to another.
impl Clusters for ClusterFiles {
    async fn is_known(&self, cluster: &ClusterName) -> bool {
        self.record(cluster).is_ok()
    }

    async fn admits(&self, cluster: &ClusterName, serial: &str) -> bool {
        self.record(cluster).is_ok_and(|record| record.serials.iter().any(|s| s == serial))
    }
}

// === ClusterRecord ===

/// One added cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRecord {
    /// Its name.
    pub cluster: ClusterName,
    /// The serials of the certificates that may stand for it, lower-case hex.
    pub serials: Vec<String>,
    /// When it was added, in seconds since 1970.
    pub added_unix: i64,
}

/// The format of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordFile {
    cluster: String,
    serials: Vec<String>,
    added: i64,
}

impl RecordFile {
    fn to_json(&self) -> String {
        #[expect(clippy::expect_used, reason = "strings and a number always serialise")]
        let mut text = serde_json::to_string(self).expect("plain values");
        text.push('\n');
        text
    }
}
