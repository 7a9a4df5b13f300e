//! What can go wrong with certificates, bundles and the files that hold them. Each situation has a stable code and a remedy.

use crate::{ServiceAccount, TokenId};
use mctunnel_core::{ClusterName, ErrorCode};
use std::{
    io,
    path::{Path, PathBuf},
};

/// Something about an identity is missing, wrong or in the way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// Some of the hub's four key and certificate files are there and some are not.
    #[error("{} has some of the hub's files but lacks {missing}", dir.display())]
    PkiIncomplete {
        /// The directory.
        dir: PathBuf,
        /// The names of the missing files.
        missing: String,
    },
    /// One of the hub's files is there but does not hold what it should.
    #[error("{} cannot be used: {reason}", path.display())]
    PkiUnusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The hub's files do not belong together.
    #[error("the files in {} do not belong together: {reason}", dir.display())]
    PkiMismatch {
        /// The directory.
        dir: PathBuf,
        /// Which ones, and how.
        reason: &'static str,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The verb: "read", "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file with a private key can be read by others.
    #[error(
        "{} holds a private key but has mode {mode:04o}, so others can read it: chmod 600 {}",
        path.display(), path.display()
    )]
    FileExposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is for another user alone, who could not read what would be put in its place.
    #[error("{} is another user's", path.display())]
    FileOfAnother {
        /// The file.
        path: PathBuf,
    },
    /// The hub's CA is to be used, and there is none.
    #[error("there is no CA of a hub in {}", data_dir.display())]
    NoAuthority {
        /// The data directory.
        data_dir: PathBuf,
    },
    /// The file is there already and was not to be replaced.
    #[error("{} exists already", path.display())]
    FileExists {
        /// The file.
        path: PathBuf,
    },
    /// A name for the hub's certificate is neither a DNS name nor an IP address.
    #[error("'{0}' is neither a DNS name nor an IP address")]
    InvalidName(String),
    /// A certificate cannot be given that lifetime.
    #[error("a certificate's lifetime must be at least one second and end before the year 9999")]
    InvalidLifetime,
    /// The certificate does not name a cluster in the one way that counts.
    #[error("the certificate names no cluster: {0}")]
    NotAnAgent(String),
    /// The join bundle is malformed or contradicts itself.
    #[error("the join bundle cannot be used: {0}")]
    BundleInvalid(String),
    /// The certificate in the join bundle has run out.
    #[error("the certificate of {cluster} in the join bundle expired on {expired_on}")]
    BundleExpired {
        /// Whose certificate.
        cluster: ClusterName,
        /// The day, as YYYY-MM-DD.
        expired_on: String,
    },
    /// The cluster was added before.
    #[error("cluster {0} was added to this hub already")]
    ClusterExists(ClusterName),
    /// No such cluster was added.
    #[error("cluster {0} was not added to this hub")]
    ClusterUnknown(ClusterName),
    /// The record of a cluster is damaged.
    #[error("{} is not a cluster's record: {reason}", path.display())]
    ClusterRecordInvalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The account vouches for another cluster.
    #[error("ServiceAccount {account} vouches for cluster {cluster} already")]
    AccountTaken {
        /// The account.
        account: ServiceAccount,
        /// For which cluster.
        cluster: ClusterName,
    },
    /// The file with the CA of the hub cannot be used.
    #[error("{} cannot be used to know the hub by: {reason}", path.display())]
    HubCaUnusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The text is not a join token.
    #[error("that is not a join token: {0}")]
    TokenInvalid(&'static str),
    /// No such join token was made, or it ended long ago.
    #[error("there is no join token {0}")]
    TokenNotThere(TokenId),
    /// The record of a join token is damaged.
    #[error("{} is not a join token's record: {reason}", path.display())]
    TokenRecordInvalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The identity that an agent kept is damaged.
    #[error("{} cannot be used: {reason}", path.display())]
    StoreInvalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file with the operator's own CA for agents cannot be used.
    #[error("{} cannot be used as a CA for agents: {reason}", path.display())]
    AgentCaUnusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A change of CAs is under way already.
    #[error("the hub's CA is being changed already")]
    RotationUnderWay,
    /// No change of CAs is under way.
    #[error("the hub has one CA, and no change of it is under way")]
    NoRotation,
    /// The cryptography library refused.
    #[error("cannot {action}")]
    Crypto {
        /// What was tried.
        action: &'static str,
        /// What the library said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl IdentityError {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::PkiIncomplete { .. } => (
                "MCT-IDENTITY-PKI-INCOMPLETE",
                "restore the missing files from a backup; a new CA would shut out every agent and is never made by itself",
            ),
            Self::PkiUnusable { .. } => (
                "MCT-IDENTITY-PKI-UNUSABLE",
                "restore the file from a backup; a new CA would shut out every agent and is never made by itself",
            ),
            Self::PkiMismatch { .. } => {
                ("MCT-IDENTITY-PKI-MISMATCH", "restore all four files of the directory from the same backup")
            }
            Self::File { .. } => {
                ("MCT-IDENTITY-FILE", "check that the path exists, that there is room, and that this user may use it")
            }
            Self::FileExposed { .. } => ("MCT-IDENTITY-FILE-EXPOSED", "chmod 600 FILE"),
            Self::FileExists { .. } => {
                ("MCT-IDENTITY-FILE-EXISTS", "name another file, or say explicitly that it may be overwritten")
            }
            Self::InvalidName(_) => (
                "MCT-IDENTITY-INVALID-NAME",
                "give a DNS name such as hub.example.com, or an IP address, without port or scheme",
            ),
            Self::InvalidLifetime => ("MCT-IDENTITY-INVALID-LIFETIME", "choose a lifetime such as 365 days"),
            Self::NotAnAgent(_) => (
                "MCT-IDENTITY-NOT-AN-AGENT",
                "use the certificate of a join bundle written by 'mctunnel cluster add NAME'",
            ),
            Self::BundleInvalid(_) => (
                "MCT-IDENTITY-BUNDLE-INVALID",
                "use the file as 'mctunnel cluster add NAME' wrote it, or write a new one with '--reissue'",
            ),
            Self::BundleExpired { .. } => (
                "MCT-IDENTITY-BUNDLE-EXPIRED",
                "write a new bundle at the hub with 'mctunnel cluster add NAME --reissue', and check this machine's clock",
            ),
            Self::ClusterExists(_) => (
                "MCT-IDENTITY-CLUSTER-EXISTS",
                "'--reissue' replaces its certificate; 'mctunnel cluster remove NAME' takes it away",
            ),
            Self::ClusterUnknown(_) => (
                "MCT-IDENTITY-CLUSTER-UNKNOWN",
                "check the name and the data directory against 'mctunnel cluster list'",
            ),
            Self::ClusterRecordInvalid { .. } => (
                "MCT-IDENTITY-CLUSTER-RECORD",
                "write it anew with 'mctunnel cluster add NAME --reissue', or delete the file",
            ),
            Self::Crypto { .. } => ("MCT-IDENTITY-CRYPTO", "report this with the log"),
            Self::FileOfAnother { .. }
            | Self::NoAuthority { .. }
            | Self::AccountTaken { .. }
            | Self::HubCaUnusable { .. }
            | Self::TokenInvalid(_)
            | Self::TokenNotThere(_)
            | Self::TokenRecordInvalid { .. }
            | Self::StoreInvalid { .. }
            | Self::AgentCaUnusable { .. }
            | Self::RotationUnderWay
            | Self::NoRotation => return self.code_of_enrolment(),
        };
        ErrorCode { code, remedy }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are in `code`, which names every variant")]
    fn code_of_enrolment(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::FileOfAnother { .. } => {
                ("MCT-IDENTITY-FILE-OWNER", "run the command as the user that the hub runs as, or as root")
            }
            Self::NoAuthority { .. } => {
                ("MCT-IDENTITY-NO-CA", "check --data-dir against that of the hub; a hub that starts makes its CA there")
            }
            Self::AccountTaken { .. } => (
                "MCT-IDENTITY-ACCOUNT-TAKEN",
                "use a ServiceAccount for each cluster; 'mctunnel cluster revoke NAME' takes it from the other, with all it has",
            ),
            Self::HubCaUnusable { .. } => (
                "MCT-IDENTITY-HUB-CA",
                "give what 'mctunnel ca show' prints at the hub, which is pki/ca.pem of its data directory",
            ),
            Self::TokenInvalid(_) => (
                "MCT-IDENTITY-TOKEN-INVALID",
                "copy the whole token as 'mctunnel join-token create' printed it, or make a new one",
            ),
            Self::TokenNotThere(_) => {
                ("MCT-IDENTITY-TOKEN-NOT-THERE", "check the id against 'mctunnel join-token list'")
            }
            Self::TokenRecordInvalid { .. } => {
                ("MCT-IDENTITY-TOKEN-RECORD", "delete the file; the token it was of no longer counts")
            }
            Self::StoreInvalid { .. } => (
                "MCT-IDENTITY-STORE",
                "delete the file and start the agent with a new token from 'mctunnel join-token create'",
            ),
            Self::AgentCaUnusable { .. } => {
                ("MCT-IDENTITY-AGENT-CA", "give a PEM file with the certificate of the CA that issues for your agents")
            }
            Self::RotationUnderWay => (
                "MCT-IDENTITY-ROTATION-UNDER-WAY",
                "'mctunnel ca status' shows it; 'mctunnel ca retire' ends it once all agents have renewed",
            ),
            Self::NoRotation => ("MCT-IDENTITY-NO-ROTATION", "'mctunnel ca rotate' begins one"),
            _ => ("MCT-IDENTITY-CRYPTO", "report this with the log"),
        };
        ErrorCode { code, remedy }
    }

    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    pub(crate) fn crypto<E>(action: &'static str) -> impl FnOnce(E) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        move |source| Self::Crypto { action, source: Box::new(source) }
    }
}
