//! The authentication file: what is taken, and every way in which it is refused (T18).

use super::*;
use crate::{MemoryApiKeys, Review, Reviewing};
use mctunnel_core::{Authenticate, Authorization, Evidence, Secret, Unauthenticated};
use std::fs;
use tempfile::TempDir;

/// A cluster that knows nobody.
struct NobodyKnown;

impl ReviewToken for NobodyKnown {
    fn review<'a>(&'a self, _: &'a Secret, _: &'a [String]) -> Reviewing<'a> {
        Box::pin(std::future::ready(Ok(Review::NotAuthenticated)))
    }
}

fn parts() -> AuthParts {
    AuthParts {
        reviews: Some(Arc::new(NobodyKnown)),
        api_keys: Some(Arc::new(MemoryApiKeys::default())),
        clock: Clock::system(),
    }
}

fn ca_pem(name: &str) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("ca")).unwrap();
    for name in ["users", "proxies", "idp"] {
        fs::write(directory.path().join(format!("ca/{name}.pem")), ca_pem(name)).unwrap();
    }
    directory
}

fn load(directory: &TempDir, text: &str) -> Result<Chain, AuthnError> {
    let path = directory.path().join("auth.yaml");
    fs::write(&path, text).unwrap();
    AuthConfig::load(&path, &parts())
}

const WHOLE: &str = r#"
providers:
  - name: staff
    client_certificates:
      ca_file: ca/users.pem
      user_from: common_name
      user_prefix: ""
      group_prefix: "cert:"
      map_groups: {"O=admins": admins}
  - name: front
    front_proxy:
      ca_file: ca/proxies.pem
      allowed_names: [front-proxy]
      user_header: X-Auth-User
  - name: ci
    api_keys:
      failures_per_minute: 60
  - name: corp
    oidc:
      issuer: https://idp.example/realms/corp
      audiences: [mctunnel]
      other_audiences: [account]
      algorithms: [RS256, EdDSA]
      ca_file: ca/idp.pem
      user_claim: email
      user_prefix: "corp:"
      groups_claim: groups
      group_prefix: "corp:"
      extra_claims: {team: department}
      required_claims: {hd: example.com}
      map_users: {"root@example.com": root}
  - name: hub
    token_review:
      audiences: [mctunnel]
      extra: [scopes]
"#;

#[test]
fn a_whole_file_makes_a_chain_in_its_order() {
    let chain = load(&directory(), WHOLE).unwrap();
    assert_eq!(chain.names().map(AsRef::as_ref).collect::<Vec<_>>(), ["staff", "front", "ci", "corp", "hub"]);
    let wants = chain.wants();
    assert_eq!(wants.authorities.len(), 2);
    assert!(wants.field("x-auth-user") && wants.field("x-remote-group") && !wants.field("x-remote-user"));
}

/// An issuer's provider with a name and these further lines.
fn oidc(name: &str, lines: &str) -> String {
    format!(
        "  - name: {name}\n    oidc: {{issuer: 'https://{name}.example', audiences: [a], user_prefix: '', {lines}}}\n"
    )
}

