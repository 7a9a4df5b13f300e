//! Only one spelling of one kind of name makes an identity.

use crate::forge::{Forge, bundle, dns, uri};
use mctunnel_identity::{AgentIdentity, HubAuthority, IdentityError};
use rcgen::{CustomExtension, SanType};
use rustls_pki_types::{CertificateDer, pem::PemObject};

#[test]
fn an_issued_certificate_names_its_cluster_and_nothing_else_of_the_chain_counts() {
    let dir = tempfile::tempdir().unwrap();
    let hub = HubAuthority::open_or_create(dir.path(), &[]).unwrap();
    let issued = hub.issue_agent(&crate::forge::cluster("cluster-a"), crate::forge::YEAR).unwrap();
    let leaf = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap();
    let other = CertificateDer::from_pem_slice(bundle(&hub, "cluster-b").certificate_pem.as_bytes()).unwrap();

    let identity = AgentIdentity::from_certificates(&[leaf, other]).unwrap();

    assert_eq!(identity.cluster.as_str(), "cluster-a");
    assert_eq!(identity.serial, issued.serial);
    assert_eq!(identity.not_after_unix, issued.not_after_unix);
}

#[test]
fn a_certificate_with_any_other_names_is_nobody() {
    let forge = Forge::new("any");
    let good = "spiffe://mctunnel/cluster/c1";
    let long = format!("spiffe://mctunnel/cluster/{}", "x".repeat(64));
    let email = |text: &str| SanType::Rfc822Name(text.try_into().unwrap());
    let mut table = vec![
        vec![],
        vec![dns("c1")],
        vec![dns("spiffe://mctunnel/cluster/c1")],
        vec![email("c1@mctunnel")],
        vec![email(good)],
        vec![SanType::IpAddress([127, 0, 0, 1].into())],
        vec![uri(good), uri(good)],
        vec![uri(good), uri("spiffe://mctunnel/cluster/c2")],
        vec![uri(good), dns("c2")],
        vec![dns("c2"), uri(good)],
        vec![uri(good), email("c1@mctunnel")],
    ];
    for text in [
        "",
        "c1",
        "spiffe:",
        "spiffe://mctunnel",
        "spiffe://mctunnel/cluster",
        "spiffe://mctunnel/cluster/",
        "SPIFFE://mctunnel/cluster/c1",
        "spiffe://MCTUNNEL/cluster/c1",
        "spiffe://mctunnel/Cluster/c1",
        "spiffe://mctunnel/cluster/C1",
        "spiffe://mctunnel/cluster/%63%31",
        "spiffe://mctunnel/cluster/c1%00",
        "spiffe://mctunnel/cluster/c1/",
        "spiffe://mctunnel/cluster//c1",
        "spiffe://mctunnel/cluster/c1/c2",
        "spiffe://mctunnel/cluster/../cluster/c1",
        "spiffe://mctunnel/cluster/./c1",
        "spiffe://mctunnel/cluster/c1?",
        "spiffe://mctunnel/cluster/c1?a=b",
        "spiffe://mctunnel/cluster/c1#",
        "spiffe://mctunnel/cluster/c1;a",
        "spiffe://mctunnel/cluster/c1\0",
        "spiffe://mctunnel/cluster/c1\n",
        "spiffe://mctunnel/cluster/c1 ",
        " spiffe://mctunnel/cluster/c1",
        "spiffe://mctunnel:443/cluster/c1",
        "spiffe://a@mctunnel/cluster/c1",
        "spiffe://mctunnel.example/cluster/c1",
        "spiffe://mctunnel//cluster/c1",
        "spiffe:///mctunnel/cluster/c1",
        "https://mctunnel/cluster/c1",
        "spiffe://mctunnel/cluster/-c1",
        "spiffe://mctunnel/cluster/c_1",
        "spiffe://mctunnel/cluster/c1.c2",
        "spiffe://mctunnel/cluster/*",
        &long,
    ] {
        table.push(vec![uri(text)]);
    }
    for names in table {
        let shown = format!("{names:?}");
        let forged = forge.agent(|params| params.subject_alt_names = names);
        let identity = AgentIdentity::from_certificates(&[forged.der]);
        assert!(matches!(identity, Err(IdentityError::NotAnAgent(_))), "{shown}: {identity:?}");
    }
    let honest = forge.agent(|_| {});
    assert!(AgentIdentity::from_certificates(&[honest.der]).is_ok(), "the table is refused for its names alone");
}

#[test]
fn a_second_extension_of_names_is_refused() {
    let second = b"spiffe://mctunnel/cluster/c2";
    let mut content = vec![0x30, u8::try_from(second.len() + 2).unwrap(), 0x86, u8::try_from(second.len()).unwrap()];
    content.extend_from_slice(second);
    let forged = Forge::new("any").agent(|params| {
        params.custom_extensions = vec![CustomExtension::from_oid_content(&[2, 5, 29, 17], content)];
    });

    let identity = AgentIdentity::from_certificates(&[forged.der]);

    assert!(matches!(identity, Err(IdentityError::NotAnAgent(_))), "{identity:?}");
}

#[test]
fn what_is_not_one_certificate_is_nobody() {
    let whole = Forge::new("any").agent(|_| {}).der;
    let longer = [&*whole, b"\0"].concat();
    let shorter = &whole[..whole.len() - 1];
    for bytes in [b"".as_slice(), b"garbage", &longer, shorter] {
        let identity = AgentIdentity::from_certificates(&[CertificateDer::from(bytes)]);
        assert!(matches!(identity, Err(IdentityError::NotAnAgent(_))), "{identity:?}");
    }
    assert!(AgentIdentity::from_certificates(&[]).is_err());
}
