//! T31: two credentials are never weighed against each other, and a chain never guesses.

use crate::{
    forge::{Forge, client_certificate, forwarded},
    issuer::{Documents, SigningKey, claims_of, offline, settings, token},
    setup::{accepted, bearer, paused_clock, status},
};
use mctunnel_authn::{
    Anonymous, ApiKeySettings, ApiKeys, AuthnError, Chain, ClientCertificateSettings, ClientCertificates, Clock,
    FrontProxy, FrontProxyFields, FrontProxySettings, MemoryApiKeys, NameRules, NewApiKey, Provider, Shown, Verdict,
    Verifying, create_api_key,
};
use mctunnel_core::{Authenticate, Authorization, Evidence, Identity, Secret, Unauthenticated, User};
use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

const IDP: &str = "https://idp.example";

/// A chain with a provider of each kind but the cluster's, and a good credential of each.
struct Stage {
    chain: Chain,
    users: Forge,
    proxies: Forge,
    jwt: String,
    key: Secret,
}

fn stage() -> Stage {
    let (users, proxies) = (Forge::new("users"), Forge::new("proxies"));
    let signer = SigningKey::p256();
    let documents = Arc::new(Documents::default());
    documents.publish(IDP, &[signer.jwk("k1")]);
    let store = Arc::new(MemoryApiKeys::default());
    let new = NewApiKey { user: "ci".to_owned(), ..NewApiKey::default() };
    let key = create_api_key(&*store, new, &Clock::system()).unwrap().key;
    let mtls = ClientCertificateSettings { ca_pem: users.pem.clone().into(), ..Default::default() };
    let proxy = FrontProxySettings {
        ca_pem: proxies.pem.clone().into(),
        allowed_names: vec!["front".to_owned()],
        fields: FrontProxyFields::default(),
        names: NameRules::default(),
    };
    let chain = Chain::new(vec![
        Arc::new(ClientCertificates::new("mtls", mtls, Clock::system()).unwrap()),
        Arc::new(ApiKeys::new("keys", ApiKeySettings::default(), store, Clock::system()).unwrap()),
        Arc::new(offline("idp", settings(IDP), paused_clock(), &documents)),
        Arc::new(FrontProxy::new("front", proxy, Clock::system()).unwrap()),
    ])
    .unwrap();
    Stage { chain, users, proxies, jwt: token(&signer, "ES256", "k1", &claims_of(IDP)), key }
}

fn with_bearer(evidence: Evidence, token: &str) -> Evidence {
    Evidence { authorization: bearer(token).authorization, ..evidence }
}

#[tokio::test(start_paused = true)]
async fn t31_one_credential_of_each_kind_is_accepted() {
    let Stage { chain, users, proxies, jwt, key } = stage();
    for (evidence, provider) in [
        (client_certificate(&users.client("bob", &[])), "mtls"),
        (bearer(key.expose()), "keys"),
        (bearer(&jwt), "idp"),
        (forwarded(&proxies.client("front", &[]), &[("x-remote-user", "carol")]), "front"),
    ] {
        assert_eq!(accepted(chain.authenticate(&evidence).await).provider.as_ref(), provider);
    }
}

