//! What can be wrong with the way to the kube-apiserver. Each situation has a stable code and a remedy.

use mctunnel_core::ErrorCode;
use std::path::PathBuf;

/// The agent cannot know its cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubeError {
    /// The agent does not run in a pod, or its pod has no service account.
    #[error("this is not a pod with a service account")]
    NotInCluster {
        /// What was missing.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kubeconfig file cannot be read, or does not hold what it should.
    #[error("{} cannot be used as kubeconfig", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The address of the kube-apiserver is not one the agent can dial.
    #[error("the kube-apiserver's address {url} cannot be used: {reason}")]
    BadServerUrl {
        /// The address as it was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing says who may have signed the kube-apiserver's certificate.
    #[error("no certificate authority is given for {server}")]
    NoAuthority {
        /// The kube-apiserver.
        server: String,
    },
    /// The kubeconfig wants the kube-apiserver reached through a proxy.
    #[error("the kubeconfig has a proxy-url, and the agent dials the kube-apiserver directly")]
    ProxyUrl,
    /// The credentials cannot be used.
    #[error("the credentials for {server} cannot be used")]
    Credentials {
        /// The kube-apiserver.
        server: String,
        /// What is wrong with them.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl KubeError {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::NotInCluster { .. } => (
                "MCT-KUBE-NOT-IN-CLUSTER",
                "run the agent in a pod with a service account, or give it a kubeconfig file with --kubeconfig",
            ),
            Self::Kubeconfig { .. } => (
                "MCT-KUBE-KUBECONFIG",
                "check with 'kubectl --kubeconfig FILE config view' that the file, its context and the files it names can be read",
            ),
            Self::BadServerUrl { .. } => {
                ("MCT-KUBE-SERVER-URL", "give the server as https://HOST:PORT, without path or user")
            }
            Self::NoAuthority { .. } => (
                "MCT-KUBE-NO-AUTHORITY",
                "add certificate-authority or certificate-authority-data to the cluster in the kubeconfig",
            ),
            Self::ProxyUrl => (
                "MCT-KUBE-PROXY-URL",
                "delete proxy-url from the kubeconfig, and run the agent where it needs no proxy",
            ),
            Self::Credentials { .. } => (
                "MCT-KUBE-CREDENTIALS",
                "check with 'kubectl --kubeconfig FILE get --raw /version' that the user of the kubeconfig is accepted",
            ),
        };
        ErrorCode { code, remedy }
    }
}
