//! T36: at the most talkative level, and whatever goes wrong, nothing of a credential is in the log or in an answer.

use crate::{
    issuer::{Server, SigningKey, claims_of, settings, shared_rsa, token, with},
    setup::bearer,
};
use mctunnel_authn::{
    ApiKeySettings, ApiKeys, Chain, Clock, MemoryApiKeys, NewApiKey, Oidc, Review, ReviewToken, Reviewing,
    TokenReviewSettings, TokenReviews, create_api_key, revoke_api_key,
};
use mctunnel_core::{Authenticate, Secret};
use parking_lot::Mutex;
use serde_json::json;
use std::{io, sync::Arc};
use tracing::Level;

/// Everything that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A cluster that knows nobody.
struct Nobody;

impl ReviewToken for Nobody {
    fn review<'a>(&'a self, _: &'a Secret, _: &'a [String]) -> Reviewing<'a> {
        Box::pin(std::future::ready(Ok(Review::NotAuthenticated)))
    }
}

#[tokio::test]
async fn t36_no_credential_is_in_the_log_or_in_an_answer() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(Level::TRACE).with_writer(move || writer.clone());
    // For the whole process: a subscriber of one thread misses what others made known before it came.
    tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
    let server = Server::start().await;
    let store = Arc::new(MemoryApiKeys::default());
    let make =
        || create_api_key(&*store, NewApiKey { user: "ci".to_owned(), ..NewApiKey::default() }, &Clock::system());
    let (good_key, revoked_key) = (make().unwrap(), make().unwrap());
    revoke_api_key(&*store, &revoked_key.record.id, &Clock::system()).unwrap();
    let reviews = TokenReviewSettings::new(vec!["mctunnel".to_owned()]);
    let chain = Chain::new(vec![
        Arc::new(ApiKeys::new("keys", ApiKeySettings::default(), store, Clock::system()).unwrap()),
        Arc::new(Oidc::new("idp", settings(&server.url), Clock::system()).unwrap()),
        Arc::new(TokenReviews::new("hub", reviews, Arc::new(Nobody), Clock::system()).unwrap()),
    ])
    .unwrap();
    let claims = claims_of(&server.url);
    let mut tokens = vec![
        good_key.key.expose().to_owned(),
        revoked_key.key.expose().to_owned(),
        format!("{}x", good_key.key.expose()),
        "opaque-canary-token".to_owned(),
    ];
    // The issuer is away at first, then there.
    tokens.push(token(shared_rsa(), "RS256", "k1", &claims));
    for one in &tokens {
        let _ = chain.authenticate(&bearer(one)).await;
    }
    server.publish(&[shared_rsa().jwk("k1")]);
    let chain_with_keys = Chain::new(vec![Arc::new(Oidc::new("idp", settings(&server.url), Clock::system()).unwrap())]);
    let chain_with_keys = chain_with_keys.unwrap();
    tokens.extend([
        token(shared_rsa(), "RS256", "k1", &claims),
        token(shared_rsa(), "RS256", "canary-kid", &claims),
        token(&SigningKey::rsa(), "RS256", "k1", &claims),
        token(shared_rsa(), "RS256", "k1", &with(claims.clone(), "sub", json!("system:canary-sub"))),
        token(shared_rsa(), "RS256", "k1", &with(claims, "aud", json!("canary-aud"))),
    ]);
    let mut said = String::new();
    for one in &tokens {
        for chain in [&chain, &chain_with_keys] {
            if let Err(error) = chain.authenticate(&bearer(one)).await {
                said.push_str(&format!("{error} {error:?}\n"));
            }
        }
    }
    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    assert!(log.contains("cannot be fetched") && log.contains("were fetched"), "the log was not seen: {log}");
    for text in [&log, &said] {
        assert!(!text.contains("canary") && !text.contains("mctk_"), "{text}");
        for part in tokens.iter().flat_map(|token| token.split(['.', '_'])).filter(|part| part.len() >= 8) {
            assert!(!text.contains(part), "{part} is in {text}");
        }
    }
}
