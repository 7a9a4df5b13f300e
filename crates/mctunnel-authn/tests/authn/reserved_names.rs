//! T05: nobody becomes a part of Kubernetes itself by what a credential says, whatever kind of credential it is.

use crate::{
    forge::{Forge, client_certificate},
    issuer::{Documents, SigningKey, claims_of, offline, settings, token, with},
    setup::{accepted, bearer, chain, paused_clock, status},
};
use mctunnel_authn::{
    ApiKeyRecord, ApiKeySettings, ApiKeyStore, ApiKeys, AuthnError, ClientCertificateSettings, ClientCertificates,
    Clock, MemoryApiKeys, NameRules, NewApiKey, OidcSettings, create_api_key,
};
use mctunnel_core::Authenticate;
use serde_json::{Value, json};
use std::sync::Arc;

const IDP: &str = "https://idp.example";

/// What a managed cluster would take for its own.
const RESERVED: [&str; 5] =
    ["system:masters", "system:node:n1", "system:serviceaccount:kube-system:x", "system:admin", "System:Masters"];

async fn by_oidc(settings: OidcSettings, name: &str, value: Value) -> u16 {
    let key = SigningKey::p256();
    let documents = Arc::new(Documents::default());
    documents.publish(IDP, &[key.jwk("k1")]);
    let chain = chain(offline("idp", settings, paused_clock(), &documents));
    let claims = with(claims_of(IDP), name, value);
    status(&chain.authenticate(&bearer(&token(&key, "ES256", "k1", &claims))).await)
}

#[tokio::test(start_paused = true)]
async fn t05_claims_with_names_of_the_system_are_refused_unless_they_are_mapped() {
    for name in RESERVED {
        assert_eq!(by_oidc(settings(IDP), "sub", json!(name)).await, 401, "{name}");
        assert_eq!(by_oidc(settings(IDP), "groups", json!(["dev", name])).await, 401, "{name}");
        let mut prefixed = settings(IDP);
        prefixed.claims.names.user_prefix = "corp:".to_owned();
        prefixed.claims.names.group_prefix = "corp:".to_owned();
        assert_eq!(by_oidc(prefixed.clone(), "sub", json!(name)).await, 200, "{name}");
        assert_eq!(by_oidc(prefixed, "groups", json!([name])).await, 200, "{name}");
        let mut mapped = settings(IDP);
        mapped.claims.names.users = [(name.to_owned(), "mapped".to_owned())].into();
        assert_eq!(by_oidc(mapped, "sub", json!(name)).await, 200, "{name}");
    }
    for name in ["", " alice", "alice\r\nImpersonate-Group: system:masters", "a\u{0}"] {
        assert_eq!(by_oidc(settings(IDP), "sub", json!(name)).await, 401, "{name:?}");
        assert_eq!(by_oidc(settings(IDP), "groups", json!([name])).await, 401, "{name:?}");
    }
}

#[tokio::test]
async fn t05_certificates_with_names_of_the_system_are_refused_unless_they_are_mapped() {
    let forge = Forge::new("clients");
    let provider = |names: NameRules| {
        let settings = ClientCertificateSettings { ca_pem: forge.pem.clone().into(), names, ..Default::default() };
        chain(ClientCertificates::new("mtls", settings, Clock::system()).unwrap())
    };
    let mapped =
        NameRules { groups: [("system:masters".to_owned(), "admins".to_owned())].into(), ..NameRules::default() };
    for name in RESERVED {
        let by_name = forge.client(name, &[]);
        let by_group = forge.client("alice", &["dev", name]);
        assert_eq!(
            status(&provider(NameRules::default()).authenticate(&client_certificate(&by_name)).await),
            401,
            "{name}"
        );
        assert_eq!(
            status(&provider(NameRules::default()).authenticate(&client_certificate(&by_group)).await),
            401,
            "{name}"
        );
    }
    let user =
        accepted(provider(mapped).authenticate(&client_certificate(&forge.client("alice", &["system:masters"]))).await);
    assert_eq!(user.groups.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["admins"]);
}

#[tokio::test]
async fn t05_api_keys_with_names_of_the_system_are_neither_made_nor_taken() {
    let store = Arc::new(MemoryApiKeys::default());
    for name in RESERVED {
        let user = NewApiKey { user: name.to_owned(), ..NewApiKey::default() };
        let group = NewApiKey { user: "ci".to_owned(), groups: vec![name.to_owned()], ..NewApiKey::default() };
        for new in [user, group] {
            let refused = create_api_key(&*store, new, &Clock::system());
            assert!(matches!(refused, Err(AuthnError::KeyRefused(_))), "{refused:?}");
        }
    }
    // Somebody wrote it into the store.
    let made =
        create_api_key(&*store, NewApiKey { user: "ci".to_owned(), ..NewApiKey::default() }, &Clock::system()).unwrap();
    store.put(ApiKeyRecord { groups: vec!["system:masters".to_owned()], ..made.record }).unwrap();
    let chain = chain(ApiKeys::new("keys", ApiKeySettings::default(), store, Clock::system()).unwrap());
    assert_eq!(status(&chain.authenticate(&bearer(made.key.expose())).await), 401);
}
