//! The list of added clusters: one small file each in `<data_dir>/clusters`, read anew whenever it is asked.
//!
//! So a cluster added, renewed, revoked or removed by another process counts at once. It holds no keys.

mod ports;
mod record;

pub use record::{ClusterRecord, RecordedCertificate};

use crate::{
    CaPin, IdentityError, ServiceAccount,
    clock::{SharedClock, SystemClock},
    file_lock,
    private_file::{self, IfExists},
};
use mctunnel_core::ClusterName;
use record::{RecordFile, new_epoch};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

// === ClusterFiles ===

/// The clusters added to a hub.
#[derive(Debug, Clone)]
pub struct ClusterFiles {
    dir: PathBuf,
    clock: SharedClock,
}

/// What there is of the list: one record that cannot be read is nothing to the others.
#[derive(Debug)]
#[non_exhaustive]
pub struct ClusterList {
    /// The clusters whose records can be read, by name.
    pub clusters: Vec<ClusterRecord>,
    /// The others, each with what is wrong. They stand for nobody.
    pub unread: Vec<(ClusterName, IdentityError)>,
}

impl ClusterFiles {
    /// The list in `data_dir`; nothing is read or made yet.
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        Self { dir: data_dir.join("clusters"), clock: Arc::new(SystemClock) }
    }

    /// Takes the time from this clock instead of the machine's.
    #[must_use]
    pub fn with_clock(mut self, clock: SharedClock) -> Self {
        self.clock = clock;
        self
    }

    /// Adds a cluster that the certificate with this serial (lower-case hex) stands for.
    ///
    /// A cluster that is there already is an error; with `reissue` its earlier certificates no longer count instead.
    pub fn add(&self, cluster: &ClusterName, serial: &str, reissue: bool) -> Result<(), IdentityError> {
        self.add_with(cluster, reissue, |record, _| record.list_serial(serial))
    }

    /// As [`ClusterFiles::add`], for a certificate of which more is known than the serial.
    pub fn add_issued(
        &self,
        cluster: &ClusterName,
        issued: &RecordedCertificate,
        reissue: bool,
    ) -> Result<(), IdentityError> {
        self.add_with(cluster, reissue, |record, now| record.list_certificate(issued, None, now))
    }

    /// Makes sure that the cluster is known, and gives its epoch: what is promised to the cluster counts until that changes.
    pub fn ensure(&self, cluster: &ClusterName) -> Result<String, IdentityError> {
        let _lock = self.lock()?;
        let record = match self.find(cluster)? {
            // Nothing is written that does not change: a running hub stands on this file.
            Some(record) if !record.epoch.is_empty() => return Ok(record.epoch),
            // A record of an earlier version.
            Some(mut record) => {
                record.epoch = new_epoch()?;
                record
            }
            None => RecordFile::new(cluster, self.clock.unix_now())?,
        };
        self.write(cluster, &record)?;
        Ok(record.epoch)
    }

    /// The epoch of a cluster that is known and not revoked: for evidence that was not made for one epoch, as a token is.
    pub fn epoch(&self, cluster: &ClusterName) -> Result<Option<String>, IdentityError> {
        let record = self.find(cluster)?.filter(|record| record.revoked.is_none() && !record.epoch.is_empty());
        Ok(record.map(|record| record.epoch))
    }

    /// Lets certificates of the operator's own CA stand for the cluster, which is added if it is not there.
    pub fn allow_own_ca(&self, cluster: &ClusterName) -> Result<(), IdentityError> {
        let _lock = self.lock()?;
        let mut record = match self.find(cluster)? {
            Some(record) => record,
            None => RecordFile::new(cluster, self.clock.unix_now())?,
        };
        (record.own_ca, record.revoked) = (true, None);
        self.write(cluster, &record)
    }

    /// Lets a ServiceAccount of the hub's own cluster vouch for the agent of the cluster, which is added if it is not there. It takes
    /// the place of the account that could before.
    ///
    /// One account vouches for one cluster: so the cluster follows from the account, and an agent has no say in it.
    pub fn allow_service_account(&self, cluster: &ClusterName, account: &ServiceAccount) -> Result<(), IdentityError> {
        let _lock = self.lock()?;
        // Also of those that cannot be read: it cannot be said for whom they are.
        let of_another =
            |(other, record): &&(ClusterName, RecordFile)| other != cluster && record.is_vouched_for_by(account);
        if let Some((other, _)) = self.records()?.iter().find(of_another) {
            return Err(IdentityError::AccountTaken { account: account.clone(), cluster: other.clone() });
        }
        let mut record = match self.find(cluster)? {
            Some(record) => record,
            None => RecordFile::new(cluster, self.clock.unix_now())?,
        };
        record.let_vouch(account)?;
        self.write(cluster, &record)
    }

    /// Revokes a cluster: no certificate, no join token and no ServiceAccount that it has counts from now on. It stays known.
    pub fn revoke(&self, cluster: &ClusterName) -> Result<(), IdentityError> {
        let _lock = self.lock()?;
        let Some(mut record) = self.find(cluster)? else {
            return Err(IdentityError::ClusterUnknown(cluster.clone()));
        };
        record.revoke(self.clock.unix_now())?;
        self.write(cluster, &record)
    }

    /// Removes a cluster: from now on its agent is refused and its name unknown.
    pub fn remove(&self, cluster: &ClusterName) -> Result<(), IdentityError> {
        let path = self.path(cluster);
        if !self.dir.is_dir() {
            return Err(IdentityError::ClusterUnknown(cluster.clone()));
        }
        // Else one who has read the record to change it would write it again.
        let _lock = self.lock()?;
        match fs::remove_file(&path) {
            Ok(()) => private_file::sync_directory(&self.dir),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(IdentityError::ClusterUnknown(cluster.clone()))
            }
            Err(error) => Err(IdentityError::file("remove", &path)(error)),
        }
    }

    /// When the list was last changed, by whichever process; `None` if there is none yet.
    #[must_use]
    pub fn changed(&self) -> Option<SystemTime> {
        // Records are replaced by renaming, which changes the directory.
        fs::metadata(&self.dir).and_then(|directory| directory.modified()).ok()
    }

    /// All clusters, by name. A damaged record is an error; files of other names are not ours and are passed over.
    pub fn list(&self) -> Result<Vec<ClusterRecord>, IdentityError> {
        let view = |(cluster, record): &(ClusterName, RecordFile)| record.view(cluster);
        Ok(self.records()?.iter().map(view).collect())
    }

    /// As [`ClusterFiles::list`], without those that cannot be read, which are told apart. Only when it cannot be said which clusters there
    /// are, that is an error.
    pub fn list_readable(&self) -> Result<ClusterList, IdentityError> {
        let mut list = ClusterList { clusters: Vec::new(), unread: Vec::new() };
        for cluster in self.names()? {
            match self.find(&cluster) {
                Ok(Some(record)) => list.clusters.push(record.view(&cluster)),
                // Removed since the names were read.
                Ok(None) => {}
                Err(error) => list.unread.push((cluster, error)),
            }
        }
        Ok(list)
    }

    /// The clusters whose agents know no other CA than this one, or of which that cannot be said: they are shut out when it goes.
    pub fn in_need_of(&self, authority: &CaPin) -> Result<Vec<ClusterName>, IdentityError> {
        let now = self.clock.unix_now();
        let records = self.records()?.into_iter();
        Ok(records.filter(|(_, record)| record.still_needs(authority, now)).map(|(cluster, _)| cluster).collect())
    }
}

