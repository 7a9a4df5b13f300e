//! T30: API keys are long, random, kept as hashes, compared in constant time, and dead as soon as they are revoked.

use crate::setup::{accepted, bearer, bearer_from, chain, paused_clock, status, status_of};
use mctunnel_authn::{
    ApiKeyRecord, ApiKeySettings, ApiKeyStore, ApiKeys, AuthnError, Chain, CreatedApiKey, MemoryApiKeys, NameRules,
    NewApiKey, create_api_key, list_api_keys, revoke_api_key,
};
use mctunnel_core::Authenticate;
use std::{sync::Arc, time::Duration};
use tokio::time::advance;

struct Stage {
    store: Arc<MemoryApiKeys>,
    chain: Chain,
    clock: mctunnel_authn::Clock,
}

fn stage() -> Stage {
    let (store, clock) = (Arc::new(MemoryApiKeys::default()), paused_clock());
    let keys = ApiKeys::new("keys", ApiKeySettings::default(), store.clone(), clock.clone()).unwrap();
    Stage { store, chain: chain(keys), clock }
}

impl Stage {
    fn create(&self, user: &str, lifetime: Option<Duration>) -> CreatedApiKey {
        let groups = vec!["builders".to_owned()];
        let new = NewApiKey { user: user.to_owned(), groups, note: "for tests".to_owned(), lifetime };
        create_api_key(&*self.store, new, &self.clock).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn t30_a_key_is_a_user() {
    let stage = stage();
    let made = stage.create("ci", None);
    let user = accepted(stage.chain.authenticate(&bearer(made.key.expose())).await);
    assert_eq!((user.name.as_ref(), user.provider.as_ref()), ("ci", "keys"));
    assert_eq!(user.groups.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["builders"]);
    assert_eq!(user.credential.as_ref(), made.record.id);
    assert_eq!(user.expires, None);
}

#[tokio::test(start_paused = true)]
async fn t30_a_revoked_key_is_dead_at_once_and_what_it_opened_does_not_hold() {
    let stage = stage();
    let (old, new) = (stage.create("ci", None), stage.create("ci", None));
    let opened = stage.chain.authenticate(&bearer(old.key.expose())).await.unwrap();
    assert!(stage.chain.still_holds(&opened));
    let before = stage.chain.generation();
    // Rotation: both count for a while, then the old one does not.
    assert_eq!(status_of(&stage.chain, new.key.expose()).await, 200);
    let revoked = revoke_api_key(&*stage.store, &old.record.id, &stage.clock).unwrap();
    assert_eq!(status_of(&stage.chain, old.key.expose()).await, 401, "no time has passed at all");
    assert!(!stage.chain.still_holds(&opened));
    assert_ne!(stage.chain.generation(), before, "who holds a stream has to look");
    assert_eq!(status_of(&stage.chain, new.key.expose()).await, 200);
    let again = revoke_api_key(&*stage.store, &old.record.id, &stage.clock).unwrap();
    assert_eq!(again.revoked, revoked.revoked, "revoking twice changes nothing");
    assert!(matches!(revoke_api_key(&*stage.store, "nothing", &stage.clock), Err(AuthnError::KeyUnknown(_))));
    let all = list_api_keys(&*stage.store);
    assert_eq!(all.iter().filter(|record| record.revoked.is_some()).count(), 1);
    assert_eq!(all.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn t30_a_key_ends_with_its_time() {
    let stage = stage();
    let made = stage.create("ci", Some(Duration::from_secs(3600)));
    let user = accepted(stage.chain.authenticate(&bearer(made.key.expose())).await);
    assert_eq!(user.expires, made.record.expires);
    advance(Duration::from_secs(3598)).await;
    assert_eq!(status_of(&stage.chain, made.key.expose()).await, 200);
    advance(Duration::from_secs(2)).await;
    assert_eq!(status_of(&stage.chain, made.key.expose()).await, 401);
    let nothing = NewApiKey { user: "ci".to_owned(), lifetime: Some(Duration::ZERO), ..NewApiKey::default() };
    assert!(matches!(create_api_key(&*stage.store, nothing, &stage.clock), Err(AuthnError::KeyRefused(_))));
}

#[tokio::test(start_paused = true)]
async fn t30_nothing_at_rest_and_nothing_printed_is_the_key() {
    let stage = stage();
    let made = stage.create("ci", None);
    let secret = made.key.expose().split('_').nth(2).unwrap();
    let json = stage.store.find(&made.record.id).unwrap().to_json();
    let printed = format!("{made:?} {:?} {:?} {}", stage.store, stage.chain, made.key);
    for text in [&json, &printed] {
        assert!(!text.contains(secret) && text.contains(&made.record.id), "{text}");
    }
    // Whoever stole the record cannot log in with anything that is in it.
    let record = ApiKeyRecord::from_json(&json).unwrap();
    let hash: String = record.hash.iter().map(|byte| format!("{byte:02x}")).collect();
    for stolen in [hash.clone(), format!("mctk_{}_{hash}", record.id), record.id.clone()] {
        assert_eq!(status_of(&stage.chain, &stolen).await, 401);
    }
    for wrong in ["mctk_", "mctk_x", &made.key.expose()[..20], &made.key.expose().to_uppercase()] {
        let reason = stage.chain.authenticate(&bearer(wrong)).await.unwrap_err().to_string();
        assert!(!reason.contains("mctk"), "t36: {reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn t30_a_wrong_secret_a_wrong_id_and_a_typo_sound_the_same() {
    let stage = stage();
    let (one, two) = (stage.create("one", None), stage.create("two", None));
    let other_store = MemoryApiKeys::default();
    let foreign =
        create_api_key(&other_store, NewApiKey { user: "x".to_owned(), ..NewApiKey::default() }, &stage.clock).unwrap();
    // The key of another with this one's id is spelt right only if its checksum is; so take the record instead.
    stage.store.put(ApiKeyRecord { id: one.record.id.clone(), ..two.record.clone() }).unwrap();
    let mut reasons = Vec::new();
    for wrong in [one.key.expose(), foreign.key.expose(), &format!("{}a", two.key.expose())] {
        let answer = stage.chain.authenticate(&bearer(wrong)).await;
        assert_eq!(status(&answer), 401);
        reasons.push(answer.unwrap_err().to_string());
    }
    reasons.dedup();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert_eq!(status_of(&stage.chain, two.key.expose()).await, 200);
}

#[tokio::test(start_paused = true)]
async fn t30_guesses_are_limited_by_address_and_a_right_one_among_them_is_refused_too() {
    let stage = stage();
    let made = stage.create("ci", None);
    let elsewhere = MemoryApiKeys::default();
    let forged: Vec<_> = (0..64)
        .map(|_| {
            let new = NewApiKey { user: "x".to_owned(), ..NewApiKey::default() };
            let guess = create_api_key(&elsewhere, new, &stage.clock).unwrap();
            bearer_from(guess.key.expose(), "192.0.2.1")
        })
        .collect();
    let mut looked_at = 0;
    for guess in forged.iter().cycle().take(1_000_000) {
        match status(&stage.chain.authenticate(guess).await) {
            401 => looked_at += 1,
            other => assert_eq!(other, 429),
        }
    }
    assert_eq!(looked_at, 30);
    let right = |address: &str| bearer_from(made.key.expose(), address);
    assert_eq!(status(&stage.chain.authenticate(&right("192.0.2.1")).await), 429, "else guessing would go on");
    assert_eq!(status(&stage.chain.authenticate(&right("192.0.2.2")).await), 200, "others are not concerned");
    advance(Duration::from_secs(2)).await;
    assert_eq!(
        status(&stage.chain.authenticate(&right("192.0.2.1")).await),
        200,
        "it gets an attempt every two seconds"
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_user_changed_no_longer_holds() {
    let stage = stage();
    let made = stage.create("ci", None);
    let opened = stage.chain.authenticate(&bearer(made.key.expose())).await.unwrap();
    stage.store.put(ApiKeyRecord { note: "another note".to_owned(), ..made.record.clone() }).unwrap();
    assert!(stage.chain.still_holds(&opened));
    for changed in [
        ApiKeyRecord { groups: vec![], ..made.record.clone() },
        ApiKeyRecord { user: "other".to_owned(), ..made.record.clone() },
    ] {
        stage.store.put(changed).unwrap();
        assert!(!stage.chain.still_holds(&opened));
    }
}

#[tokio::test(start_paused = true)]
async fn the_provider_puts_its_prefix_before_the_names() {
    let stage = stage();
    let made = stage.create("ci", None);
    let names = NameRules { user_prefix: "key:".to_owned(), group_prefix: "keys:".to_owned(), ..NameRules::default() };
    let settings = ApiKeySettings { names, ..ApiKeySettings::default() };
    let chain = chain(ApiKeys::new("keys", settings, stage.store.clone(), stage.clock.clone()).unwrap());
    let user = accepted(chain.authenticate(&bearer(made.key.expose())).await);
    assert_eq!((user.name.as_ref(), user.groups[0].as_ref()), ("key:ci", "keys:builders"));
}
