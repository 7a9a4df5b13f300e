//! A pool of CAs of one provider, and what is read from a certificate that one of them vouches for. The listener has seen that the
//! client has the key; here it is decided whether the certificate counts for this provider, now.

#[cfg(test)]
mod tests;

use crate::{
    clock,
    digest::{self, Digest, hex},
    recent::Recent,
};
use mctunnel_core::{ClientCertificate, User};
use parking_lot::Mutex;
use rustls::{
    CertificateError, RootCertStore,
    crypto::aws_lc_rs,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, UnixTime, pem::PemObject};
use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};
use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, ParsedExtension},
    oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME,
    prelude::FromDer,
    x509::AttributeTypeAndValue,
};

/// How many verified chains are remembered.
const ROOM: usize = 4 * 1024;

/// Certificates of CAs, and who was verified against them.
pub(crate) struct Pool {
    authorities: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ClientCertVerifier>,
    /// A chain that was verified counts again without its signatures being checked: the pool never changes, and the time is
    /// looked at anew.
    verified: Mutex<Recent<Digest, Arc<Leaf>>>,
}

/// Why a certificate does not count.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotVerified {
    /// It does not come from this pool.
    NotOurs,
    /// It does, and is not good.
    Bad(&'static str),
}

impl Pool {
    /// Reads PEM, one certificate or more; `Err` says what is wrong.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let authorities: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(pem)
                .collect::<Result<_, _>>()
                .map_err(|error| format!("the CA certificates are not PEM: {error}"))?;
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone()).map_err(|error| format!("a CA certificate cannot be used: {error}"))?;
        }
        if roots.is_empty() {
            return Err("there is no CA certificate".to_owned());
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| format!("the CA certificates cannot be used: {error}"))?;
        Ok(Self { authorities, verifier, verified: Mutex::new(Recent::with_room(ROOM)) })
    }

    /// The CAs' certificates, DER.
    pub(crate) fn authorities(&self) -> Vec<Vec<u8>> {
        self.authorities.iter().map(|authority| authority.to_vec()).collect()
    }

    pub(crate) fn verify(&self, shown: &ClientCertificate, now: SystemTime) -> Result<Arc<Leaf>, NotVerified> {
        let digest = digest::of_parts(shown.chain.iter().map(Vec::as_slice));
        let leaf = self.verified.lock().get(&digest).cloned();
        let leaf = match leaf {
            Some(leaf) => leaf,
            None => {
                let leaf = Arc::new(self.verify_anew(shown, now)?);
                self.verified.lock().insert(digest, Arc::clone(&leaf));
                leaf
            }
        };
        leaf.check_dates(now)?;
        Ok(leaf)
    }

    fn verify_anew(&self, shown: &ClientCertificate, now: SystemTime) -> Result<Leaf, NotVerified> {
        let chain: Vec<CertificateDer<'_>> =
            shown.chain.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
        let (own, issuers) = chain.split_first().ok_or(NotVerified::NotOurs)?;
        let seconds = UnixTime::since_unix_epoch(Duration::from_secs(clock::unix(now)));
        self.verifier.verify_client_cert(own, issuers, seconds).map_err(|error| why(&error))?;
        Leaf::read(&shown.chain).map_err(NotVerified::Bad)
    }
}

fn why(error: &rustls::Error) -> NotVerified {
    let rustls::Error::InvalidCertificate(error) = error else {
        return NotVerified::Bad("the certificate is not valid");
    };
    if matches!(error, CertificateError::UnknownIssuer | CertificateError::BadSignature) {
        return NotVerified::NotOurs;
    }
    let expired = matches!(error, CertificateError::Expired | CertificateError::ExpiredContext { .. });
    let too_early = matches!(error, CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. });
    let purpose = matches!(error, CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. });
    NotVerified::Bad(match (expired, too_early, purpose) {
        (true, _, _) => EXPIRED,
        (_, true, _) => TOO_EARLY,
        (_, _, true) => NOT_FOR_CLIENTS,
        (false, false, false) => "the certificate is not valid",
    })
}

const EXPIRED: &str = "the certificate has expired";
const TOO_EARLY: &str = "the certificate is not valid yet";
const NOT_FOR_CLIENTS: &str = "the certificate is not for clients: it lacks the extended key usage clientAuth";

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("authorities", &self.authorities.len()).finish_non_exhaustive()
    }
}

// === Leaf ===

/// What a verified certificate says of its owner.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// The common names of its subject, in order.
    pub(crate) common_names: Vec<String>,
    /// The organisations of its subject.
    pub(crate) organizations: Vec<String>,
    /// The URIs among its subject alternative names.
    pub(crate) uris: Vec<String>,
    /// Lower-case hex without leading zero bytes.
    pub(crate) serial: String,
    /// The last moment at which every certificate of the chain is valid, in seconds since 1970.
    pub(crate) not_after: u64,
    /// The first.
    not_before: u64,
    /// The user that the one provider of the pool has made of it, or why it has not.
    pub(crate) user: OnceLock<Result<Arc<User>, String>>,
}

impl Leaf {
    fn read(chain: &[Vec<u8>]) -> Result<Self, &'static str> {
        let (own, issuers) = chain.split_first().ok_or("no certificate was shown")?;
        let own = parse(own)?;
        if !own.extended_key_usage().ok().flatten().is_some_and(|usage| usage.value.client_auth) {
            return Err(NOT_FOR_CLIENTS);
        }
        let (mut not_before, mut not_after) = dates(&own);
        for issuer in issuers {
            let (begins, ends) = dates(&parse(issuer)?);
            not_before = not_before.max(begins);
            not_after = not_after.min(ends);
        }
        let serial: Vec<u8> = own.raw_serial().iter().copied().skip_while(|byte| *byte == 0).collect();
        Ok(Self {
            common_names: texts(own.subject().iter_common_name())?,
            organizations: texts(own.subject().iter_organization())?,
            uris: uris(&own)?,
            serial: hex(&serial),
            not_after,
            not_before,
            user: OnceLock::new(),
        })
    }

    fn check_dates(&self, now: SystemTime) -> Result<(), NotVerified> {
        let now = clock::unix(now);
        if now > self.not_after {
            return Err(NotVerified::Bad(EXPIRED));
        }
        if now < self.not_before {
            return Err(NotVerified::Bad(TOO_EARLY));
        }
        Ok(())
    }
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, &'static str> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) | Err(_) => Err("the certificate cannot be read"),
    }
}

/// The first and the last second at which it is valid; what lies before 1970 counts as 1970.
fn dates(certificate: &X509Certificate<'_>) -> (u64, u64) {
    let second = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    (second(certificate.validity().not_before), second(certificate.validity().not_after))
}

fn texts<'a>(attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Result<Vec<String>, &'static str> {
    attributes
        .map(|one| one.as_str().map(str::to_owned).map_err(|_| "the subject of the certificate cannot be read"))
        .collect()
}

fn uris(certificate: &X509Certificate<'_>) -> Result<Vec<String>, &'static str> {
    let mut uris = Vec::new();
    for extension in certificate.extensions().iter().filter(|one| one.oid == OID_X509_EXT_SUBJECT_ALT_NAME) {
        let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
            return Err("the subject alternative names of the certificate cannot be read");
        };
        for name in &names.general_names {
            if let GeneralName::URI(uri) = name {
                uris.push((*uri).to_owned());
            }
        }
    }
    Ok(uris)
}