// === files ===

impl ClusterFiles {
    fn add_with(
        &self,
        cluster: &ClusterName,
        reissue: bool,
        list: impl FnOnce(&mut RecordFile, i64),
    ) -> Result<(), IdentityError> {
        let _lock = self.lock()?;
        let now = self.clock.unix_now();
        // A damaged record must not stand in the way of writing it anew, and is there all the same.
        let mut record = match self.find(cluster) {
            Ok(Some(mut record)) if reissue => {
                record.begin_anew()?;
                record.revoked = None;
                record
            }
            Ok(None) => RecordFile::new(cluster, now)?,
            Err(_) if reissue => RecordFile::new(cluster, now)?,
            Ok(Some(_)) | Err(_) => return Err(IdentityError::ClusterExists(cluster.clone())),
        };
        list(&mut record, now);
        self.write(cluster, &record)
    }

    fn records(&self) -> Result<Vec<(ClusterName, RecordFile)>, IdentityError> {
        let mut records = Vec::new();
        for cluster in self.names()? {
            let record = self.record(&cluster)?;
            records.push((cluster, record));
        }
        Ok(records)
    }

    /// The names of the clusters that have a record, sorted.
    fn names(&self) -> Result<Vec<ClusterName>, IdentityError> {
        let unreadable = || IdentityError::file("read", &self.dir);
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unreadable())?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(unreadable())?.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(".json"));
            if let Some(Ok(cluster)) = stem.map(ClusterName::parse) {
                names.push(cluster);
            }
        }
        names.sort();
        Ok(names)
    }

    fn find(&self, cluster: &ClusterName) -> Result<Option<RecordFile>, IdentityError> {
        match self.record(cluster) {
            Ok(record) => Ok(Some(record)),
            Err(IdentityError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn record(&self, cluster: &ClusterName) -> Result<RecordFile, IdentityError> {
        let path = self.path(cluster);
        let text = fs::read_to_string(&path).map_err(IdentityError::file("read", &path))?;
        let invalid = |reason| IdentityError::ClusterRecordInvalid { path: path.clone(), reason };
        let record = RecordFile::parse(&text).map_err(invalid)?;
        if record.cluster != cluster.as_str() {
            return Err(invalid("it is of another cluster".to_owned()));
        }
        Ok(record)
    }

    fn write(&self, cluster: &ClusterName, record: &RecordFile) -> Result<(), IdentityError> {
        private_file::write_kept(&self.path(cluster), &record.to_json(), IfExists::Replace)
    }

    /// Keeps other processes from changing records; reading needs no lock.
    fn lock(&self) -> Result<fs::File, IdentityError> {
        private_file::create_directory_kept(&self.dir)?;
        file_lock::lock(&self.dir.with_extension("lock"))
    }

    fn path(&self, cluster: &ClusterName) -> PathBuf {
        self.dir.join(format!("{cluster}.json"))
    }
}
