//! The hub's own certificate authority: made once, kept in `<data_dir>/pki`, and never replaced by itself.
//!
//! It issues the hub's server certificate and the agents' certificates. It does not decide which clusters exist
//! (see [`crate::ClusterFiles`]) and keeps no list of what it issued.

mod issue;
mod pki_files;
mod server_names;

use crate::{
    IdentityError, certificate,
    clock::{DAY, unix_now},
    private_file, tls,
};
use mctunnel_core::{ClusterName, Secret};
use pki_files::{CA_KEY, CA_PEM, PkiFiles, SERVER_KEY, SERVER_PEM};
use rcgen::{Issuer, KeyPair, PublicKeyData};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use server_names::ServerNames;
use std::{fmt, path::Path, sync::Arc, time::Duration};

/// The name in every hub's certificate, which agents check unless told another.
pub const HUB_SERVER_NAME: &str = "mctunnel-hub";

// === HubAuthority ===

/// The CA of one hub, with its key, and the hub's server certificate.
pub struct HubAuthority {
    ca: CertificateDer<'static>,
    ca_pem: String,
    issuer: Issuer<'static, KeyPair>,
    server: CertificateDer<'static>,
    server_key: KeyPair,
}

impl HubAuthority {
    /// Loads the authority of `data_dir`, or makes it when there is none.
    ///
    /// The server certificate is issued anew, with the same key, when it ends within 30 days or lacks one of
    /// `extra_names` (DNS names or IP addresses). The CA is made once: when its files are incomplete, unreadable or do not
    /// belong together, that is an error. Processes that open the same directory at once wait for each other.
    pub fn open_or_create(data_dir: &Path, extra_names: &[String]) -> Result<Self, IdentityError> {
        let names = ServerNames::parse(extra_names)?;
        let now = unix_now();
        private_file::create_directory(data_dir)?;
        let _lock = pki_files::lock(data_dir)?;
        let dir = data_dir.join("pki");
        let files = match pki_files::load(&dir)? {
            Some(files) => files,
            None => pki_files::create(&dir, make_files(&names, now)?)?,
        };
        let mut authority = Self::from_files(&dir, &files)?;
        if !authority.server_certificate_serves(&names, now) {
            authority.renew_server_certificate(&dir, &names, now)?;
        }
        Ok(authority)
    }

    /// The CA's certificate, for those who verify the hub.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The hub's TLS configuration: TLS 1.3, ALPN `h2`, and a client certificate of this CA or no connection.
    pub fn server_config(&self) -> Result<Arc<rustls::ServerConfig>, IdentityError> {
        let key = PrivatePkcs8KeyDer::from(self.server_key.serialize_der());
        tls::server(self.ca.clone(), self.server.clone(), key.into())
    }

    /// The TLS configuration for clients of the hub: TLS 1.3 or 1.2, ALPN `h2` and `http/1.1`, no client certificate.
    pub fn gateway_config(&self) -> Result<Arc<rustls::ServerConfig>, IdentityError> {
        let key = PrivatePkcs8KeyDer::from(self.server_key.serialize_der());
        tls::gateway(self.server.clone(), key.into())
    }

    /// Issues a certificate with a new key for the agent of a cluster.
    pub fn issue_agent(&self, cluster: &ClusterName, lifetime: Duration) -> Result<IssuedAgent, IdentityError> {
        issue::agent(&self.issuer, cluster, lifetime, unix_now())
    }

    fn from_files(dir: &Path, files: &PkiFiles) -> Result<Self, IdentityError> {
        let unusable = |name: &str, reason| IdentityError::PkiUnusable { path: dir.join(name), reason };
        let ca_key = read_key(&files.ca_key).map_err(|reason| unusable(CA_KEY, reason))?;
        let ca = read_certificate(&files.ca_pem).map_err(|reason| unusable(CA_PEM, reason))?;
        let server_key = read_key(&files.server_key).map_err(|reason| unusable(SERVER_KEY, reason))?;
        let server = read_certificate(&files.server_pem).map_err(|reason| unusable(SERVER_PEM, reason))?;
        check_set(&ca, &ca_key, &server, &server_key)
            .map_err(|reason| IdentityError::PkiMismatch { dir: dir.to_owned(), reason })?;
        let issuer = Issuer::from_ca_cert_der(&ca, ca_key).map_err(|e| unusable(CA_PEM, e.to_string()))?;
        Ok(Self { ca, ca_pem: files.ca_pem.clone(), issuer, server, server_key })
    }

    fn server_certificate_serves(&self, names: &ServerNames, now: i64) -> bool {
        certificate::parse(&self.server).is_ok_and(|server| {
            server.validity().not_after.timestamp() - now >= RENEW_BEFORE_END && names.required_are_in(&server)
        })
    }

    /// Keeps the key, so that the renewal is one file replaced by one rename, and no crash can leave a mismatched pair.
    fn renew_server_certificate(&mut self, dir: &Path, names: &ServerNames, now: i64) -> Result<(), IdentityError> {
        let renewed = issue::server(&self.issuer, &self.server_key, names, now)?;
        pki_files::replace_server_certificate(dir, &renewed.pem())?;
        self.server = renewed.der().clone();
        Ok(())
    }
}

impl fmt::Debug for HubAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubAuthority").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

// === IssuedAgent ===

/// What the agent of a cluster needs to prove who it is.
#[derive(Debug, Clone)]
pub struct IssuedAgent {
    /// Its certificate.
    pub certificate_pem: String,
    /// The key of the certificate.
    pub key_pem: Secret,
    /// The certificate's serial number, lower-case hex.
    pub serial: String,
    /// When the certificate ends, in seconds since 1970.
    pub not_after_unix: i64,
}

// === making and checking the set of files ===

fn make_files(names: &ServerNames, now: i64) -> Result<PkiFiles, IdentityError> {
    let (ca_pem, issuer) = issue::authority(now)?;
    let server_key = issue::new_key()?;
    let server = issue::server(&issuer, &server_key, names, now)?;
    Ok(PkiFiles {
        ca_pem,
        ca_key: Secret::new(issuer.key().serialize_pem()),
        server_pem: server.pem(),
        server_key: Secret::new(server_key.serialize_pem()),
    })
}

fn read_key(pem: &Secret) -> Result<KeyPair, String> {
    KeyPair::from_pem(pem.expose()).map_err(|_| "no private key in it that can be read".to_owned())
}

fn read_certificate(pem: &str) -> Result<CertificateDer<'static>, String> {
    let first = certificate::from_pem(pem)?.into_iter().next().ok_or("no certificate in it")?;
    certificate::parse(&first)?;
    Ok(first)
}

fn check_set(
    ca: &CertificateDer<'_>,
    ca_key: &KeyPair,
    server: &CertificateDer<'_>,
    server_key: &KeyPair,
) -> Result<(), &'static str> {
    let ca = certificate::parse(ca).map_err(|_| "ca.pem cannot be read")?;
    let server = certificate::parse(server).map_err(|_| "server.pem cannot be read")?;
    if !ca.is_ca() {
        return Err("ca.pem is not the certificate of a CA");
    }
    if ca.public_key().raw != ca_key.subject_public_key_info() {
        return Err("ca.key is not the key of ca.pem");
    }
    if server.public_key().raw != server_key.subject_public_key_info() {
        return Err("server.key is not the key of server.pem");
    }
    if server.issuer() != ca.subject() || server.verify_signature(Some(ca.public_key())).is_err() {
        return Err("server.pem was not issued by ca.pem");
    }
    Ok(())
}

const RENEW_BEFORE_END: i64 = 30 * DAY;
