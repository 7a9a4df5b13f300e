//! Knowing a hub by the pin of its CA alone: what an agent trusts before it has anything but its evidence.

use super::roots;
use crate::{CaPin, certificate};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;

/// Takes a server whose chain leads to a CA with one of the pins, for the name that was asked for.
///
/// The CA comes from the server; that is no more than a way to get it, since nobody can make another one with the same pin. All
/// else (signature, name, dates, usage) is checked as with any root.
#[derive(Debug)]
pub(super) struct PinnedCa {
    pins: Vec<CaPin>,
    provider: Arc<CryptoProvider>,
}

impl PinnedCa {
    pub(super) fn new(pins: Vec<CaPin>, provider: Arc<CryptoProvider>) -> Self {
        Self { pins, provider }
    }

    fn is_it(&self, candidate: &CertificateDer<'_>) -> bool {
        let is_ca = certificate::parse(candidate).is_ok_and(|candidate| candidate.is_ca());
        is_ca && CaPin::of(candidate).is_ok_and(|pin| self.pins.contains(&pin))
    }
}

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Behind the hub's certificate, never that itself.
        let authorities = intermediates.iter().filter(|shown| self.is_it(shown));
        let authorities: Vec<_> = authorities.map(|authority| authority.clone().into_owned()).collect();
        if authorities.is_empty() {
            return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        }
        let roots = roots(authorities).map_err(|error| Error::General(error.to_string()))?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider));
        let verifier = verifier.build().map_err(|error| Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken with a hub".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
