//! An issuer through its life: it rotates its keys, goes away, lies, shares an id with another one. Time stands still except where a
//! real web server is asked.

use crate::{
    issuer::{Documents, Server, SigningKey, claims_of, offline, settings, shared_rsa, token, with},
    setup::{accepted, bearer, bearer_from, chain, paused_clock, status, status_of},
};
use mctunnel_authn::{Chain, Clock, Oidc};
use mctunnel_core::{Authenticate, Unauthenticated};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::advance};

const IDP: &str = "https://idp.example";
const OTHER: &str = "https://other.example";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An issuer with one key, and a chain that trusts it.
fn stage(key: &SigningKey) -> (Arc<Documents>, Chain) {
    let documents = Arc::new(Documents::default());
    documents.publish(IDP, &[key.jwk("k1")]);
    let chain = chain(offline("idp", settings(IDP), paused_clock(), &documents));
    (documents, chain)
}

/// A token that is good for a week.
fn lasting(key: &SigningKey, id: &str) -> String {
    let claims = claims_of(IDP);
    let week = claims["exp"].as_u64().unwrap() + 7 * 24 * 3600;
    token(key, "ES256", id, &with(claims, "exp", json!(week)))
}

#[tokio::test(start_paused = true)]
async fn a_new_key_is_found_and_an_old_one_forgotten() {
    let (old, new) = (SigningKey::p256(), SigningKey::p256());
    let (documents, chain) = stage(&old);
    let (of_old, of_new) = (lasting(&old, "k1"), lasting(&new, "k2"));
    assert_eq!(status_of(&chain, &of_old).await, 200);
    documents.publish(IDP, &[old.jwk("k1"), new.jwk("k2")]);
    advance(seconds(10)).await;
    assert_eq!(status_of(&chain, &of_new).await, 200, "an id that is not known makes it look");
    assert_eq!(status_of(&chain, &of_old).await, 200);
    assert_eq!(documents.fetches(), 2);
    // The old key is taken back. Whoever has a token of it is out once the keys were fetched anew.
    documents.publish(IDP, &[new.jwk("k2")]);
    advance(seconds(301)).await;
    assert_eq!(status_of(&chain, &of_new).await, 200, "the issuer is asked, and has it");
    tokio::task::yield_now().await;
    assert_eq!(documents.fetches(), 3);
    assert_eq!(status_of(&chain, &of_old).await, 401, "also one that was verified before");
    assert_eq!(status_of(&chain, &lasting(&old, "k1")).await, 401);
    assert_eq!(status_of(&chain, &of_new).await, 200);
}

