//! What every [`Store`] must pass, as a function for its tests: `contract::check(&|| Arc::new(MyStore::new()))`.
//!
//! Durability is not in it: how to take the power away is the implementation's to know.

#![expect(clippy::expect_used, reason = "a contract that is broken fails its test by panicking")]

use super::{Change, MOST_KEY_BYTES, MOST_VALUE_BYTES, Namespace, Store, StoreError};
use std::{sync::Arc, thread};

const FRUIT: Namespace = Namespace::new("fruit");
const TREES: Namespace = Namespace::new("trees");

/// Runs the whole contract on empty stores.
///
/// # Panics
///
/// When an obligation is not kept; the message says which.
pub fn check(empty: &dyn Fn() -> Arc<dyn Store>) {
    what_was_put_is_there(&*empty());
    namespaces_are_apart(&*empty());
    lists_are_ordered_and_by_prefix(&*empty());
    an_update_decides_on_what_is_there(&*empty());
    keys_and_values_have_bounds(&*empty());
    generations_follow_changes(&*empty());
    a_token_counts_once(&empty());
    readers_see_whole_values(&empty());
    a_copy_by_generation_is_never_stale(&empty());
}

fn put(store: &dyn Store, namespace: Namespace, key: &str, value: &[u8]) {
    store.put(namespace, key, value).expect("a change");
}

fn value(store: &dyn Store, namespace: Namespace, key: &str) -> Option<Vec<u8>> {
    store.get(namespace, key).expect("a look")
}

fn keys(store: &dyn Store, namespace: Namespace, prefix: &str) -> Vec<String> {
    let listed = store.list(namespace, prefix).expect("a list");
    listed.into_iter().map(|(key, _)| key).collect()
}

fn what_was_put_is_there(store: &dyn Store) {
    assert_eq!(value(store, FRUIT, "pear"), None, "nothing is there at first");
    put(store, FRUIT, "pear", b"green");
    assert_eq!(value(store, FRUIT, "pear").as_deref(), Some(&b"green"[..]));
    put(store, FRUIT, "pear", b"");
    assert_eq!(value(store, FRUIT, "pear").as_deref(), Some(&b""[..]), "an empty value is a value");
    let large = vec![7; MOST_VALUE_BYTES];
    put(store, FRUIT, "pear", &large);
    assert_eq!(value(store, FRUIT, "pear").as_deref(), Some(&large[..]), "the largest value");
    assert!(store.delete(FRUIT, "pear").expect("a change"), "it was there");
    assert!(!store.delete(FRUIT, "pear").expect("a change"), "it is there no more");
    assert_eq!(value(store, FRUIT, "pear"), None);
}

fn namespaces_are_apart(store: &dyn Store) {
    put(store, FRUIT, "pear", b"fruit");
    put(store, TREES, "pear", b"tree");
    assert_eq!(value(store, FRUIT, "pear").as_deref(), Some(&b"fruit"[..]));
    store.delete(FRUIT, "pear").expect("a change");
    assert_eq!(value(store, TREES, "pear").as_deref(), Some(&b"tree"[..]));
    assert_eq!(keys(store, FRUIT, ""), [""; 0]);
}

fn lists_are_ordered_and_by_prefix(store: &dyn Store) {
    for key in ["b", "a/2", "a/10", "a", "a0", "a/1", "é/1", "é"] {
        put(store, FRUIT, key, key.as_bytes());
    }
    assert_eq!(keys(store, FRUIT, ""), ["a", "a/1", "a/10", "a/2", "a0", "b", "é", "é/1"]);
    assert_eq!(keys(store, FRUIT, "a/"), ["a/1", "a/10", "a/2"]);
    assert_eq!(keys(store, FRUIT, "é"), ["é", "é/1"]);
    assert_eq!(keys(store, FRUIT, "c"), [""; 0]);
    for (key, value) in store.list(FRUIT, "").expect("a list") {
        assert_eq!(key.as_bytes(), value, "a key has its own value");
    }
}

fn an_update_decides_on_what_is_there(store: &dyn Store) {
    let step = |change: Change| {
        store.update_with(FRUIT, "fig", |before| (change, before.map(<[u8]>::to_vec))).expect("an update")
    };
    assert_eq!(step(Change::Keep), None);
    assert_eq!(value(store, FRUIT, "fig"), None, "nothing was made");
    assert_eq!(step(Change::Put(b"1".to_vec())), None);
    assert_eq!(step(Change::Keep).as_deref(), Some(&b"1"[..]));
    assert_eq!(step(Change::Put(b"2".to_vec())).as_deref(), Some(&b"1"[..]));
    assert_eq!(step(Change::Delete).as_deref(), Some(&b"2"[..]));
    assert_eq!(step(Change::Delete), None, "deleting nothing is no error");
    let mut calls = 0;
    let mut count = |_: Option<&[u8]>| {
        calls += 1;
        Change::Put(Vec::new())
    };
    store.update(FRUIT, "fig", &mut count).expect("an update");
    assert_eq!(calls, 1, "it is asked once");
}

