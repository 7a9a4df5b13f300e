//! Users by certificates of their own, and users by the word of a front proxy.

use crate::{
    forge::{Forge, client_certificate, forwarded, second_common_name, uri},
    setup::{accepted, chain, status},
};
use mctunnel_authn::{
    AuthnError, Chain, ClientCertificateSettings, ClientCertificates, Clock, FrontProxy, FrontProxyFields,
    FrontProxySettings, NameRules, UserFrom,
};
use mctunnel_core::{Authenticate, ClientCertificate};
use rcgen::ExtendedKeyUsagePurpose;
use std::{sync::Arc, time::SystemTime};
use time::OffsetDateTime;

fn mtls(forge: &Forge, user_from: UserFrom, prefix: &str) -> ClientCertificates {
    let names = NameRules { user_prefix: prefix.to_owned(), group_prefix: prefix.to_owned(), ..NameRules::default() };
    let settings = ClientCertificateSettings { ca_pem: forge.pem.clone().into(), user_from, names };
    ClientCertificates::new("mtls", settings, Clock::system()).unwrap()
}

fn proxy_settings(forge: &Forge) -> FrontProxySettings {
    FrontProxySettings {
        ca_pem: forge.pem.clone().into(),
        allowed_names: vec!["front".to_owned()],
        fields: FrontProxyFields::default(),
        names: NameRules::default(),
    }
}

fn proxy(forge: &Forge) -> FrontProxy {
    FrontProxy::new("front", proxy_settings(forge), Clock::system()).unwrap()
}

#[tokio::test]
async fn the_common_name_is_the_user_and_organisations_are_groups() {
    let forge = Forge::new("clients");
    let shown = client_certificate(&forge.client("alice", &["dev", "ops"]));
    let user = accepted(chain(mtls(&forge, UserFrom::CommonName, "")).authenticate(&shown).await);
    assert_eq!((user.name.as_ref(), user.provider.as_ref()), ("alice", "mtls"));
    assert_eq!(user.groups.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["dev", "ops"]);
    assert!(user.expires.is_some_and(|end| end > SystemTime::now()));
    assert!(user.credential.len() >= 16 && user.credential.bytes().all(|b| b.is_ascii_hexdigit()), "the serial");
    let user = accepted(chain(mtls(&forge, UserFrom::CommonName, "partner:")).authenticate(&shown).await);
    assert_eq!((user.name.as_ref(), user.groups[0].as_ref()), ("partner:alice", "partner:dev"));
}

#[tokio::test]
async fn a_certificate_has_one_user_for_all_its_requests() {
    let forge = Forge::new("clients");
    let chain = chain(mtls(&forge, UserFrom::CommonName, ""));
    let (shown, another) = (forge.client("alice", &[]), forge.client("alice", &[]));
    let first = accepted(chain.authenticate(&client_certificate(&shown)).await);
    assert!(Arc::ptr_eq(&first, &accepted(chain.authenticate(&client_certificate(&shown)).await)));
    let other = accepted(chain.authenticate(&client_certificate(&another)).await);
    assert_ne!(first.credential, other.credential, "another serial");
}

#[tokio::test]
async fn a_uri_can_be_the_user() {
    let forge = Forge::new("clients");
    let chain = chain(mtls(&forge, UserFrom::UriSan, ""));
    let with = |uris: &[&str]| {
        let names = uris.iter().map(|text| uri(text)).collect();
        client_certificate(&forge.changed("alice", &[], |params| params.subject_alt_names = names))
    };
    let user = accepted(chain.authenticate(&with(&["spiffe://example.org/ci"])).await);
    assert_eq!(user.name.as_ref(), "spiffe://example.org/ci");
    for uris in [&[][..], &["spiffe://a/b", "spiffe://a/c"]] {
        assert_eq!(status(&chain.authenticate(&with(uris)).await), 401, "{uris:?}");
    }
}