#[tokio::test(start_paused = true)]
async fn t31_two_credentials_are_a_conflict_even_if_both_are_good_or_neither() {
    let Stage { chain, users, proxies, jwt, key } = stage();
    let (user, front) = (users.client("bob", &[]), proxies.client("front", &[]));
    let stranger = Forge::new("users").client("bob", &[]);
    let says = &[("x-remote-user", "carol")][..];
    let only_fields = Evidence { certificate: None, ..forwarded(&front, says) };
    for (what, evidence) in [
        ("certificate and JWT", with_bearer(client_certificate(&user), &jwt)),
        ("certificate and API key", with_bearer(client_certificate(&user), key.expose())),
        ("certificate and a bad token", with_bearer(client_certificate(&user), "junk")),
        ("a bad certificate and a JWT", with_bearer(client_certificate(&stranger), &jwt)),
        ("front proxy and JWT", with_bearer(forwarded(&front, says), &jwt)),
        ("front proxy's certificate and JWT", with_bearer(client_certificate(&front), &jwt)),
        ("fields and a user's certificate", forwarded(&user, says)),
        ("fields and a stranger's certificate", forwarded(&stranger, says)),
        ("fields alone", only_fields),
        ("fields and JWT", with_bearer(Evidence { certificate: None, ..forwarded(&front, says) }, &jwt)),
        ("a field that says little", forwarded(&user, &[("x-remote-extra-a", "")])),
        (
            "certificate and Basic",
            Evidence { authorization: Some(Authorization::new("Basic YTpi")), ..client_certificate(&user) },
        ),
    ] {
        let answer = chain.authenticate(&evidence).await;
        assert_eq!(status(&answer), 400, "{what}: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn t31_nothing_basic_and_unknown_are_refused() {
    let Stage { chain, .. } = stage();
    let value = |value: &str| Evidence { authorization: Some(Authorization::new(value)), ..Evidence::default() };
    for (what, evidence) in [
        ("nothing", Evidence::default()),
        ("Basic", value("Basic YWxpY2U6c2VjcmV0")),
        ("Basic with an API key's looks", value("Basic mctk_aaaaaaaa")),
        ("Negotiate", value("Negotiate abc")),
        ("two tokens in one", value("Bearer a, Bearer b")),
        ("an opaque token nobody knows", value("Bearer opaque")),
        (
            "a service account's token, and no cluster to ask",
            bearer(&token(&SigningKey::p256(), "ES256", "x", &claims_of("kubernetes/serviceaccount"))),
        ),
    ] {
        let answer = chain.authenticate(&evidence).await;
        assert_eq!(status(&answer), 401, "{what}: {answer:?}");
    }
}

// === clients that nobody knows ===

#[tokio::test(start_paused = true)]
async fn t31_where_clients_without_a_credential_come_in_a_bad_one_still_does_not() {
    let Stage { chain, users, proxies, jwt, key } = stage();
    let stranger = Forge::new("users").client("bob", &[]);
    let says = &[("x-remote-user", "carol")][..];
    let bad_key = format!("{}x", key.expose());
    let (good, forged) = jwt.split_at(jwt.len() - 6);
    let forged_jwt = format!("{good}{}", forged.chars().rev().collect::<String>());
    for unknown_tokens in [false, true] {
        let chain = chain.clone().with_anonymous(Some(Anonymous { unknown_tokens }));
        assert_eq!(chain.authenticate(&Evidence::default()).await, Ok(Identity::Anonymous));
        assert_eq!(accepted(chain.authenticate(&bearer(key.expose())).await).provider.as_ref(), "keys");
        let opaque = chain.authenticate(&bearer("opaque")).await;
        assert_eq!(opaque.is_ok(), unknown_tokens, "{opaque:?}");
        for (what, expected, evidence) in [
            ("an API key that is wrong", 401, bearer(&bad_key)),
            ("a forged token of a known issuer", 401, bearer(&forged_jwt)),
            ("Basic", 401, Evidence { authorization: Some(Authorization::new("Basic YTpi")), ..Evidence::default() }),
            ("an empty token", 401, bearer("")),
            ("a stranger's certificate", 401, client_certificate(&stranger)),
            ("two credentials", 400, with_bearer(client_certificate(&users.client("bob", &[])), "opaque")),
            ("fields alone", 400, Evidence { certificate: None, ..forwarded(&proxies.client("front", &[]), says) }),
        ] {
            let answer = chain.authenticate(&evidence).await;
            assert_eq!(status(&answer), expected, "{what}, unknown tokens {unknown_tokens}: {answer:?}");
        }
    }
}

#[test]
fn a_client_that_nobody_knows_holds_as_long_as_such_come_in() {
    let chain = Chain::new(vec![says("one", yes)]).unwrap();
    assert!(!chain.still_holds(&Identity::Anonymous));
    assert!(chain.with_anonymous(Some(Anonymous::default())).still_holds(&Identity::Anonymous));
}

// === the order of a chain ===

/// A provider that says what it was told to.
struct Says {
    name: Arc<str>,
    answer: fn(&Arc<str>) -> Verdict,
    asked: AtomicUsize,
    generation: AtomicU64,
}

fn says(name: &str, answer: fn(&Arc<str>) -> Verdict) -> Arc<Says> {
    Arc::new(Says { name: name.into(), answer, asked: AtomicUsize::new(0), generation: AtomicU64::new(0) })
}

impl Provider for Says {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn verify<'a>(&'a self, _: &'a Shown<'a>) -> Verifying<'a> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready((self.answer)(&self.name)))
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }
}

fn yes(name: &Arc<str>) -> Verdict {
    Verdict::Accepted(Arc::new(User::new("alice", Arc::clone(name))))
}

fn not_mine(_: &Arc<str>) -> Verdict {
    Verdict::NotMine
}

fn no(_: &Arc<str>) -> Verdict {
    Verdict::Refused(Unauthenticated::Rejected("no".to_owned()))
}

fn away(_: &Arc<str>) -> Verdict {
    Verdict::Refused(Unauthenticated::Unavailable("away".to_owned()))
}

#[tokio::test]
async fn the_first_that_knows_the_credential_has_the_last_word() {
    type Answer = fn(&Arc<str>) -> Verdict;
    for (answers, expected, asked) in [
        ([not_mine as Answer, yes, no], 200, [1, 1, 0]),
        ([no, yes, yes], 401, [1, 0, 0]),
        ([away, yes, yes], 503, [1, 0, 0]),
        ([not_mine, away, yes], 503, [1, 1, 0]),
        ([not_mine, not_mine, not_mine], 401, [1, 1, 1]),
    ] {
        let providers: Vec<_> = ["a", "b", "c"].into_iter().zip(answers).map(|(name, one)| says(name, one)).collect();
        let chain = Chain::new(providers.iter().map(|one| Arc::clone(one) as Arc<dyn Provider>).collect()).unwrap();
        assert_eq!(status(&chain.authenticate(&bearer("x")).await), expected);
        assert_eq!(providers.iter().map(|one| one.asked.load(Ordering::Relaxed)).collect::<Vec<_>>(), asked);
    }
}

#[test]
fn a_chain_of_nobody_and_two_of_one_name_are_errors() {
    assert!(matches!(Chain::new(vec![]), Err(AuthnError::NoProvider)));
    assert!(matches!(Chain::new(vec![says("a", yes), says("a", no)]), Err(AuthnError::Provider { .. })));
}

#[tokio::test]
async fn a_user_holds_with_the_provider_that_vouched_for_it() {
    let (one, two) = (says("one", yes), says("two", yes));
    let chain = Chain::new(vec![one.clone(), two.clone()]).unwrap();
    let of_one = chain.authenticate(&bearer("x")).await.unwrap();
    assert!(chain.still_holds(&of_one));
    assert!(!Chain::new(vec![two.clone()]).unwrap().still_holds(&of_one), "its provider is gone");
    assert!(
        !Chain::new(vec![says("one", yes)]).unwrap().still_holds(&of_one),
        "its provider is another of the same name"
    );
    assert!(!chain.still_holds(&Identity::Anonymous), "nobody comes from here");
    let before = chain.generation();
    two.generation.store(1, Ordering::Relaxed);
    assert_ne!(chain.generation(), before);
}
