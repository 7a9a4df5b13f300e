//! Where the cluster's kube-apiserver is, and with which credentials the agent itself talks to it: from the pod it runs in, or
//! from a kubeconfig file. Reading these is this crate's, because Kubernetes says where they are.

use crate::{ApiServer, KubeError};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use mctunnel_core::{Roots, Secret};
use secrecy::ExposeSecret as _;
use std::{
    fmt,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

/// Where the agent's own token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnToken {
    /// In a file that is rewritten now and then.
    File(PathBuf),
    /// Here.
    Fixed(Secret),
}

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

    /// From a kubeconfig file, or a list of them as kubectl takes it, in the current context or the named one.
    pub async fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Self, KubeError> {
        let unusable = |source: KubeconfigError| KubeError::Kubeconfig { path: path.to_owned(), source: source.into() };
        let file = read(path).map_err(unusable)?;
        if has_proxy(&file, context) {
            return Err(KubeError::ProxyUrl);
        }
        let options = KubeConfigOptions { context: context.map(str::to_owned), cluster: None, user: None };
        let config = kube::Config::from_custom_kubeconfig(file, &options).await.map_err(unusable)?;
        Self::from_config(config)
    }

    /// The kube-apiserver as a target.
    #[must_use]
    pub fn api_server(&self) -> &ApiServer {
        &self.server
    }

    /// The agent's own token, if its credentials are one.
    #[must_use]
    pub fn token(&self) -> Option<OwnToken> {
        let auth = &self.config.auth_info;
        match (&auth.token_file, &auth.token) {
            (Some(path), _) => Some(OwnToken::File(path.into())),
            (None, Some(token)) => Some(OwnToken::Fixed(Secret::new(token.expose_secret()))),
            (None, None) => None,
        }
    }

    fn from_config(mut config: kube::Config) -> Result<Self, KubeError> {
        // The client would take the proxy of the environment, which is the one for the way to the hub.
        config.proxy_url = None;
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

    /// The version that the kube-apiserver says it has, as in `v1.33.1`.
    pub async fn kubernetes_version(&self) -> Result<String, KubeError> {
        let unreached = |source: kube::Error| KubeError::Credentials {
            server: self.server.endpoint.to_string(),
            source: source.into(),
        };
        Ok(self.client()?.apiserver_version().await.map_err(unreached)?.git_version)
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

/// What is in a kubeconfig. A path that is no file is a list, as in the variable KUBECONFIG: like kubectl, the first file that has
/// something of a name counts, and one that is not there is passed over.
fn read(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let alone = Kubeconfig::read_from(path);
    if !alone.as_ref().is_err_and(is_not_there) {
        return alone;
    }
    let mut merged: Option<Kubeconfig> = None;
    for file in std::env::split_paths(path).filter(|file| !file.as_os_str().is_empty()) {
        let mut next = match Kubeconfig::read_from(file) {
            Err(error) if is_not_there(&error) => continue,
            next => next?,
        };
        // What kubectl writes when there is none.
        next.current_context = next.current_context.filter(|context| !context.is_empty());
        merged = Some(match merged {
            Some(before) => before.merge(next)?,
            None => next,
        });
    }
    merged.map_or(alone, Ok)
}

fn is_not_there(error: &KubeconfigError) -> bool {
    matches!(error, KubeconfigError::ReadConfig(source, _) if source.kind() == io::ErrorKind::NotFound)
}

/// Whether the cluster of a context is to be reached through a proxy.
fn has_proxy(file: &Kubeconfig, context: Option<&str>) -> bool {
    let wanted = context.or(file.current_context.as_deref());
    let context = file.contexts.iter().find(|one| Some(one.name.as_str()) == wanted);
    let name = context.and_then(|one| one.context.as_ref()).map(|context| context.cluster.as_str());
    let cluster = file.clusters.iter().find(|one| Some(one.name.as_str()) == name);
    let proxy = cluster.and_then(|one| one.cluster.as_ref()).and_then(|cluster| cluster.proxy_url.as_deref());
    proxy.is_some_and(|proxy| !proxy.is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_proxy_of_the_environment_is_not_for_the_kube_apiserver() {
        let mut config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        config.proxy_url = Some("http://proxy.example:3128".parse().unwrap());
        let access = ClusterAccess::from_config(config).unwrap();
        assert!(access.config.proxy_url.is_none());
        assert!(access.client().is_ok());
    }

    #[test]
    fn a_token_is_in_a_file_or_in_the_kubeconfig() {
        let token = |change: fn(&mut kube::config::AuthInfo)| {
            let mut config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
            change(&mut config.auth_info);
            ClusterAccess::from_config(config).unwrap().token()
        };
        assert_eq!(token(|_| {}), None);
        assert_eq!(token(|auth| auth.token = Some("t".into())), Some(OwnToken::Fixed(Secret::new("t"))));
        assert_eq!(token(|auth| auth.token_file = Some("/t".to_owned())), Some(OwnToken::File("/t".into())));
    }

    #[test]
    fn certificates_are_wrapped_as_pem_wants_it() {
        let text = pem(&[vec![0; 60], vec![1]]);
        let lines: Vec<_> = text.lines().map(str::len).collect();
        assert_eq!(lines, [27, 64, 16, 25, 27, 4, 25]);
    }
}
