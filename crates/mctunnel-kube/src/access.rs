//! Where the cluster's kube-apiserver is, and with which credentials the agent itself talks to it: from the pod it runs in, or
//! from a kubeconfig file. Reading these is this crate's, because Kubernetes says where they are.

use crate::{ApiServer, KubeError};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::config::{KubeConfigOptions, Kubeconfig};
use mctunnel_core::Roots;
use std::{fmt, fmt::Write as _, path::Path};

/// The way to the kube-apiserver. Prints without credentials.
#[derive(Clone)]
pub struct ClusterAccess {
    config: kube::Config,
    server: ApiServer,
}

impl ClusterAccess {
    /// From the service account of the pod the agent runs in.
    pub fn in_cluster() -> Result<Self, KubeError> {
        let config = kube::Config::incluster().map_err(|source| KubeError::NotInCluster { source: source.into() })?;
        Self::from_config(config)
    }

    /// From a kubeconfig file, in its current context or the named one.
    pub async fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Self, KubeError> {
        let unusable = |source: kube::config::KubeconfigError| KubeError::Kubeconfig {
            path: path.to_owned(),
            source: source.into(),
        };
        let file = Kubeconfig::read_from(path).map_err(unusable)?;
        let options = KubeConfigOptions { context: context.map(str::to_owned), cluster: None, user: None };
        let config = kube::Config::from_custom_kubeconfig(file, &options).await.map_err(unusable)?;
        Self::from_config(config)
    }

    /// The kube-apiserver as a target.
    #[must_use]
    pub fn api_server(&self) -> &ApiServer {
        &self.server
    }

    fn from_config(mut config: kube::Config) -> Result<Self, KubeError> {
        if config.proxy_url.is_some() {
            return Err(KubeError::ProxyUrl);
        }
        // Waiting and trying again is ours, where tests can see it.
        config.default_retry = false;
        let roots = if config.accept_invalid_certs {
            Some(Roots::Unchecked)
        } else {
            config
                .root_cert
                .as_deref()
                .filter(|certificates| !certificates.is_empty())
                .map(|c| Roots::Pem(pem(c).into()))
        };
        let server = ApiServer::parse(&config.cluster_url.to_string(), config.tls_server_name.as_deref(), roots)?;
        Ok(Self { config, server })
    }

    /// A client with the agent's own credentials.
    pub(crate) fn client(&self) -> Result<kube::Client, KubeError> {
        kube::Client::try_from(self.config.clone()).map_err(|source| KubeError::Credentials {
            server: self.server.endpoint.to_string(),
            source: source.into(),
        })
    }
}

impl fmt::Debug for ClusterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAccess").field("server", &self.server.endpoint.to_string()).finish_non_exhaustive()
    }
}

/// Certificates as PEM.
fn pem(certificates: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let mut rest = STANDARD.encode(certificate);
        while !rest.is_empty() {
            let tail = rest.split_off(rest.len().min(64));
            let _ = writeln!(text, "{rest}");
            rest = tail;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}