#[test]
fn t18_whatever_is_not_clear_is_refused() {
    let directory = directory();
    fs::write(directory.path().join("ca/junk.pem"), "junk").unwrap();
    let one = |line: &str| format!("providers:\n  - name: a\n    {line}\n");
    let same_ca = "providers:\n  - {name: a, client_certificates: {ca_file: ca/users.pem}}\n  \
        - {name: b, front_proxy: {ca_file: ca/users.pem, allowed_names: [x]}}\n";
    for (code, text) in [
        ("MCT-AUTHN-NO-PROVIDER", String::new()),
        ("MCT-AUTHN-SYNTAX", "{{{".to_owned()),
        ("MCT-AUTHN-SYNTAX", "provider: []".to_owned()),
        ("MCT-AUTHN-SYNTAX", "providers: []\nproviders: []".to_owned()),
        ("MCT-AUTHN-SYNTAX", "providers: {a: 1}".to_owned()),
        ("MCT-AUTHN-NO-PROVIDER", "providers: []".to_owned()),
        ("MCT-AUTHN-NO-PROVIDER", "providers:".to_owned()),
        ("MCT-AUTHN-NO-PROVIDER", "anonymous: {}".to_owned()),
        ("MCT-AUTHN-SYNTAX", format!("anonymous: true\n{}", one("api_keys: {}"))),
        ("MCT-AUTHN-SYNTAX", format!("anonymus: {{}}\n{}", one("api_keys: {}"))),
        ("MCT-AUTHN-SYNTAX", format!("anonymous: {{tokens: true}}\n{}", one("api_keys: {}"))),
        ("MCT-AUTHN-SYNTAX", one("api_key: {}")),
        ("MCT-AUTHN-SYNTAX", one("api_keys: {failures: 5}")),
        ("MCT-AUTHN-SYNTAX", one("api_keys: {failures_per_minute: 0}")),
        ("MCT-AUTHN-SYNTAX", "providers: [{api_keys: {}}]".to_owned()),
        ("MCT-AUTHN-PROVIDER", one("{}").replace("    {}\n", "")),
        ("MCT-AUTHN-PROVIDER", one("api_keys: {}\n    token_review: {audiences: [a]}")),
        ("MCT-AUTHN-PROVIDER", one("api_keys: {}").replace("name: a", "name: A b")),
        ("MCT-AUTHN-PROVIDER", one("api_keys: {}").replace("name: a", "name: ''")),
        ("MCT-AUTHN-PROVIDER", one("api_keys: {user_prefix: 'system:'}")),
        ("MCT-AUTHN-PROVIDER", one("token_review: {audiences: []}")),
        ("MCT-AUTHN-SYNTAX", one("token_review: {}")),
        ("MCT-AUTHN-FILE", one("client_certificates: {ca_file: ca/gone.pem}")),
        ("MCT-AUTHN-PROVIDER", one("client_certificates: {ca_file: ca/junk.pem}")),
        ("MCT-AUTHN-SYNTAX", one("client_certificates: {ca_file: ca/users.pem, user_from: name}")),
        ("MCT-AUTHN-SYNTAX", one("front_proxy: {ca_file: ca/proxies.pem}")),
        ("MCT-AUTHN-PROVIDER", one("front_proxy: {ca_file: ca/proxies.pem, allowed_names: []}")),
        ("MCT-AUTHN-PROVIDER", same_ca.to_owned()),
        (
            "MCT-AUTHN-PROVIDER",
            format!("providers:\n  - {{name: h, token_review: {{audiences: [a]}}}}\n{}", oidc("a", "")),
        ),
        ("MCT-AUTHN-SYNTAX", one("oidc: {issuer: 'https://idp.example', audiences: [a]}")),
        ("MCT-AUTHN-SYNTAX", one("oidc: {issuer: 'https://idp.example', user_prefix: ''}")),
        ("MCT-AUTHN-PROVIDER", one("oidc: {issuer: 'https://idp.example', audiences: [], user_prefix: ''}")),
        ("MCT-AUTHN-PROVIDER", one("oidc: {issuer: 'http://idp.example', audiences: [a], user_prefix: ''}")),
        ("MCT-AUTHN-PROVIDER", one("oidc: {issuer: 'http://127.0.0.1:1', audiences: [a], user_prefix: ''}")),
        ("MCT-AUTHN-PROVIDER", format!("providers:\n{}", oidc("a", "algorithms: [HS256]"))),
        ("MCT-AUTHN-PROVIDER", format!("providers:\n{}", oidc("a", "algorithms: [none]"))),
        ("MCT-AUTHN-PROVIDER", format!("providers:\n{}", oidc("a", "algorithms: []"))),
        ("MCT-AUTHN-PROVIDER", format!("providers:\n{}", oidc("a", "groups_claim: groups"))),
        ("MCT-AUTHN-PROVIDER", format!("providers:\n{}", oidc("a", "group_prefix: x"))),
        ("MCT-AUTHN-PROVIDER", format!("providers:\n{}", oidc("a", "extra_claims: {Team: t}"))),
        ("MCT-AUTHN-SYNTAX", format!("providers:\n{}", oidc("a", "extra_claims: [team]"))),
        ("MCT-AUTHN-SYNTAX", format!("providers:\n{}", oidc("a", "insecure_plain_loopback: 'yes'"))),
        (
            "MCT-AUTHN-PROVIDER",
            format!("providers:\n{}{}", oidc("a", ""), oidc("b", "").replace("b.example", "a.example")),
        ),
        (
            "MCT-AUTHN-PROVIDER",
            format!("providers:\n{}{}", oidc("a", ""), oidc("a", "").replace("a.example", "b.example")),
        ),
    ] {
        match load(&directory, &text) {
            Ok(_) => panic!("accepted: {text}"),
            Err(error) => assert_eq!(error.code().code, code, "{text}: {error}"),
        }
    }
    assert!(load(&directory, &format!("providers:\n{}{}", oidc("a", ""), oidc("b", ""))).is_ok(), "the control");
    let missing = AuthConfig::load(&directory.path().join("gone.yaml"), &parts()).unwrap_err();
    assert_eq!(missing.code().code, "MCT-AUTHN-FILE");
    let endless = AuthConfig::load(Path::new("/dev/zero"), &parts()).unwrap_err();
    assert_eq!(endless.code().code, "MCT-AUTHN-FILE");
}

