//! What others ask of the list of clusters: the hub at each registration, those who vouch for agents, and enrolment.

use super::{ClusterFiles, RecordedCertificate, record::RecordFile};
use crate::{CaPin, ClusterLedger, EnrolError, FindCluster, IdentityError, ServiceAccount};
use mctunnel_core::{
    ClusterName, Clusters,
    clusters::{Labels, Renewed, Standing},
};
use std::{collections::BTreeMap, error::Error};

/// Reads the record on the calling thread: one small file, which takes less time than handing the work to another.
impl Clusters for ClusterFiles {
    async fn is_known(&self, cluster: &ClusterName) -> bool {
        self.record(cluster).is_ok()
    }

    async fn admits(&self, cluster: &ClusterName, serial: &str) -> bool {
        self.record(cluster).is_ok_and(|record| record.admits(serial))
    }

    async fn admits_own(&self, cluster: &ClusterName) -> bool {
        self.record(cluster).is_ok_and(|record| record.own_ca)
    }

    async fn stands(&self, cluster: &ClusterName, serial: &str) -> Standing {
        self.standing(cluster, |record| record.admits(serial))
    }

    async fn stands_own(&self, cluster: &ClusterName) -> Standing {
        self.standing(cluster, |record| record.own_ca)
    }

    async fn successor(&self, cluster: &ClusterName, serial: &str) -> Option<Renewed> {
        self.record(cluster).ok()?.successor(serial)
    }

    async fn labels(&self, cluster: &ClusterName) -> Labels {
        self.record(cluster).map(|record| record.labels).unwrap_or_default()
    }
}

impl ClusterFiles {
    /// A record that is not there, or does not have what is asked for, is a no. One that cannot be read or is damaged says nothing.
    fn standing(&self, cluster: &ClusterName, admits: impl FnOnce(&RecordFile) -> bool) -> Standing {
        match self.find(cluster) {
            Ok(record) => record.is_some_and(|record| admits(&record)).into(),
            Err(error) => Standing::Unknown(match error.source() {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            }),
        }
    }
}

impl FindCluster for ClusterFiles {
    fn vouched_for_by(&self, account: &ServiceAccount) -> Result<Option<(ClusterName, String)>, IdentityError> {
        let mut found = None;
        for cluster in self.names()? {
            let record = match self.find(&cluster) {
                // A damaged record lets nobody vouch for its own cluster, and is nothing to the others.
                Ok(None) | Err(IdentityError::ClusterRecordInvalid { .. }) => continue,
                record => record?,
            };
            let Some(record) = record.filter(|record| record.is_vouched_for_by(account)) else { continue };
            if found.is_some() {
                // Somebody wrote the files by hand.
                return Ok(None);
            }
            found = Some((cluster, record));
        }
        let counts = |record: &RecordFile| record.revoked.is_none() && !record.epoch.is_empty();
        Ok(found.filter(|(_, record)| counts(record)).map(|(cluster, record)| (cluster, record.epoch)))
    }
}

impl ClusterLedger for ClusterFiles {
    fn enrolled(
        &self,
        cluster: &ClusterName,
        epoch: &str,
        issued: &RecordedCertificate,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), EnrolError> {
        let _lock = self.lock()?;
        let record = self.find(cluster)?.filter(|record| !epoch.is_empty() && record.epoch == epoch);
        let mut record = record.ok_or_else(|| EnrolError::ClusterRevoked(cluster.clone()))?;
        record.list_certificate(issued, None, self.clock.unix_now());
        record.revoked = None;
        if !labels.is_empty() {
            record.labels.clone_from(labels);
        }
        Ok(self.write(cluster, &record)?)
    }

    fn renewed(&self, cluster: &ClusterName, serial: &str, issued: &RecordedCertificate) -> Result<(), EnrolError> {
        let _lock = self.lock()?;
        let record = self.find(cluster)?.filter(|record| record.admits(serial));
        let mut record = record.ok_or_else(|| EnrolError::ClusterRevoked(cluster.clone()))?;
        record.list_certificate(issued, Some(serial), self.clock.unix_now());
        Ok(self.write(cluster, &record)?)
    }

    fn depends_on(&self, authority: &CaPin) -> Result<bool, IdentityError> {
        let now = self.clock.unix_now();
        Ok(self.records()?.iter().any(|(_, record)| record.depends_on(authority, now)))
    }
}
