//! T27: every way to forge a token that has a name. Each is refused with 401, and each good one is accepted; the bad ones differ from
//! a good one in the one thing they are about.

use crate::{
    issuer::{AUDIENCE, Server, SigningKey, claims_of, settings, shared_rsa, signed, token, unix_now, with},
    setup::{accepted, bearer, chain, status, status_of},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mctunnel_authn::{Chain, Clock, Oidc, OidcSettings, SigningAlgorithm};
use mctunnel_core::{Authenticate, Unauthenticated};
use serde_json::{Value, json};

/// An issuer with an RSA key `k1`, and a chain that trusts it.
async fn stage() -> (Server, Chain) {
    let server = Server::start().await;
    server.publish(&[shared_rsa().jwk("k1")]);
    let oidc = Oidc::new("idp", settings(&server.url), Clock::system()).unwrap();
    (server, chain(oidc))
}

/// A good token of `k1` after a change of its claims.
fn changed(server: &Server, name: &str, value: Value) -> String {
    token(shared_rsa(), "RS256", "k1", &with(claims_of(&server.url), name, value))
}

/// A token of `k1` with another header.
fn with_header(server: &Server, header: &Value) -> String {
    signed(shared_rsa(), "RS256", &header.to_string(), &claims_of(&server.url).to_string())
}

#[tokio::test]
async fn t27_a_good_token_is_a_user() {
    let (server, chain) = stage().await;
    let good = token(shared_rsa(), "RS256", "k1", &claims_of(&server.url));
    let user = accepted(chain.authenticate(&bearer(&good)).await);
    assert_eq!((user.name.as_ref(), user.provider.as_ref(), user.credential.as_ref()), ("alice", "idp", "t-1"));
    assert_eq!(user.groups.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["dev", "ops"]);
    assert!(user.expires.is_some());
    // Again, from memory.
    assert_eq!(accepted(chain.authenticate(&bearer(&good)).await), user);
    assert_eq!(server.asked.lock().len(), 2, "discovery and keys, once");
}

#[tokio::test]
async fn claims_that_policy_asks_for_are_told_to_no_cluster() {
    let (server, _) = stage().await;
    let mut asked = settings(&server.url);
    asked.claims.facts = [("team".to_owned(), "department".to_owned())].into();
    let chain = chain(Oidc::new("idp", asked, Clock::system()).unwrap());
    let user = accepted(chain.authenticate(&bearer(&changed(&server, "department", json!(["red", "blue"])))).await);
    assert_eq!(user.facts["team"], ["red", "blue"]);
    assert!(user.extra.is_empty() && user.facts.len() == 1);
    let without = accepted(chain.authenticate(&bearer(&changed(&server, "department", Value::Null))).await);
    assert!(without.facts.is_empty());
    assert_eq!(status_of(&chain, &changed(&server, "department", json!(7))).await, 401);
}

#[tokio::test]
async fn t27_each_algorithm_that_is_configured_is_accepted() {
    use SigningAlgorithm::{EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};
    let server = Server::start().await;
    let (p256, p384, ed) = (SigningKey::p256(), SigningKey::p384(), SigningKey::ed25519());
    server.publish(&[shared_rsa().jwk("r"), p256.jwk("p256"), p384.jwk("p384"), ed.jwk("ed")]);
    let all = vec![Rs256, Rs384, Rs512, Ps256, Ps384, Ps512, Es256, Es384, EdDsa];
    let with_all = OidcSettings { algorithms: all.clone(), ..settings(&server.url) };
    let chain = chain(Oidc::new("idp", with_all, Clock::system()).unwrap());
    for algorithm in all {
        let (key, id) = match algorithm {
            Es256 => (&p256, "p256"),
            Es384 => (&p384, "p384"),
            EdDsa => (&ed, "ed"),
            Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512 => (shared_rsa(), "r"),
        };
        let good = token(key, algorithm.as_str(), id, &claims_of(&server.url));
        assert_eq!(status_of(&chain, &good).await, 200, "{algorithm:?}");
        let bad = token(key, algorithm.as_str(), id, &with(claims_of(&server.url), "aud", json!("other")));
        assert_eq!(status_of(&chain, &bad).await, 401, "{algorithm:?}");
    }
}

#[tokio::test]
async fn t27_valid_variants_are_accepted() {
    let (server, chain) = stage().await;
    let now = unix_now();
    for (what, good) in [
        ("aud in a list of one", changed(&server, "aud", json!([AUDIENCE]))),
        ("no nbf", changed(&server, "nbf", Value::Null)),
        ("no jti", changed(&server, "jti", Value::Null)),
        ("no groups", changed(&server, "groups", Value::Null)),
        ("one group", changed(&server, "groups", json!("dev"))),
        ("exp with a fraction", changed(&server, "exp", json!(now as f64 + 60.5))),
        ("exp just past, within the skew", changed(&server, "exp", json!(now - 10))),
        ("nbf just ahead, within the skew", changed(&server, "nbf", json!(now + 10))),
        ("no typ", with_header(&server, &json!({"alg": "RS256", "kid": "k1"}))),
        ("no kid, and one key", with_header(&server, &json!({"alg": "RS256"}))),
        (
            "x5t, which names a key and brings none",
            with_header(&server, &json!({"alg": "RS256", "kid": "k1", "x5t": "a"})),
        ),
    ] {
        assert_eq!(status_of(&chain, &good).await, 200, "{what}");
    }
}

#[tokio::test]
async fn t27_wrong_algorithms_and_headers_are_refused() {
    let (server, chain) = stage().await;
    let claims = claims_of(&server.url).to_string();
    let jwk = shared_rsa().jwk("k1");
    let unsigned = |header: &str| format!("{}.{}.", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(&claims));
    // The public key is no secret: whoever has it must not be able to sign with it.
    let hmac = |key: &[u8], algorithm: &str| {
        let message = unsigned(&json!({"alg": algorithm, "kid": "k1"}).to_string()).trim_end_matches('.').to_owned();
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key);
        let tag = aws_lc_rs::hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
    };
    let modulus = URL_SAFE_NO_PAD.decode(jwk["n"].as_str().unwrap()).unwrap();
    let mallory = SigningKey::rsa();
    let embedded = json!({"alg": "RS256", "kid": "k1", "jwk": mallory.jwk("k1")});
    let mut table = vec![
        ("none", unsigned(r#"{"alg":"none","kid":"k1"}"#)),
        ("None", unsigned(r#"{"alg":"None"}"#)),
        ("nOnE", unsigned(r#"{"alg":"nOnE"}"#)),
        ("none with a signature", with_header(&server, &json!({"alg": "none", "kid": "k1"}))),
        ("no signature", unsigned(r#"{"alg":"RS256","kid":"k1"}"#)),
        ("HS256 with the modulus", hmac(&modulus, "HS256")),
        ("HS256 with the JWK", hmac(jwk.to_string().as_bytes(), "HS256")),
        ("HMAC that says RS256", hmac(&modulus, "RS256")),
        ("embedded jwk", signed(&mallory, "RS256", &embedded.to_string(), &claims)),
        ("embedded jwk, signed by the right key", with_header(&server, &embedded)),
        ("another's key under our id", token(&mallory, "RS256", "k1", &claims_of(&server.url))),
        ("RS384, which is not configured", token(shared_rsa(), "RS384", "k1", &claims_of(&server.url))),
        ("PS256, which is not configured", token(shared_rsa(), "PS256", "k1", &claims_of(&server.url))),
        ("PS256 that says RS256", signed(shared_rsa(), "PS256", r#"{"alg":"RS256","kid":"k1"}"#, &claims)),
        ("ES256 that means an RSA key", token(&SigningKey::p256(), "ES256", "k1", &claims_of(&server.url))),
        ("alg twice", signed(shared_rsa(), "RS256", r#"{"alg":"RS256","alg":"none","kid":"k1"}"#, &claims)),
    ];
    for (what, extra) in [
        ("jku", json!({"jku": format!("{}/keys", server.url)})),
        ("x5u", json!({"x5u": "https://evil.example/x"})),
        ("x5c", json!({"x5c": ["AQID"]})),
        ("crit", json!({"crit": ["exp"], "exp": 1})),
        ("empty crit", json!({"crit": []})),
        ("b64", json!({"crit": ["b64"], "b64": false})),
        ("typ of another use", json!({"typ": "logout+jwt"})),
        ("kid with a path", json!({"kid": "../../../../dev/null"})),
        ("kid with a query", json!({"kid": "k1' UNION SELECT 'x"})),
        ("kid with a NUL", json!({"kid": "k1\u{0}"})),
        ("kid that is a URL", json!({"kid": format!("{}/keys", server.url)})),
        ("kid that is a number", json!({"kid": 1})),
        ("kid that is a list", json!({"kid": ["k1"]})),
        ("empty kid", json!({"kid": ""})),
    ] {
        let mut header = json!({"alg": "RS256", "kid": "k1"});
        header.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        table.push((what, with_header(&server, &header)));
    }
    for (what, bad) in table {
        assert_eq!(status_of(&chain, &bad).await, 401, "{what}");
    }
    let asked = server.asked.lock().clone();
    assert!(asked.iter().all(|path| path == "/keys" || path.starts_with("/.well-known/")), "{asked:?}");
    assert_eq!(
        status_of(&chain, &token(shared_rsa(), "RS256", "k1", &claims_of(&server.url))).await,
        200,
        "the control"
    );
}

#[tokio::test]
async fn t27_wrong_claims_are_refused() {
    let (server, chain) = stage().await;
    let now = unix_now();
    for (name, values) in [
        (
            "aud",
            vec![
                Value::Null,
                json!(""),
                json!("other"),
                json!("mctunnel "),
                json!("MCTUNNEL"),
                json!(["other"]),
                json!([]),
                json!([[AUDIENCE]]),
                json!([AUDIENCE, 5]),
                json!([AUDIENCE, "other"]),
                json!({ AUDIENCE: true }),
                json!(1),
                json!(true),
            ],
        ),
        (
            "iss",
            vec![
                Value::Null,
                json!("https://evil.example"),
                json!(format!("{}/", server.url)),
                json!([server.url]),
                json!(server.url.to_uppercase()),
                json!(1),
            ],
        ),
        (
            "exp",
            vec![
                Value::Null,
                json!("never"),
                json!((now + 3600).to_string()),
                json!(now - 31),
                json!(0),
                json!(-1),
                json!(1e30),
                json!(u64::MAX),
                json!(true),
                json!([now + 3600]),
                json!({}),
            ],
        ),
        ("nbf", vec![json!(now + 60), json!("0"), json!(-5), json!(1e30), json!([]), json!(false)]),
        ("sub", vec![Value::Null, json!(""), json!(5), json!(["alice"]), json!({}), json!("a".repeat(257))]),
        ("groups", vec![json!(5), json!(["dev", 5]), json!({"dev": true}), json!([["dev"]]), json!([""])]),
        ("cnf", vec![json!({"jkt": "x"})]),
    ] {
        for value in values {
            assert_eq!(status_of(&chain, &changed(&server, name, value.clone())).await, 401, "{name}: {value}");
        }
    }
    // What serde_json would read without a word.
    let plain = claims_of(&server.url).to_string();
    let doubled = |extra: &str| {
        let claims = plain.replacen('{', &format!("{{{extra},"), 1);
        signed(shared_rsa(), "RS256", r#"{"alg":"RS256","kid":"k1"}"#, &claims)
    };
    for extra in
        [r#""sub":"alice""#, r#""sub":"root""#, r#""exp":99999999999"#, r#""s\u0075b":"root""#, r#""x":{"a":1,"a":2}"#]
    {
        assert_eq!(status_of(&chain, &doubled(extra)).await, 401, "{extra}");
    }
    assert_eq!(status_of(&chain, &doubled(r#""new":1"#)).await, 200, "the control");
}

#[tokio::test]
async fn t27_a_null_in_a_typed_claim_is_not_an_absence() {
    let (server, chain) = stage().await;
    for name in ["aud", "exp", "sub", "iss", "nbf"] {
        let mut claims = claims_of(&server.url);
        claims.as_object_mut().unwrap().insert(name.to_owned(), Value::Null);
        assert_eq!(status_of(&chain, &token(shared_rsa(), "RS256", "k1", &claims)).await, 401, "{name}");
    }
}

#[tokio::test]
async fn t27_broken_and_huge_tokens_are_refused_before_anything_is_asked() {
    let (server, chain) = stage().await;
    let good = token(shared_rsa(), "RS256", "k1", &claims_of(&server.url));
    let parts: Vec<&str> = good.split('.').collect();
    let (header, claims, signature) = (parts[0], parts[1], parts[2]);
    let huge = changed(&server, "sub", json!("a".repeat(1 << 20)));
    assert!(huge.len() > 1 << 20);
    let edge = changed(&server, "pad", json!("a".repeat(16 * 1024)));
    for (what, bad) in [
        ("1 MB", huge),
        ("just too long", edge),
        ("two parts", format!("{header}.{claims}")),
        ("four parts", format!("{good}.")),
        ("five parts", format!("{good}.{claims}.{signature}")),
        ("no header", format!(".{claims}.{signature}")),
        ("padding", format!("{header}=.{claims}.{signature}")),
        ("padded signature", format!("{good}==")),
        ("standard base64", format!("{header}.{claims}.+{}", &signature[1..])),
        ("claims that are a list", signed(shared_rsa(), "RS256", r#"{"alg":"RS256","kid":"k1"}"#, "[]")),
        ("claims with a tail", signed(shared_rsa(), "RS256", r#"{"alg":"RS256","kid":"k1"}"#, "{}{}")),
    ] {
        assert_eq!(status_of(&chain, &bad).await, 401, "{what}");
    }
    assert_eq!(server.asked.lock().len(), 0, "nobody was asked");
    let tampered = URL_SAFE_NO_PAD.encode(with(claims_of(&server.url), "sub", json!("root")).to_string());
    for (what, bad) in [
        ("other claims", format!("{header}.{tampered}.{signature}")),
        ("a signature cut short", good[..good.len() - 4].to_owned()),
        ("a signature with more", format!("{good}AAAA")),
        ("another signature", format!("{header}.{claims}.{}", "A".repeat(signature.len()))),
    ] {
        assert_eq!(status_of(&chain, &bad).await, 401, "{what}");
    }
    assert_eq!(status_of(&chain, &good).await, 200, "the control");
}

#[tokio::test]
async fn t27_any_change_of_a_token_is_refused() {
    let server = Server::start().await;
    let key = SigningKey::p256();
    server.publish(&[key.jwk("k1")]);
    let chain = chain(Oidc::new("idp", settings(&server.url), Clock::system()).unwrap());
    let good = token(&key, "ES256", "k1", &claims_of(&server.url));
    assert_eq!(status_of(&chain, &good).await, 200);
    for at in 0..good.len() {
        for other in ["A", "B", "Q", "w", "_", ".", "=", ""] {
            let changed = format!("{}{other}{}", &good[..at], &good[at + 1..]);
            assert!(changed == good || status_of(&chain, &changed).await == 401, "{other} at {at} of {good}");
        }
    }
}

#[tokio::test]
async fn t27_a_token_for_others_too_needs_others_that_are_known() {
    let server = Server::start().await;
    server.publish(&[shared_rsa().jwk("k1")]);
    let mut known = settings(&server.url);
    known.claims.other_audiences = vec!["account".to_owned()];
    let chain = chain(Oidc::new("idp", known, Clock::system()).unwrap());
    for (aud, expected) in [
        (json!([AUDIENCE, "account"]), 200),
        (json!(["account"]), 401),
        (json!("account"), 401),
        (json!([AUDIENCE, "account", "other"]), 401),
    ] {
        assert_eq!(status_of(&chain, &changed(&server, "aud", aud.clone())).await, expected, "{aud}");
    }
}

#[tokio::test]
async fn claims_are_mapped_as_configured() {
    let server = Server::start().await;
    server.publish(&[shared_rsa().jwk("k1")]);
    let mut mapped = settings(&server.url);
    mapped.claims.user = "email".to_owned();
    mapped.claims.names.user_prefix = "corp:".to_owned();
    mapped.claims.names.group_prefix = "corp-group:".to_owned();
    mapped.claims.required = [("hd".to_owned(), "example.com".to_owned())].into();
    let chain = chain(Oidc::new("corp", mapped, Clock::system()).unwrap());
    let of_company = with(claims_of(&server.url), "hd", json!("example.com"));
    let send = |claims: Value| {
        let chain = chain.clone();
        async move { chain.authenticate(&bearer(&token(shared_rsa(), "RS256", "k1", &claims))).await }
    };
    let user = accepted(send(of_company.clone()).await);
    assert_eq!(user.name.as_ref(), "corp:alice@example.com");
    assert_eq!(user.groups.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["corp-group:dev", "corp-group:ops"]);
    accepted(send(with(of_company.clone(), "hd", json!(["example.org", "example.com"]))).await);
    accepted(send(with(of_company.clone(), "email_verified", json!(true))).await);
    for (name, value) in [
        ("sub", Value::Null),
        ("sub", json!("")),
        ("hd", Value::Null),
        ("hd", json!("example.org")),
        ("hd", json!(["example.org"])),
        ("email", Value::Null),
        ("email", json!(5)),
        ("email_verified", json!(false)),
        ("email_verified", json!("true")),
    ] {
        let answer = send(with(of_company.clone(), name, value.clone())).await;
        assert_eq!(status(&answer), 401, "{name}: {value}");
    }
}

#[tokio::test]
async fn t36_reasons_have_nothing_of_the_token() {
    let (server, chain) = stage().await;
    let mut claims = claims_of(&server.url);
    for name in ["aud", "sub", "jti", "email"] {
        claims[name] = json!("canary");
    }
    for bad in [
        token(shared_rsa(), "RS256", "canary", &claims),
        token(shared_rsa(), "RS256", "canary", &with(claims.clone(), "aud", json!(AUDIENCE))),
        token(
            shared_rsa(),
            "RS256",
            "k1",
            &with(with(claims, "aud", json!(AUDIENCE)), "groups", json!("system:canary")),
        ),
        "canary".to_owned(),
        "canary.canary.canary".to_owned(),
    ] {
        let reason = chain.authenticate(&bearer(&bad)).await.unwrap_err();
        assert!(matches!(reason, Unauthenticated::Rejected(_)), "{reason:?}");
        let text = format!("{reason} {reason:?}");
        assert!(!text.contains("canary") && !bad.split('.').any(|part| text.contains(part)), "{text}");
    }
}
