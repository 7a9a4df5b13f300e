//! What the three kinds of certificates contain: the CA, the hub's, an agent's. It writes no files.

use super::server_names::ServerNames;
use crate::{IdentityError, agent_identity::cluster_uri, certificate::serial_text, clock::DAY, tls};
use mctunnel_core::ClusterName;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
};
use std::time::Duration;
use time::OffsetDateTime;

/// A new CA: its certificate as PEM, and what signs in its name.
///
/// Its subject has a random part: two hubs' CAs are never taken for one another by name.
pub(super) fn authority(now: i64) -> Result<(String, Issuer<'static, KeyPair>), IdentityError> {
    let key = new_key()?;
    let subject = format!("mctunnel hub CA {}", serial_text(&tls::random::<4>()?));
    let (mut params, _) = params(&subject, now, CA_LIFETIME)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let certificate = params.self_signed(&key).map_err(IdentityError::crypto("sign the CA certificate"))?;
    Ok((certificate.pem(), Issuer::new(params, key)))
}

/// A server certificate for the hub.
pub(super) fn server(
    issuer: &Issuer<'_, KeyPair>,
    key: &KeyPair,
    names: &ServerNames,
    now: i64,
) -> Result<Certificate, IdentityError> {
    let (mut params, _) = leaf_params("mctunnel hub", now, SERVER_LIFETIME)?;
    params.subject_alt_names = names.to_sans()?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.signed_by(key, issuer).map_err(IdentityError::crypto("sign the hub's certificate"))
}

/// A client certificate for the agent of a cluster, with its serial and its end. Its one SAN says which cluster; the common name is
/// for people who read it.
pub(super) fn agent(
    issuer: &Issuer<'_, KeyPair>,
    key: &impl PublicKeyData,
    cluster: &ClusterName,
    lifetime: Duration,
    now: i64,
) -> Result<(Certificate, String, i64), IdentityError> {
    let lifetime = i64::try_from(lifetime.as_secs()).map_err(|_| IdentityError::InvalidLifetime)?;
    if lifetime == 0 {
        return Err(IdentityError::InvalidLifetime);
    }
    let (mut params, serial) = leaf_params(cluster.as_str(), now, lifetime)?;
    let uri = cluster_uri(cluster).try_into().map_err(IdentityError::crypto("write the agent's URI"))?;
    params.subject_alt_names = vec![SanType::URI(uri)];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(key, issuer).map_err(IdentityError::crypto("sign the agent's certificate"))?;
    Ok((certificate, serial, params.not_after.unix_timestamp()))
}

/// A new ECDSA P-256 key.
pub(super) fn new_key() -> Result<KeyPair, IdentityError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(IdentityError::crypto("make a key"))
}

const CA_LIFETIME: i64 = 10 * 365 * DAY;
const SERVER_LIFETIME: i64 = 365 * DAY;
/// How far a certificate's begin lies back, for peers whose clocks are behind ours.
pub(super) const CLOCK_SKEW: i64 = 5 * 60;

fn leaf_params(common_name: &str, now: i64, lifetime: i64) -> Result<(CertificateParams, String), IdentityError> {
    let (mut params, serial) = params(common_name, now, lifetime)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok((params, serial))
}

/// What all certificates share, and the serial as text.
fn params(common_name: &str, now: i64, lifetime: i64) -> Result<(CertificateParams, String), IdentityError> {
    let serial = tls::random::<16>()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = moment(now.saturating_sub(CLOCK_SKEW))?;
    params.not_after = moment(now.saturating_add(lifetime))?;
    Ok((params, serial_text(&serial)))
}

fn moment(unix: i64) -> Result<OffsetDateTime, IdentityError> {
    OffsetDateTime::from_unix_timestamp(unix).map_err(|_| IdentityError::InvalidLifetime)
}
