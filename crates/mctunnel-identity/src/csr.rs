//! What an agent asks to be signed. Only its key is taken from it; the rest must ask for nothing, or for exactly what is given.

use crate::{
    EnrolError,
    agent_identity::parse_uri,
    ca_pin::{CaPin, to_hex},
};
use mctunnel_core::ClusterName;
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData, SubjectPublicKeyInfo};
use x509_parser::{
    certification_request::X509CertificationRequest,
    cri_attributes::{ParsedCriAttribute, X509CriAttribute},
    extensions::{GeneralName, ParsedExtension, X509Extension},
    oid_registry::OID_X509_COMMON_NAME,
    prelude::FromDer,
    x509::X509Name,
};

/// The largest request that is looked at.
const MOST_BYTES: usize = 8 * 1024;

/// A certificate signing request that was found harmless: whoever made it has the key.
#[derive(Debug)]
pub(crate) struct AgentCsr {
    pub(crate) public_key: SubjectPublicKeyInfo,
    /// The cluster it asks for, if it names one.
    pub(crate) cluster: Option<ClusterName>,
    /// Names the key: SHA-256 of its SubjectPublicKeyInfo, lower-case hex.
    pub(crate) key: String,
}

impl AgentCsr {
    /// Reads a PKCS #10 request and refuses whatever asks for more than a key to be signed.
    pub(crate) fn parse(der: &[u8]) -> Result<Self, EnrolError> {
        if der.len() > MOST_BYTES {
            return Err(refused("it is too large"));
        }
        let Ok(([], csr)) = X509CertificationRequest::from_der(der) else {
            return Err(refused("it is not a PKCS #10 request in DER"));
        };
        let content = &csr.certification_request_info;
        let public_key = SubjectPublicKeyInfo::from_der(content.subject_pki.raw)
            .ok()
            .filter(|key| ALGORITHMS.contains(&key.algorithm()))
            .ok_or_else(|| refused("its key is not ECDSA P-256, ECDSA P-384 or Ed25519"))?;
        csr.verify_signature().map_err(|_| refused("it is not signed with its own key"))?;
        let by_subject = common_name(&content.subject)?;
        let by_san = match content.attributes() {
            [] => None,
            [attribute] => check_extensions(requested_extensions(attribute)?)?,
            _ => return Err(refused("it has more than one attribute")),
        };
        if let (Some(subject), Some(san)) = (&by_subject, &by_san)
            && subject != san
        {
            return Err(refused("it names two clusters"));
        }
        let key = to_hex(CaPin::of_spki(content.subject_pki.raw).as_bytes());
        Ok(Self { public_key, cluster: by_san.or(by_subject), key })
    }
}

static ALGORITHMS: [&rcgen::SignatureAlgorithm; 3] = [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519];

/// The subject is empty, or one common name that is a cluster's.
fn common_name(subject: &X509Name<'_>) -> Result<Option<ClusterName>, EnrolError> {
    let attributes: Vec<_> = subject.iter_attributes().collect();
    match attributes.as_slice() {
        [] => Ok(None),
        [name] if *name.attr_type() == OID_X509_COMMON_NAME => {
            let text = name.as_str().map_err(|_| refused("its common name is not text"))?;
            let cluster = ClusterName::parse(text).map_err(|_| refused("its common name is not a cluster's"))?;
            Ok(Some(cluster))
        }
        _ => Err(refused("its subject has more than a common name")),
    }
}

/// The one attribute there may be asks for extensions, once.
fn requested_extensions<'a, 'b>(attribute: &'b X509CriAttribute<'a>) -> Result<&'b [X509Extension<'a>], EnrolError> {
    let ParsedCriAttribute::ExtensionRequest(request) = attribute.parsed_attribute() else {
        return Err(refused("it has an attribute other than requested extensions"));
    };
    // The parser stops behind the first value of the set.
    if !is_whole_set(attribute.value) {
        return Err(refused("it asks for extensions more than once"));
    }
    Ok(&request.extensions)
}

fn is_whole_set(value: &[u8]) -> bool {
    let content = match value {
        [0x31, short, rest @ ..] if *short < 0x80 => (usize::from(*short), rest),
        [0x31, 0x81, length, rest @ ..] => (usize::from(*length), rest),
        [0x31, 0x82, high, low, rest @ ..] => (usize::from(*high) << 8 | usize::from(*low), rest),
        _ => return false,
    };
    content.0 == content.1.len()
}

/// Gives the cluster that the names ask for.
#[expect(clippy::wildcard_enum_match_arm, reason = "what is not listed is refused, whatever it is")]
fn check_extensions(extensions: &[X509Extension<'_>]) -> Result<Option<ClusterName>, EnrolError> {
    let mut cluster = None;
    for (at, extension) in extensions.iter().enumerate() {
        if extensions.iter().skip(at + 1).any(|other| other.oid == extension.oid) {
            return Err(refused("it asks for an extension twice"));
        }
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => {
                let [GeneralName::URI(uri)] = names.general_names.as_slice() else {
                    return Err(refused("it asks for names other than one URI"));
                };
                let named = parse_uri(uri).map_err(|_| refused("it asks for a URI that is not a cluster's"))?;
                cluster = Some(named);
            }
            ParsedExtension::BasicConstraints(constraints)
                if !constraints.ca && constraints.path_len_constraint.is_none() => {}
            ParsedExtension::BasicConstraints(_) => return Err(refused("it asks to be a CA")),
            ParsedExtension::KeyUsage(usage) if usage.flags == DIGITAL_SIGNATURE => {}
            ParsedExtension::KeyUsage(_) => return Err(refused("it asks for a key usage other than digitalSignature")),
            ParsedExtension::ExtendedKeyUsage(usage) if is_client_auth_alone(usage) => {}
            ParsedExtension::ExtendedKeyUsage(_) => {
                return Err(refused("it asks for an extended key usage other than clientAuth"));
            }
            _ => return Err(refused("it asks for an extension that no agent has")),
        }
    }
    Ok(cluster)
}

/// The bit of digitalSignature, alone.
const DIGITAL_SIGNATURE: u16 = 1;

fn is_client_auth_alone(usage: &x509_parser::extensions::ExtendedKeyUsage<'_>) -> bool {
    let others = [
        usage.any,
        usage.server_auth,
        usage.code_signing,
        usage.email_protection,
        usage.time_stamping,
        usage.ocsp_signing,
        !usage.other.is_empty(),
    ];
    usage.client_auth && !others.contains(&true)
}

fn refused(reason: &'static str) -> EnrolError {
    EnrolError::Csr(reason)
}
