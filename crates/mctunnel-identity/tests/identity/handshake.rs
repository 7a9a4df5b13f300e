//! Who gets through a TLS handshake with the hub, who with the agent, and why the others do not.

use crate::forge::{Forge, Forged, bundle, days_from_now, dns};
use mctunnel_identity::{AgentIdentity, HubAuthority, JoinBundle};
use rcgen::ExtendedKeyUsagePurpose;
use rustls::{
    CertificateError, ClientConfig, Error, PeerIncompatible, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::aws_lc_rs,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::{io, sync::Arc};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// What the hub saw of the agent.
#[derive(Debug)]
struct Seen {
    identity: AgentIdentity,
    alpn: Option<Vec<u8>>,
}

/// Joins both ends by a pipe and sends one byte from the hub; gives what the hub saw, and how many tickets the agent got.
async fn shake(
    server: &Arc<ServerConfig>,
    client: &Arc<ClientConfig>,
    name: &str,
) -> (Result<Seen, Error>, Result<u32, Error>) {
    let (hub_end, agent_end) = tokio::io::duplex(64 * 1024);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let hub = async {
        let mut tls = TlsAcceptor::from(Arc::clone(server)).accept(hub_end).await?;
        tls.write_all(b"x").await?;
        tls.flush().await?;
        let (_, connection) = tls.get_ref();
        let shown = connection.peer_certificates().unwrap_or_default();
        let identity = AgentIdentity::from_certificates(shown).map_err(io::Error::other)?;
        Ok(Seen { identity, alpn: connection.alpn_protocol().map(<[u8]>::to_vec) })
    };
    let agent = async {
        let mut tls = TlsConnector::from(Arc::clone(client)).connect(name, agent_end).await?;
        tls.read_u8().await?;
        Ok(tls.get_ref().1.tls13_tickets_received())
    };
    let (hub, agent) = tokio::join!(hub, agent);
    (hub.map_err(reason), agent.map_err(reason))
}

fn reason(error: io::Error) -> Error {
    let text = error.to_string();
    match error.into_inner().map(|inner| inner.downcast::<Error>()) {
        Some(Ok(error)) => *error,
        _ => Error::General(text),
    }
}

struct Stage {
    dir: TempDir,
    hub: HubAuthority,
    bundle: JoinBundle,
}

fn stage() -> Stage {
    let dir = tempfile::tempdir().unwrap();
    let hub = HubAuthority::open_or_create(dir.path(), &[]).unwrap();
    let bundle = bundle(&hub, "c1");
    Stage { dir, hub, bundle }
}

/// An agent's configuration that an agent of ours would never have.
fn client(
    ca_pem: &str,
    shown: Option<Forged>,
    versions: &[&'static SupportedProtocolVersion],
    alpn: &[&str],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown.map(Forged::into_chain_and_key) {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// A hub's configuration with a certificate of our choice.
fn server(shown: Forged, versions: &[&'static SupportedProtocolVersion], alpn: &[&str]) -> Arc<ServerConfig> {
    let (chain, key) = shown.into_chain_and_key();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    Arc::new(config)
}

#[tokio::test]
async fn an_agent_with_its_bundle_is_let_in_and_known() {
    let stage = stage();
    let config = stage.hub.server_config().unwrap();
    let bundle = JoinBundle::parse(&stage.bundle.to_json()).unwrap();

    let (hub, agent) = shake(&config, &bundle.client_config().unwrap(), &bundle.hub_server_name).await;

    let seen = hub.unwrap();
    assert_eq!(seen.identity.cluster.as_str(), "c1");
    assert_eq!(seen.alpn.as_deref(), Some(b"h2".as_slice()));
    assert_eq!(agent, Ok(0), "no tickets: nothing to resume with");
}

#[tokio::test]
async fn an_agent_is_let_in_after_the_hub_was_opened_again_and_renewed() {
    let stage = stage();
    let names = ["hub.example.com".to_owned(), "192.0.2.7".to_owned()];
    let again = HubAuthority::open_or_create(stage.dir.path(), &names).unwrap();
    let agent = stage.bundle.client_config().unwrap();
    for name in ["mctunnel-hub", "localhost", "127.0.0.1", "::1", "hub.example.com", "192.0.2.7"] {
        let (hub, agent) = shake(&again.server_config().unwrap(), &agent, name).await;
        assert!(hub.is_ok() && agent.is_ok(), "{name}: {hub:?} {agent:?}");
    }
}

#[test]
fn the_hub_keeps_nothing_of_a_client() {
    let config = stage().hub.server_config().unwrap();
    assert!(!config.session_storage.can_cache());
    assert!(!config.ticketer.enabled());
    assert_eq!((config.send_tls13_tickets, config.max_early_data_size), (0, 0));
}

#[tokio::test]
async fn the_hub_refuses_every_other_certificate() {
    let stage = stage();
    let forge = Forge::steal(stage.dir.path());
    let subject = forge_subject(&forge);
    let other = tempfile::tempdir().unwrap();
    HubAuthority::open_or_create(other.path(), &[]).unwrap();
    type Fits = fn(&Error) -> bool;
    let unknown: Fits =
        |e| matches!(e, Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature));
    let expired: Fits = |e| matches!(e, Error::InvalidCertificate(CertificateError::ExpiredContext { .. }));
    let not_yet: Fits = |e| matches!(e, Error::InvalidCertificate(CertificateError::NotValidYetContext { .. }));
    let purpose: Fits = |e| matches!(e, Error::InvalidCertificate(CertificateError::InvalidPurposeContext { .. }));
    let table: [(&str, Option<Forged>, Fits); 8] = [
        ("none", None, |e| matches!(e, Error::NoCertificatesPresented)),
        ("of another hub", Some(Forge::steal(other.path()).agent(|_| {})), unknown),
        ("of a CA with the same name", Some(Forge::new(&subject).agent(|_| {})), unknown),
        ("expired", Some(forge.agent(|p| p.not_after = days_from_now(-1) + time::Duration::hours(1))), expired),
        ("not yet valid", Some(forge.agent(|p| p.not_before = days_from_now(1))), not_yet),
        ("for servers", Some(forge.server(|_| {})), purpose),
        (
            "for servers, with an agent's name",
            Some(forge.agent(|p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth])),
            purpose,
        ),
        ("signed by an agent", Some(signed_by_an_agent(&forge)), |e| matches!(e, Error::InvalidCertificate(_))),
    ];
    let hub_config = stage.hub.server_config().unwrap();
    for (what, shown, fits) in table {
        let config = client(stage.hub.ca_pem(), shown, &[&TLS13], &["h2"]);
        let (hub, agent) = shake(&hub_config, &config, "mctunnel-hub").await;
        let error = hub.expect_err(what);
        assert!(fits(&error), "{what}: {error:?}");
        assert!(agent.is_err(), "{what}: not a byte for it");
    }
    let control = client(stage.hub.ca_pem(), Some(forge.agent(|_| {})), &[&TLS13], &["h2"]);
    let (hub, agent) = shake(&hub_config, &control, "mctunnel-hub").await;
    assert!(hub.is_ok() && agent.is_ok(), "the table is refused for its certificates alone: {hub:?} {agent:?}");
}

#[tokio::test]
async fn the_hub_refuses_every_other_protocol() {
    let stage = stage();
    let forge = Forge::steal(stage.dir.path());
    let hub_config = stage.hub.server_config().unwrap();
    let speak = |versions: &[&'static SupportedProtocolVersion], alpn: &[&str]| {
        client(stage.hub.ca_pem(), Some(forge.agent(|_| {})), versions, alpn)
    };
    for (what, config) in [
        ("TLS 1.2", speak(&[&TLS12], &["h2"])),
        ("HTTP/1.1", speak(&[&TLS13], &["http/1.1"])),
        ("H2 in capitals", speak(&[&TLS13], &["H2"])),
        ("no ALPN", speak(&[&TLS13], &[])),
    ] {
        let (hub, agent) = shake(&hub_config, &config, "mctunnel-hub").await;
        let error = hub.expect_err(what);
        let fits = match what {
            "TLS 1.2" => matches!(error, Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled)),
            "no ALPN" => matches!(error, Error::General(_)),
            _ => matches!(error, Error::NoApplicationProtocol),
        };
        assert!(fits, "{what}: {error:?}");
        assert!(agent.is_err(), "{what}");
    }
    let (hub, _) = shake(&hub_config, &speak(&[&TLS12, &TLS13], &["http/1.1", "h2"]), "mctunnel-hub").await;
    assert_eq!(hub.unwrap().alpn.as_deref(), Some(b"h2".as_slice()), "a choice that has ours is fine");
}

#[tokio::test]
async fn the_agent_refuses_every_other_hub() {
    let stage = stage();
    let forge = Forge::steal(stage.dir.path());
    let subject = forge_subject(&forge);
    let modern = |shown| server(shown, &[&TLS13], &["h2"]);
    let table = [
        ("of another CA", modern(Forge::new("other").server(|_| {}))),
        ("of a CA with the same name", modern(Forge::new(&subject).server(|_| {}))),
        ("of another name", modern(forge.server(|p| p.subject_alt_names = vec![dns("mctunnel-hub.example")]))),
        ("of no name", modern(forge.server(|p| p.subject_alt_names = vec![]))),
        ("expired", modern(forge.server(|p| p.not_after = days_from_now(-1) + time::Duration::hours(1)))),
        ("with an agent's certificate", modern(forge.agent(|p| p.subject_alt_names = vec![dns("mctunnel-hub")]))),
        ("of TLS 1.2", server(forge.server(|_| {}), &[&TLS12], &["h2"])),
        ("of another protocol", server(forge.server(|_| {}), &[&TLS13], &["http/1.1"])),
    ];
    let agent_config = stage.bundle.client_config().unwrap();
    for (what, hub_config) in table {
        let (_, agent) = shake(&hub_config, &agent_config, "mctunnel-hub").await;
        let error = agent.expect_err(what);
        let fits = match what {
            "of another name" | "of no name" => {
                matches!(error, Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. }))
            }
            "expired" => matches!(error, Error::InvalidCertificate(CertificateError::ExpiredContext { .. })),
            "of TLS 1.2" | "of another protocol" => matches!(error, Error::AlertReceived(_)),
            _ => matches!(error, Error::InvalidCertificate(_)),
        };
        assert!(fits, "{what}: {error:?}");
    }
    let (_, agent) = shake(&modern(forge.server(|_| {})), &agent_config, "mctunnel-hub").await;
    assert!(agent.is_ok(), "the table is refused for its certificates alone: {agent:?}");
    let (_, agent) = shake(&modern(forge.server(|_| {})), &agent_config, "other.example").await;
    assert!(agent.is_err(), "the name that is asked for is the name that is checked");
}

/// The key of an agent's certificate pretends to be a CA's; its chain is whole.
fn signed_by_an_agent(forge: &Forge) -> Forged {
    let agent = forge.agent(|_| {});
    let issuer = rcgen::Issuer::from_ca_cert_der(&agent.der, agent.key).unwrap();
    let mut forged = Forge { ca_pem: agent.pem, issuer }.agent(|_| {});
    forged.issuers = vec![agent.der];
    forged
}

fn forge_subject(forge: &Forge) -> String {
    let der = CertificateDer::from_pem_slice(forge.ca_pem.as_bytes()).unwrap();
    let (_, ca) = x509_parser::parse_x509_certificate(&der).unwrap();
    ca.subject().iter_common_name().next().unwrap().as_str().unwrap().to_owned()
}
