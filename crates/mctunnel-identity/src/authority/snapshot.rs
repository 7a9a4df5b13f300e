//! The authority as its files are at one moment, read and checked: CAs, the hub's certificate, and the TLS configurations of both.

use super::{
    SignedAgent, issue,
    own_ca::{self, OwnCas},
    pki_files::{self, CA_KEY, CA_PEM, NEXT_KEY, NEXT_PEM, PkiFiles, SERVER_KEY, SERVER_PEM, Stamp},
    server_names::ServerNames,
};
use crate::{
    CaPin, IdentityError, certificate,
    clock::{DAY, SharedClock},
    tls,
};
use mctunnel_core::{ClusterName, Secret};
use rcgen::{Issuer, KeyPair, PublicKeyData};
use rustls::{server::danger::ClientCertVerifier, sign::CertifiedKey};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::{path::Path, sync::Arc, time::Duration};

/// The hub's certificate is renewed when it ends within this time.
const RENEW_BEFORE_END: i64 = 30 * DAY;

// === Authority ===

/// A CA with its key.
pub(super) struct Authority {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) pem: String,
    pub(super) issuer: Issuer<'static, KeyPair>,
    pub(super) pin: CaPin,
}

impl Authority {
    fn read(
        dir: &Path,
        (pem_name, pem): (&str, &str),
        (key_name, key): (&str, &Secret),
    ) -> Result<Self, IdentityError> {
        let unusable = |name: &str, reason| IdentityError::PkiUnusable { path: dir.join(name), reason };
        let key = read_key(key).map_err(|reason| unusable(key_name, reason))?;
        let certificate = read_certificate(pem).map_err(|reason| unusable(pem_name, reason))?;
        let pin = CaPin::of(&certificate).map_err(|reason| unusable(pem_name, reason))?;
        let parsed = certificate::parse(&certificate).map_err(|reason| unusable(pem_name, reason))?;
        let mismatch = |reason| IdentityError::PkiMismatch { dir: dir.to_owned(), reason };
        if !parsed.is_ca() {
            return Err(mismatch("a CA's file holds a certificate that is not of a CA"));
        }
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(mismatch("a CA's key is not the key of its certificate"));
        }
        let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(|e| unusable(pem_name, e.to_string()))?;
        Ok(Self { pem: first_of(pem), certificate, issuer, pin })
    }
}

// === Snapshot ===

/// Why the files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// The authority is opened: it is made if there is none, and the hub's certificate gets the names it should have.
    Opening,
    /// The files have changed under a process that runs. It makes no CA, whatever became of the files; and of two hubs with other
    /// names that share them, neither takes the certificate from the other.
    Running,
}

pub(super) struct Snapshot {
    /// The CA of the hub's own certificate. It issues for agents, too, unless there is a next one.
    pub(super) serving: Authority,
    /// While CAs change: the one that issues for agents and takes over in the end.
    pub(super) next: Option<Authority>,
    pub(super) server: CertificateDer<'static>,
    pub(super) server_key: KeyPair,
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) tunnel: Arc<rustls::ServerConfig>,
    pub(super) enrol: Arc<rustls::ServerConfig>,
    /// The operator's own CAs for agents, if there are any.
    pub(super) own: Option<OwnCas>,
    /// Verifies by the hub's CAs alone.
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    pub(super) stamp: Stamp,
}

impl Snapshot {
    /// Reads the files, makes them when there are none, and renews the hub's certificate when it is time.
    pub(super) fn load(
        data_dir: &Path,
        agent_ca: Option<&Path>,
        names: &ServerNames,
        clock: &SharedClock,
        occasion: Occasion,
    ) -> Result<Self, IdentityError> {
        let now = clock.unix_now();
        let dir = pki_files::dir(data_dir);
        let _lock = pki_files::lock(data_dir)?;
        pki_files::roll_forward(&dir)?;
        let files = match (pki_files::load(&dir)?, occasion) {
            (Some(files), _) => files,
            (None, Occasion::Opening) => pki_files::create(&dir, make_files(names, now)?)?,
            (None, Occasion::Running) => {
                return Err(IdentityError::PkiIncomplete { dir, missing: "all of them".to_owned() });
            }
        };
        let own = agent_ca.map(own_ca::read).transpose()?;
        let serving = Authority::read(&dir, (CA_PEM, &files.ca_pem), (CA_KEY, &files.ca_key))?;
        let next = match &files.next {
            Some((pem, key)) => Some(Authority::read(&dir, (NEXT_PEM, pem), (NEXT_KEY, key))?),
            None => None,
        };
        let (mut server, server_key) = read_server(&dir, &files, &serving)?;
        if ends_soon(&server, now) || occasion == Occasion::Opening && !names.required_are_in(&server) {
            // Keeps the key, so that the renewal is one file replaced by one rename, and no crash can leave a mismatched pair.
            let renewed = issue::server(&serving.issuer, &server_key, names, now)?;
            pki_files::replace_server_certificate(&dir, &renewed.pem())?;
            server = renewed.der().clone();
        }
        let stamp = Stamp::read(data_dir, agent_ca);
        Self::assemble(serving, next, server, server_key, own, clock, stamp)
    }

