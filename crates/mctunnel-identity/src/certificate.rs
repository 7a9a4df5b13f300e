//! Reading certificates: PEM to DER, and the few fields identity depends on. It checks no signatures of chains; TLS does.

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, ParsedExtension},
    oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME,
    prelude::FromDer,
};

/// The certificates of a PEM text, at least one; `Err` says what is wrong.
pub(crate) fn from_pem(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|e| format!("not PEM: {e}"))?;
    if certificates.is_empty() {
        return Err("no certificate in it".to_owned());
    }
    Ok(certificates)
}

/// As [`from_pem`], for CAs: what is not one is refused.
pub(crate) fn authorities_from_pem(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let authorities = from_pem(pem)?;
    for authority in &authorities {
        if !parse(authority)?.is_ca() {
            return Err("it has a certificate that is not of a CA".to_owned());
        }
    }
    Ok(authorities)
}

/// A certificate as PEM text.
pub(crate) fn to_pem(certificate: &CertificateDer<'_>) -> String {
    let encoded = STANDARD.encode(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in encoded.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem + "-----END CERTIFICATE-----\n"
}

/// Parses the whole of `der` as one certificate.
pub(crate) fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err("bytes follow the certificate".to_owned()),
        Err(_) => Err("not an X.509 certificate".to_owned()),
    }
}

/// Every entry of every SAN extension.
pub(crate) fn subject_alternative_names<'a, 'c>(
    certificate: &'c X509Certificate<'a>,
) -> Result<Vec<&'c GeneralName<'a>>, String> {
    let mut names = Vec::new();
    for extension in certificate.extensions() {
        if extension.oid != OID_X509_EXT_SUBJECT_ALT_NAME {
            continue;
        }
        let ParsedExtension::SubjectAlternativeName(san) = extension.parsed_extension() else {
            return Err("its subject alternative names cannot be read".to_owned());
        };
        names.extend(&san.general_names);
    }
    Ok(names)
}

/// A serial number as we write it everywhere: lower-case hex of the number's bytes, without leading zero bytes.
pub(crate) fn serial_text(big_endian: &[u8]) -> String {
    let start = big_endian.iter().take_while(|b| **b == 0).count();
    big_endian.iter().skip(start).map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_has_one_spelling_however_it_was_encoded() {
        for (bytes, text) in [(&[0x8f, 0x01][..], "8f01"), (&[0, 0x8f, 0x01], "8f01"), (&[0, 0, 0x0a, 0], "0a00")] {
            assert_eq!(serial_text(bytes), text);
        }
    }
}