#[tokio::test(start_paused = true)]
async fn b5_a_key_that_was_taken_back_is_refused_to_the_first_who_asks_with_it() {
    let (old, new) = (SigningKey::p256(), SigningKey::p256());
    for idle in [301, 23 * 3600] {
        let (documents, chain) = stage(&old);
        let shown_before = lasting(&old, "k1");
        assert_eq!(status_of(&chain, &shown_before).await, 200);
        documents.publish(IDP, &[new.jwk("k2")]);
        advance(seconds(idle)).await;
        assert_eq!(status_of(&chain, &shown_before).await, 401, "a token that was verified before");
        assert_eq!(documents.fetches(), 2);

        let (documents, chain) = stage(&old);
        assert_eq!(status_of(&chain, &shown_before).await, 200);
        documents.publish(IDP, &[new.jwk("k2")]);
        advance(seconds(idle)).await;
        assert_eq!(status_of(&chain, &lasting(&old, "k1")).await, 401, "a new token of the old key");
        assert_eq!(status_of(&chain, &lasting(&new, "k2")).await, 200);
        assert_eq!(documents.fetches(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn b5_a_key_under_an_id_that_is_used_again_counts_as_soon_as_the_issuer_was_asked() {
    let (old, new) = (SigningKey::p256(), SigningKey::p256());
    let (documents, chain) = stage(&old);
    assert_eq!(status_of(&chain, &lasting(&old, "k1")).await, 200);
    documents.publish(IDP, &[new.jwk("k1")]);
    assert_eq!(status_of(&chain, &lasting(&new, "k1")).await, 401, "the keys were seen just now");
    advance(seconds(301)).await;
    assert_eq!(status_of(&chain, &lasting(&new, "k1")).await, 200);
    assert_eq!(status_of(&chain, &lasting(&old, "k1")).await, 401);
}

#[tokio::test(start_paused = true)]
async fn keys_in_use_are_fetched_before_anybody_has_to_wait_for_them() {
    let key = SigningKey::p256();
    let (documents, chain) = stage(&key);
    let good = lasting(&key, "k1");
    assert_eq!(status_of(&chain, &good).await, 200);
    for fetches in 2..=4 {
        advance(seconds(241)).await;
        let began = tokio::time::Instant::now();
        assert_eq!(status_of(&chain, &good).await, 200);
        assert_eq!(began.elapsed(), seconds(0));
        while documents.fetches() < fetches {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_hangs_holds_those_it_knows_up_for_a_moment_and_not_again() {
    let key = SigningKey::p256();
    let (documents, chain) = stage(&key);
    let good = lasting(&key, "k1");
    assert_eq!(status_of(&chain, &good).await, 200);
    let gate = documents.hold();
    advance(seconds(3600)).await;
    for (token, wait) in [(&good, 5), (&good, 0), (&lasting(&key, "k1"), 0)] {
        let began = tokio::time::Instant::now();
        assert_eq!(status_of(&chain, token).await, 200);
        assert_eq!(began.elapsed(), seconds(wait));
    }
    // It goes on hanging, and is asked again and again.
    for _ in 0..20 {
        advance(seconds(16)).await;
        tokio::task::yield_now().await;
        let began = tokio::time::Instant::now();
        assert_eq!(status_of(&chain, &good).await, 200);
        assert_eq!(began.elapsed(), seconds(0));
    }
    // It is back, and the key is not.
    documents.publish(IDP, &[SigningKey::p256().jwk("k2")]);
    gate.add_permits(1_000);
    advance(seconds(61)).await;
    tokio::task::yield_now().await;
    assert_eq!(status_of(&chain, &good).await, 401);
}

/// Shows a token so often, from such an address; gives the answers that came at once.
async fn show(
    waiting: &mut JoinSet<u16>,
    chain: &Arc<Chain>,
    token: &str,
    address: impl Fn(usize) -> String,
    times: usize,
) -> Vec<u16> {
    for n in 0..times {
        let (chain, evidence) = (Arc::clone(chain), bearer_from(token, &address(n)));
        waiting.spawn(async move { status(&chain.authenticate(&evidence).await) });
    }
    // More turns than tasks: each of them has had its own, and time stands still because nobody is idle.
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
    std::iter::from_fn(|| waiting.try_join_next()).map(Result::unwrap).collect()
}

#[tokio::test(start_paused = true)]
async fn t40_made_up_tokens_do_not_gather_while_an_issuer_hangs() {
    let key = SigningKey::p256();
    let (documents, chain) = stage(&key);
    let chain = Arc::new(chain);
    let (good, junk) = (lasting(&key, "k1"), lasting(&SigningKey::p256(), "made-up"));
    let forged = lasting(&SigningKey::p256(), "k1");
    assert_eq!(status_of(&*chain, &good).await, 200);
    let _gate = documents.hold();
    advance(seconds(3600)).await;
    let mut waiting = JoinSet::new();
    let one = |_: usize| "192.0.2.1".to_owned();
    let many = |n: usize| format!("198.51.{}.{}", n / 200 % 200, n % 200);
    let refused = show(&mut waiting, &chain, &junk, one, 20_000).await;
    assert_eq!((refused.len(), waiting.len()), (20_000 - 256, 256), "so many of one address wait");
    assert!(refused.iter().all(|status| *status == 503));
    let refused = show(&mut waiting, &chain, &forged, many, 20_000).await;
    assert_eq!((refused.len(), waiting.len()), (20_000 - 4_096 + 256, 4_096), "and so many in total");
    assert!(refused.iter().all(|status| *status == 503));
    // Whoever has a token of a key that is known does not stand in that line, wherever it comes from.
    let began = tokio::time::Instant::now();
    for address in ["192.0.2.1", "203.0.113.7"] {
        assert_eq!(status(&chain.authenticate(&bearer_from(&good, address)).await), 200, "{address}");
    }
    assert_eq!(began.elapsed(), seconds(5));
    // Those who waited hear of it, and their places are free again.
    let answers = waiting.join_all().await;
    assert!(answers.iter().all(|status| matches!(status, 401 | 503)), "{answers:?}");
    advance(seconds(10)).await;
    let mut waiting = JoinSet::new();
    assert_eq!(show(&mut waiting, &chain, &junk, one, 300).await.len(), 300 - 256);
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_not_known_make_it_ask_once_in_ten_seconds() {
    let key = SigningKey::p256();
    let (documents, chain) = stage(&key);
    assert_eq!(status_of(&chain, &lasting(&key, "k1")).await, 200);
    for round in 1..=3 {
        advance(seconds(10)).await;
        for n in 0..100 {
            assert_eq!(status_of(&chain, &lasting(&key, &format!("made-up-{n}"))).await, 401);
        }
        assert_eq!(documents.fetches(), 1 + round);
    }
    let wrong = token(&key, "ES256", "made-up", &with(claims_of(IDP), "aud", json!("other")));
    advance(seconds(10)).await;
    assert_eq!(status_of(&chain, &wrong).await, 401);
    assert_eq!(documents.fetches(), 4, "a token that cannot count makes it ask nobody");
}

#[tokio::test(start_paused = true)]
async fn one_fetch_serves_all_who_wait_and_outlives_whoever_began_it() {
    let key = SigningKey::p256();
    let (documents, chain) = stage(&key);
    let gate = documents.hold();
    let good = lasting(&key, "k1");
    // The first one gives up.
    let impatient = tokio::time::timeout(seconds(1), chain.authenticate(&bearer(&good))).await;
    assert!(impatient.is_err());
    let mut waiting = JoinSet::new();
    for _ in 0..100 {
        let (chain, evidence) = (chain.clone(), bearer(&good));
        waiting.spawn(async move { status(&chain.authenticate(&evidence).await) });
    }
    tokio::task::yield_now().await;
    gate.add_permits(1_000);
    assert_eq!(waiting.join_all().await, [200; 100]);
    assert_eq!(documents.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn known_keys_serve_for_a_day_while_the_issuer_is_away() {
    let key = SigningKey::p256();
    let (documents, chain) = stage(&key);
    let (good, unknown) = (lasting(&key, "k1"), lasting(&key, "k2"));
    assert_eq!(status_of(&chain, &good).await, 200);
    documents.go_away();
    for _ in 0..23 {
        advance(seconds(3600)).await;
        assert_eq!(status_of(&chain, &good).await, 200);
    }
    assert_eq!(status_of(&chain, &unknown).await, 503, "who is away may have that key by now");
    let forged = lasting(&SigningKey::p256(), "k1");
    assert_eq!(status_of(&chain, &forged).await, 401, "what can be told without it is told");
    advance(seconds(3601)).await;
    assert_eq!(status_of(&chain, &good).await, 503, "a day is over, also for a token that was verified before");
    // It is back.
    documents.publish(IDP, &[key.jwk("k1")]);
    advance(seconds(10)).await;
    assert_eq!(status_of(&chain, &good).await, 200);
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_was_never_there_is_unavailable_and_asked_once_in_ten_seconds() {
    let key = SigningKey::p256();
    let (documents, chain) = stage(&key);
    documents.go_away();
    for _ in 0..50 {
        let answer = chain.authenticate(&bearer(&lasting(&key, "k1"))).await;
        assert!(matches!(&answer, Err(Unauthenticated::Unavailable(_))), "never anonymous: {answer:?}");
    }
    assert_eq!(documents.fetches(), 1);
    documents.publish(IDP, &[key.jwk("k1")]);
    assert_eq!(status_of(&chain, &lasting(&key, "k1")).await, 503);
    advance(seconds(10)).await;
    assert_eq!(status_of(&chain, &lasting(&key, "k1")).await, 200);
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_hangs_is_unavailable_in_time() {
    let key = SigningKey::p256();
    let (documents, chain) = stage(&key);
    let _gate = documents.hold();
    let began = tokio::time::Instant::now();
    assert_eq!(status_of(&chain, &lasting(&key, "k1")).await, 503);
    assert_eq!(began.elapsed(), seconds(15));
}

#[tokio::test(start_paused = true)]
async fn documents_that_lie_change_nothing() {
    let key = SigningKey::p256();
    let discovery = format!("{IDP}/.well-known/openid-configuration");
    let jwks = format!("{IDP}/keys");
    for (url, document) in [
        (&discovery, json!({"issuer": OTHER, "jwks_uri": jwks}).to_string()),
        (&discovery, json!({"issuer": format!("{IDP}/"), "jwks_uri": jwks}).to_string()),
        (&discovery, json!({"issuer": IDP, "jwks_uri": "http://idp.example/keys"}).to_string()),
        (&discovery, json!({"issuer": IDP, "jwks_uri": "file:///etc/keys"}).to_string()),
        (&discovery, json!({"issuer": IDP}).to_string()),
        (&discovery, "<html>".to_owned()),
        (&jwks, "<html>".to_owned()),
        (&jwks, "{}".to_owned()),
    ] {
        let (documents, chain) = stage(&key);
        documents.put("http://idp.example/keys", &json!({"keys": [key.jwk("k1")]}).to_string());
        documents.put(url, &document);
        assert_eq!(status_of(&chain, &lasting(&key, "k1")).await, 503, "{document}");
        documents.publish(IDP, &[key.jwk("k1")]);
        advance(seconds(10)).await;
        assert_eq!(status_of(&chain, &lasting(&key, "k1")).await, 200, "the control");
        documents.put(url, &document);
        advance(seconds(301)).await;
        assert_eq!(status_of(&chain, &lasting(&key, "k1")).await, 200, "the last good keys stay: {document}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_issuers_with_the_same_id_keep_their_keys_apart() {
    let (one, two) = (SigningKey::p256(), SigningKey::p256());
    let documents = Arc::new(Documents::default());
    documents.publish(IDP, &[one.jwk("same")]);
    documents.publish(OTHER, &[two.jwk("same")]);
    let provider = |name, issuer| Arc::new(offline(name, settings(issuer), paused_clock(), &documents));
    let chain = Chain::new(vec![provider("one", IDP), provider("two", OTHER)]).unwrap();
    for (key, issuer, expected) in
        [(&one, IDP, Some("one")), (&two, OTHER, Some("two")), (&two, IDP, None), (&one, OTHER, None)]
    {
        let answer = chain.authenticate(&bearer(&token(key, "ES256", "same", &claims_of(issuer)))).await;
        match expected {
            Some(name) => assert_eq!(accepted(answer).provider.as_ref(), name),
            None => assert_eq!(status(&answer), 401, "the key of one does not sign for the other"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_with_its_time_also_when_it_is_remembered() {
    let key = SigningKey::p256();
    let (_documents, chain) = stage(&key);
    let good = token(&key, "ES256", "k1", &claims_of(IDP));
    assert_eq!(status_of(&chain, &good).await, 200);
    advance(seconds(3600 + 29)).await;
    assert_eq!(status_of(&chain, &good).await, 200, "within the skew of 30 s");
    advance(seconds(2)).await;
    assert_eq!(status_of(&chain, &good).await, 401);
}

#[tokio::test]
async fn a_real_server_is_not_followed_elsewhere() {
    let server = Server::start().await;
    server.publish(&[shared_rsa().jwk("k1")]);
    let keys = json!({"keys": [shared_rsa().jwk("k1")]}).to_string();
    server.answer("/elsewhere", 200, &keys);
    let good = token(shared_rsa(), "RS256", "k1", &claims_of(&server.url));
    for code in [301, 302, 307, 404, 500] {
        server.answer("/keys", code, &keys);
        let chain = chain(Oidc::new("idp", settings(&server.url), Clock::system()).unwrap());
        assert_eq!(status_of(&chain, &good).await, 503, "{code}");
    }
    assert!(!server.asked.lock().contains(&"/elsewhere".to_owned()));
    for (length, expected) in [((1 << 20) + 1, 503), (1 << 20, 200)] {
        server.answer("/keys", 200, &format!("{keys}{}", " ".repeat(length - keys.len())));
        let chain = chain(Oidc::new("idp", settings(&server.url), Clock::system()).unwrap());
        assert_eq!(status_of(&chain, &good).await, expected, "{length}");
    }
}