#[tokio::test]
async fn certificates_that_do_not_count_are_refused() {
    let (forge, other) = (Forge::new("clients"), Forge::new("clients"));
    let chain = chain(mtls(&forge, UserFrom::CommonName, ""));
    let past = OffsetDateTime::from(SystemTime::now()) - time::Duration::days(1);
    let future = OffsetDateTime::from(SystemTime::now()) + time::Duration::days(1);
    for (what, shown) in [
        ("of another CA with the same name", other.client("alice", &[])),
        ("expired", forge.changed("alice", &[], |params| params.not_after = past)),
        ("not valid yet", forge.changed("alice", &[], |params| params.not_before = future)),
        (
            "for servers",
            forge.changed("alice", &[], |p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
        ),
        ("for anything", forge.changed("alice", &[], |params| params.extended_key_usages = vec![])),
        ("without a name", forge.client("", &[])),
        ("with two names", forge.changed("alice", &[], |p| p.distinguished_name.push(second_common_name(), "root"))),
        ("with an odd name", forge.client("alice\nroot", &[])),
        ("empty", ClientCertificate { chain: vec![] }),
        ("junk", ClientCertificate { chain: vec![vec![0x30, 0x82]] }),
    ] {
        let answer = chain.authenticate(&client_certificate(&shown)).await;
        assert_eq!(status(&answer), 401, "{what}: {answer:?}");
    }
    accepted(chain.authenticate(&client_certificate(&forge.client("alice", &[]))).await);
}

#[tokio::test]
async fn each_provider_has_a_pool_of_its_own() {
    let (staff, partners) = (Forge::new("staff"), Forge::new("partners"));
    let provider = |name: &str, forge: &Forge, prefix: &str| {
        let names = NameRules { user_prefix: prefix.to_owned(), ..NameRules::default() };
        let settings = ClientCertificateSettings { ca_pem: forge.pem.clone().into(), names, ..Default::default() };
        Arc::new(ClientCertificates::new(name, settings, Clock::system()).unwrap())
    };
    let chain = Chain::new(vec![provider("staff", &staff, ""), provider("partners", &partners, "partner:")]).unwrap();
    let who = async |forge: &Forge| {
        accepted(chain.authenticate(&client_certificate(&forge.client("alice", &[]))).await).name.to_string()
    };
    assert_eq!(who(&staff).await, "alice");
    assert_eq!(who(&partners).await, "partner:alice", "the listener let it in, and its own pool says who it is");
    assert_eq!(chain.wants().authorities.len(), 2);
}

#[tokio::test]
async fn a_front_proxy_speaks_for_its_users() {
    let forge = Forge::new("front-proxy");
    let chain = chain(proxy(&forge));
    let shown = forwarded(
        &forge.client("front", &[]),
        &[
            ("x-remote-user", "alice"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-uid", "42"),
            ("x-remote-extra-scopes", "read"),
            ("x-remote-extra-scopes", "write"),
            ("x-remote-extra-example.com%2fproject", "blue"),
        ],
    );
    let user = accepted(chain.authenticate(&shown).await);
    assert_eq!((user.name.as_ref(), user.uid.as_deref(), user.provider.as_ref()), ("alice", Some("42"), "front"));
    assert_eq!(user.groups.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["dev", "ops"]);
    assert_eq!(user.extra["scopes"], ["read", "write"]);
    assert_eq!(user.extra["example.com/project"], ["blue"]);
    assert!(user.expires.is_some_and(|end| end > SystemTime::now()), "no longer than the proxy's certificate");
    assert!(user.credential.len() >= 16 && user.credential.bytes().all(|b| b.is_ascii_hexdigit()), "its serial");
    let wants = chain.wants();
    for (name, wanted) in
        [("x-remote-user", true), ("x-remote-extra-a", true), ("x-remote-users", false), ("host", false)]
    {
        assert_eq!(wants.field(name), wanted, "{name}");
    }
}

#[tokio::test]
async fn a_front_proxy_names_exactly_one_user_that_can_be() {
    let forge = Forge::new("front-proxy");
    let chain = chain(proxy(&forge));
    let front = forge.client("front", &[]);
    for fields in [
        &[("x-remote-group", "dev")][..],
        &[("x-remote-user", "alice"), ("x-remote-user", "root")],
        &[("x-remote-user", "alice"), ("x-remote-uid", "1"), ("x-remote-uid", "2")],
        &[("x-remote-user", "")],
        &[("x-remote-user", "system:admin")],
        &[("x-remote-user", "\u{fffd}")],
        &[("x-remote-user", "alice"), ("x-remote-uid", "\u{fffd}")],
        &[("x-remote-user", "alice"), ("x-remote-extra-a", "x\ny")],
        &[("x-remote-user", "alice"), ("x-remote-group", "system:masters")],
        &[("x-remote-user", "alice"), ("x-remote-extra-", "x")],
        &[("x-remote-user", "alice"), ("x-remote-extra-%zz", "x")],
        &[("x-remote-user", "alice"), ("x-remote-extra-a%0ab", "x")],
    ] {
        assert_eq!(status(&chain.authenticate(&forwarded(&front, fields)).await), 401, "{fields:?}");
    }
    assert_eq!(status(&chain.authenticate(&client_certificate(&front)).await), 401, "the proxy itself is nobody");
    let cousin = forwarded(&forge.client("cousin", &[]), &[("x-remote-user", "alice")]);
    assert_eq!(status(&chain.authenticate(&cousin).await), 401, "its CA is not enough");
}

#[tokio::test]
async fn other_fields_can_be_configured_and_then_only_they_count() {
    let forge = Forge::new("front-proxy");
    let fields = FrontProxyFields { user: "X-Auth-User".to_owned(), ..FrontProxyFields::default() };
    let settings = FrontProxySettings { fields, ..proxy_settings(&forge) };
    let chain = chain(FrontProxy::new("front", settings, Clock::system()).unwrap());
    let front = forge.client("front", &[]);
    let by = async |name: &str| status(&chain.authenticate(&forwarded(&front, &[(name, "alice")])).await);
    assert_eq!((by("x-auth-user").await, by("x-remote-user").await), (200, 401));
    assert!(chain.wants().field("x-auth-user") && !chain.wants().field("x-remote-user"));
}

#[test]
fn a_front_proxy_must_be_named() {
    let forge = Forge::new("front-proxy");
    for allowed_names in [vec![], vec![String::new()], vec!["front".to_owned(), String::new()]] {
        let settings = FrontProxySettings { allowed_names, ..proxy_settings(&forge) };
        let refused = FrontProxy::new("front", settings, Clock::system());
        assert!(matches!(refused, Err(AuthnError::Provider { .. })), "{refused:?}");
    }
}