#[tokio::test]
async fn clients_that_nobody_knows_come_in_only_where_the_file_says_so() {
    let directory = directory();
    let keys = "providers: [{name: ci, api_keys: {}}]\n";
    let token = Evidence { authorization: Some(Authorization::new("Bearer opaque")), ..Evidence::default() };
    for (text, nothing, unknown) in [
        ("", false, false),
        ("anonymous:\n", false, false),
        ("anonymous: {}\n", true, false),
        ("anonymous: {unknown_tokens: false}\n", true, false),
        ("anonymous: {unknown_tokens: true}\n", true, true),
    ] {
        let chain = load(&directory, &format!("{text}{keys}")).unwrap();
        assert_eq!(chain.authenticate(&Evidence::default()).await.is_ok(), nothing, "{text}");
        assert_eq!(chain.authenticate(&token).await.is_ok(), unknown, "{text}");
    }
}

#[test]
fn what_a_provider_needs_must_be_there() {
    let directory = directory();
    let path = directory.path().join("auth.yaml");
    for kind in ["api_keys: {}", "token_review: {audiences: [a]}"] {
        fs::write(&path, format!("providers:\n  - name: a\n    {kind}\n")).unwrap();
        let error = AuthConfig::load(&path, &AuthParts::default()).unwrap_err();
        assert_eq!(error.code().code, "MCT-AUTHN-MISSING-PART", "{kind}");
        assert!(AuthConfig::load(&path, &parts()).is_ok(), "{kind}");
    }
}

#[tokio::test]
async fn t05_providers_of_a_file_keep_to_their_own_names() {
    let directory = directory();
    let store = Arc::new(MemoryApiKeys::default());
    let parts = AuthParts { api_keys: Some(store.clone()), ..parts() };
    let path = directory.path().join("auth.yaml");
    fs::write(&path, WHOLE).unwrap();
    let chain = AuthConfig::load(&path, &parts).unwrap();
    for (user, expected) in
        [("ci", true), ("corp:alice@example.com", false), ("cluster:hub:system:serviceaccount:a:b", false)]
    {
        let new = crate::NewApiKey { user: user.to_owned(), ..Default::default() };
        let key = crate::create_api_key(&*store, new, &Clock::system()).unwrap().key;
        let bearer = Authorization::new(format!("Bearer {}", key.expose()));
        let answer = chain.authenticate(&Evidence { authorization: Some(bearer), ..Evidence::default() }).await;
        match answer {
            Ok(_) => assert!(expected, "{user}"),
            Err(Unauthenticated::Rejected(_)) => assert!(!expected, "{user}"),
            Err(other) => panic!("{other:?}"),
        }
    }
}