    fn assemble(
        serving: Authority,
        next: Option<Authority>,
        server: CertificateDer<'static>,
        server_key: KeyPair,
        own: Option<OwnCas>,
        clock: &SharedClock,
        stamp: Stamp,
    ) -> Result<Self, IdentityError> {
        let key = || PrivatePkcs8KeyDer::from(server_key.serialize_der()).into();
        let certified = tls::certified(vec![server.clone()], key())?;
        let whole_chain = tls::certified(vec![server.clone(), serving.certificate.clone()], key())?;
        let hubs: Vec<_> =
            std::iter::once(&serving).chain(&next).map(|authority| authority.certificate.clone()).collect();
        let verifier = tls::agent_verifier(hubs.iter().cloned())?;
        let any = match &own {
            Some(own) => tls::agent_verifier(hubs.iter().chain(&*own.certificates).cloned())?,
            None => Arc::clone(&verifier),
        };
        let tunnel = tls::server(any, Arc::clone(&certified), clock)?;
        let enrol = tls::enrol_server(whole_chain, clock)?;
        Ok(Self { serving, next, server, server_key, certified, tunnel, enrol, own, verifier, stamp })
    }

    /// The hub's CAs.
    pub(super) fn authorities(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        std::iter::once(&self.serving).chain(&self.next).map(|authority| &authority.certificate)
    }

    pub(super) fn authorities_pem(&self) -> String {
        std::iter::once(&self.serving).chain(&self.next).map(|authority| authority.pem.as_str()).collect()
    }

    pub(super) fn sign_agent(
        &self,
        cluster: &ClusterName,
        key: &impl PublicKeyData,
        lifetime: Duration,
        now: i64,
    ) -> Result<SignedAgent, IdentityError> {
        let authority = self.next.as_ref().unwrap_or(&self.serving);
        let (certificate, serial, not_after_unix) = issue::agent(&authority.issuer, key, cluster, lifetime, now)?;
        Ok(SignedAgent {
            certificate_pem: certificate.pem(),
            certificate: certificate.der().clone(),
            serial,
            not_after_unix,
            authority: authority.pin,
        })
    }

    /// Whether it is time to renew the hub's certificate.
    pub(super) fn ends_soon(&self, now: i64) -> bool {
        ends_soon(&self.server, now)
    }

    /// Whether the other says the same, whatever its files look like.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let own = |snapshot: &Self| snapshot.own.as_ref().map(|own| Arc::clone(&own.certificates));
        self.server == other.server && own(self) == own(other) && self.authorities().eq(other.authorities())
    }
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
        next: None,
    })
}

fn read_server(
    dir: &Path,
    files: &PkiFiles,
    ca: &Authority,
) -> Result<(CertificateDer<'static>, KeyPair), IdentityError> {
    let unusable = |name: &str, reason| IdentityError::PkiUnusable { path: dir.join(name), reason };
    let key = read_key(&files.server_key).map_err(|reason| unusable(SERVER_KEY, reason))?;
    let server = read_certificate(&files.server_pem).map_err(|reason| unusable(SERVER_PEM, reason))?;
    check_server(&server, &key, ca).map_err(|reason| IdentityError::PkiMismatch { dir: dir.to_owned(), reason })?;
    Ok((server, key))
}

fn check_server(server: &CertificateDer<'_>, key: &KeyPair, ca: &Authority) -> Result<(), &'static str> {
    let server = certificate::parse(server).map_err(|_| "server.pem cannot be read")?;
    let ca = certificate::parse(&ca.certificate).map_err(|_| "ca.pem cannot be read")?;
    if server.public_key().raw != key.subject_public_key_info() {
        return Err("server.key is not the key of server.pem");
    }
    if server.issuer() != ca.subject() || server.verify_signature(Some(ca.public_key())).is_err() {
        return Err("server.pem was not issued by ca.pem");
    }
    Ok(())
}

fn ends_soon(server: &CertificateDer<'_>, now: i64) -> bool {
    certificate::parse(server).is_ok_and(|server| server.validity().not_after.timestamp() - now < RENEW_BEFORE_END)
}

fn read_key(pem: &Secret) -> Result<KeyPair, String> {
    KeyPair::from_pem(pem.expose()).map_err(|_| "no private key in it that can be read".to_owned())
}

/// The file of the serving CA has the next one behind it while CAs change.
fn first_of(pem: &str) -> String {
    const END: &str = "-----END CERTIFICATE-----";
    pem.split_once(END).map_or_else(|| pem.to_owned(), |(first, _)| format!("{first}{END}\n"))
}

fn read_certificate(pem: &str) -> Result<CertificateDer<'static>, String> {
    let first = certificate::from_pem(pem)?.into_iter().next().ok_or("no certificate in it")?;
    certificate::parse(&first)?;
    Ok(first)
}
