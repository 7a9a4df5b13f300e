//! Certificates of clients, and clients that show them to a hub's gateway over TLS.

use crate::rig::{Hub, PATIENCE};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
};

/// A CA that signs for clients and for servers.
pub(crate) struct Ca {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
pub(crate) struct Shown {
    chain: Vec<CertificateDer<'static>>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A client with this common name, of this organisation.
    pub(crate) fn client(&self, name: &str, organization: &str) -> Shown {
        let mut params = named(name);
        params.distinguished_name.push(DnType::OrganizationName, organization);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.is_ca = IsCa::ExplicitNoCa;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Shown { chain: vec![certificate.der().clone()], key: PrivatePkcs8KeyDer::from(key.serialize_der()) }
    }
}

impl Ca {
    /// A server with these names.
    pub(crate) fn server(&self, names: &[&str]) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.is_ca = IsCa::ExplicitNoCa;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A connection to the gateway.
pub(crate) type Client = StreamOwned<ClientConnection, TcpStream>;

/// Connects as a client that knows the hub by its CA, and shows a certificate if it has one. Nothing is sent yet.
pub(crate) fn connect(hub: &Hub, shown: Option<&Shown>) -> Client {
    let mut roots = RootCertStore::empty();
    let pem = fs::read(hub.path("data/pki/ca.pem")).expect("the hub's CA");
    for authority in CertificateDer::pem_slice_iter(&pem) {
        roots.add(authority.expect("PEM")).expect("a CA");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match shown {
        Some(Shown { chain, key }) => {
            let key = PrivateKeyDer::Pkcs8(key.clone_key());
            config.with_client_auth_cert(chain.clone(), key).expect("a key that fits")
        }
        None => config.with_no_client_auth(),
    };
    let socket = TcpStream::connect(hub.address("gateway")).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let name = ServerName::try_from("mctunnel-hub").expect("a name");
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).expect("a client"), socket)
}

/// The status of the answer to a GET with these lines in its head; `None` when TLS is refused.
pub(crate) fn status(hub: &Hub, shown: Option<&Shown>, path: &str, lines: &str) -> Option<u16> {
    let mut client = connect(hub, shown);
    let head = format!("GET {path} HTTP/1.1\r\nHost: mctunnel-hub\r\n{lines}Connection: close\r\n\r\n");
    client.write_all(head.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // One that is refused in the middle of its head may be reset.
    let _ = client.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}