fn keys_and_values_have_bounds(store: &dyn Store) {
    let (longest, longer) = ("k".repeat(MOST_KEY_BYTES), "k".repeat(MOST_KEY_BYTES + 1));
    put(store, FRUIT, &longest, b"fits");
    assert_eq!(value(store, FRUIT, &longest).as_deref(), Some(&b"fits"[..]));
    for key in ["", &longer] {
        assert!(matches!(store.get(FRUIT, key), Err(StoreError::BadKey(_))), "get with {} bytes", key.len());
        assert!(matches!(store.put(FRUIT, key, b""), Err(StoreError::BadKey(_))), "put with {} bytes", key.len());
        assert!(matches!(store.delete(FRUIT, key), Err(StoreError::BadKey(_))), "delete with {} bytes", key.len());
    }
    let before = store.generation(FRUIT);
    let too_large = store.put(FRUIT, &longest, &vec![0; MOST_VALUE_BYTES + 1]);
    assert!(matches!(too_large, Err(StoreError::TooLarge(_))), "{too_large:?}");
    assert_eq!(value(store, FRUIT, &longest).as_deref(), Some(&b"fits"[..]), "the old value stays");
    assert_eq!(store.generation(FRUIT), before, "nothing changed");
}

fn generations_follow_changes(store: &dyn Store) {
    let changes = |what: &str, expected: bool, deed: &dyn Fn()| {
        let (fruit, trees) = (store.generation(FRUIT), store.generation(TREES));
        deed();
        assert_eq!(store.generation(FRUIT) != fruit, expected, "{what}");
        assert_eq!(store.generation(TREES), trees, "{what}: another namespace");
    };
    changes("put", true, &|| put(store, FRUIT, "fig", b"1"));
    changes("put of the same", true, &|| put(store, FRUIT, "fig", b"1"));
    changes("get", false, &|| drop(value(store, FRUIT, "fig")));
    changes("list", false, &|| drop(keys(store, FRUIT, "")));
    changes("keep", false, &|| store.update(FRUIT, "fig", &mut |_| Change::Keep).expect("an update"));
    changes("delete", true, &|| assert!(store.delete(FRUIT, "fig").expect("a change")));
    changes("delete of nothing", false, &|| assert!(!store.delete(FRUIT, "fig").expect("a change")));
}

/// Eight who want the same one-use token at once: exactly one gets it.
fn a_token_counts_once(store: &Arc<dyn Store>) {
    for round in 0..20 {
        let key = format!("token-{round}");
        put(&**store, FRUIT, &key, b"unused");
        let use_it = || {
            let (store, key) = (Arc::clone(store), key.clone());
            thread::spawn(move || {
                let decide = |before: Option<&[u8]>| match before {
                    Some(b"unused") => (Change::Put(b"used".to_vec()), 1),
                    _ => (Change::Keep, 0),
                };
                store.update_with(FRUIT, &key, decide).expect("an update")
            })
        };
        let users: Vec<_> = (0..8).map(|_| use_it()).collect();
        let winners: i32 = users.into_iter().map(|user| user.join().expect("no panic")).sum();
        assert_eq!(winners, 1, "round {round}");
    }
}

/// Two values that are each of one byte repeated: a reader never sees a mixture.
fn readers_see_whole_values(store: &Arc<dyn Store>) {
    put(&**store, FRUIT, "fig", &[0; 10_000]);
    let writer = {
        let store = Arc::clone(store);
        thread::spawn(move || {
            for byte in 1..30 {
                put(&*store, FRUIT, "fig", &vec![byte; 10_000]);
            }
        })
    };
    loop {
        let ended = writer.is_finished();
        let seen = value(&**store, FRUIT, "fig").expect("it is there");
        assert_eq!(seen.len(), 10_000);
        assert!(seen.windows(2).all(|pair| pair.first() == pair.last()), "a value is whole");
        if ended {
            break;
        }
    }
    writer.join().expect("no panic");
}

/// Whoever was told that a change is done finds it in a copy that is renewed by generation.
fn a_copy_by_generation_is_never_stale(store: &Arc<dyn Store>) {
    let writer = {
        let store = Arc::clone(store);
        thread::spawn(move || {
            for number in 0..30_u8 {
                put(&*store, TREES, "count", &[number]);
            }
        })
    };
    let copy = || (store.generation(TREES), value(&**store, TREES, "count"));
    let (mut generation, mut seen) = copy();
    loop {
        let ended = writer.is_finished();
        if store.generation(TREES) != generation {
            (generation, seen) = copy();
        }
        if ended {
            break;
        }
    }
    writer.join().expect("no panic");
    assert_eq!(seen, Some(vec![29]), "the copy is the last that was acknowledged");
}
