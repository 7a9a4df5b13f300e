//! What is known of one cluster: as others see it, and as its file holds it. It knows no paths.

use crate::{CaPin, IdentityError, ServiceAccount, ca_pin::to_hex, tls};
use mctunnel_core::{ClusterName, clusters::Renewed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most certificates of a cluster that count at once. An agent has two while it renews; more is somebody who keeps asking.
const MOST_CERTIFICATES: usize = 16;

// === ClusterRecord ===

/// One added cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterRecord {
    /// Its name.
    pub cluster: ClusterName,
    /// The serials of the certificates that may stand for it, lower-case hex.
    pub serials: Vec<String>,
    /// When it was added, in seconds since 1970.
    pub added_unix: i64,
    /// What is promised to the cluster counts as long as this stays: see [`crate::JoinTokenRecord::epoch`].
    pub epoch: String,
    /// Since when it is out because it was revoked, in seconds since 1970; until somebody lets it in again.
    pub revoked_unix: Option<i64>,
    /// Whether certificates of the operator's own CA may stand for it.
    pub own_ca: bool,
    /// The ServiceAccount of the hub's own cluster that may vouch for its agent.
    pub service_account: Option<ServiceAccount>,
    /// What its join token said about it.
    pub labels: BTreeMap<String, String>,
}

/// A certificate that was issued to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCertificate {
    /// Its serial, lower-case hex.
    pub serial: String,
    /// When it ends, in seconds since 1970.
    pub not_after_unix: i64,
    /// The CA that issued it.
    pub authority: CaPin,
}

// === RecordFile ===

/// The format of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordFile {
    pub(super) cluster: String,
    /// Certificates of which nothing but the serial is known.
    serials: Vec<String>,
    added: i64,
    /// Changes when the cluster is revoked: what was promised before no longer counts.
    #[serde(default)]
    pub(super) epoch: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    certificates: Vec<CertificateLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revoked: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) own_ca: bool,
    /// `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_account: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificateLine {
    serial: String,
    not_after: i64,
    /// The pin of the CA that issued it.
    authority: String,
    /// The serial of the certificate it was renewed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    renews: Option<String>,
}

impl RecordFile {
    /// A cluster for which nothing counts yet.
    pub(super) fn new(cluster: &ClusterName, now: i64) -> Result<Self, IdentityError> {
        Ok(Self {
            cluster: cluster.to_string(),
            serials: Vec::new(),
            added: now,
            epoch: new_epoch()?,
            certificates: Vec::new(),
            revoked: None,
            own_ca: false,
            service_account: None,
            labels: BTreeMap::new(),
        })
    }

    /// `Err` says what is wrong with the text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let record: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if record.service_account.as_deref().is_some_and(|account| ServiceAccount::parse(account).is_none()) {
            return Err("its service account is none".to_owned());
        }
        Ok(record)
    }

    pub(super) fn to_json(&self) -> String {
        #[expect(clippy::expect_used, reason = "strings and numbers always serialise")]
        let mut text = serde_json::to_string(self).expect("plain values");
        text.push('\n');
        text
    }

    pub(super) fn view(&self, cluster: &ClusterName) -> ClusterRecord {
        let issued = self.certificates.iter().map(|line| &line.serial);
        ClusterRecord {
            cluster: cluster.clone(),
            serials: self.serials.iter().chain(issued).cloned().collect(),
            added_unix: self.added,
            epoch: self.epoch.clone(),
            revoked_unix: self.revoked,
            own_ca: self.own_ca,
            service_account: self.service_account.as_deref().and_then(ServiceAccount::parse),
            labels: self.labels.clone(),
        }
    }

    pub(super) fn admits(&self, serial: &str) -> bool {
        self.serials.iter().any(|listed| listed == serial) || self.certificates.iter().any(|line| line.serial == serial)
    }

    /// Whether the account may vouch for the cluster.
    pub(super) fn is_vouched_for_by(&self, account: &ServiceAccount) -> bool {
        self.service_account.as_deref().and_then(ServiceAccount::parse).as_ref() == Some(account)
    }

    pub(super) fn successor(&self, serial: &str) -> Option<Renewed> {
        let renewed = self.certificates.iter().filter(|line| line.renews.as_deref() == Some(serial));
        let last = renewed.max_by_key(|line| line.not_after)?;
        Some(Renewed { serial: last.serial.clone(), not_after_unix: last.not_after })
    }

    /// Whether a certificate of that CA may still be in use: one that has not ended, or one of which only the serial is known. Who
    /// comes by the operator's own CA knows the hub by a file of which nothing is known here.
    pub(super) fn depends_on(&self, authority: &CaPin, now: i64) -> bool {
        self.own_ca || !self.serials.is_empty() || self.living_of(authority, now).next().is_some()
    }

    /// As [`RecordFile::depends_on`], but a certificate that was renewed is not needed any more.
    pub(super) fn still_needs(&self, authority: &CaPin, now: i64) -> bool {
        let mut living = self.living_of(authority, now);
        self.own_ca || !self.serials.is_empty() || living.any(|line| self.successor(&line.serial).is_none())
    }

    fn living_of(&self, authority: &CaPin, now: i64) -> impl Iterator<Item = &CertificateLine> {
        let authority = authority.to_string();
        self.certificates.iter().filter(move |line| line.authority == authority && line.not_after >= now)
    }

    // === changes ===

    /// Lists a serial of which nothing else is known.
    pub(super) fn list_serial(&mut self, serial: &str) {
        self.serials.push(serial.to_owned());
    }

    /// Lists a certificate. Those that have ended go, and the oldest when there are too many.
    pub(super) fn list_certificate(&mut self, issued: &RecordedCertificate, renews: Option<&str>, now: i64) {
        self.certificates.retain(|line| line.not_after >= now);
        let mut excess = (self.certificates.len() + 1).saturating_sub(MOST_CERTIFICATES);
        // New ones are listed at the end, so the first is the oldest. The one that is being renewed stays.
        self.certificates.retain(|line| {
            let goes = excess > 0 && renews != Some(&line.serial);
            excess -= usize::from(goes);
            !goes
        });
        self.certificates.push(CertificateLine {
            serial: issued.serial.clone(),
            not_after: issued.not_after_unix,
            authority: issued.authority.to_string(),
            renews: renews.map(str::to_owned),
        });
    }

    /// Lets the account vouch for the cluster, in place of the one before.
    pub(super) fn let_vouch(&mut self, account: &ServiceAccount) -> Result<(), IdentityError> {
        if self.epoch.is_empty() {
            // A record of an earlier version.
            self.epoch = new_epoch()?;
        }
        self.service_account = Some(account.to_string());
        self.revoked = None;
        Ok(())
    }

    /// From now on nothing that was issued or promised before counts.
    pub(super) fn revoke(&mut self, now: i64) -> Result<(), IdentityError> {
        self.begin_anew()?;
        self.own_ca = false;
        self.service_account = None;
        self.revoked = Some(now);
        Ok(())
    }

    /// Forgets the certificates, and with the epoch the tokens.
    pub(super) fn begin_anew(&mut self) -> Result<(), IdentityError> {
        self.serials.clear();
        self.certificates.clear();
        self.epoch = new_epoch()?;
        Ok(())
    }
}

/// Random, so that a cluster that is removed and added again does not come back to an epoch it had.
pub(super) fn new_epoch() -> Result<String, IdentityError> {
    Ok(to_hex(&tls::random::<8>()?))
}
