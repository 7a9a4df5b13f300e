//! What was allowed is taken back when the rules or the credential change, and every request leaves one entry.

use super::*;
use mctunnel_core::{
    Action, AuditOutcome, AuditSlot, AuditSubject, Authenticate, Destination, Place, Protocol, Target, User,
};
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};
use tokio_util::sync::CancellationToken;

/// Rules and keys that tests change.
#[derive(Default)]
struct World {
    generation: AtomicU64,
    denied: Mutex<Option<&'static str>>,
    revoked: Mutex<Option<&'static str>>,
}

struct Keys(Arc<World>);

impl Authenticate for Keys {
    async fn authenticate(&self, _: &Evidence) -> Result<Identity, Unauthenticated> {
        Ok(Identity::Anonymous)
    }

    fn still_holds(&self, identity: &Identity) -> bool {
        identity.user().map(|user| &*user.name) != *self.0.revoked.lock()
    }

    fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::SeqCst)
    }
}

struct Rules(Arc<World>);

impl Authorize for Rules {
    fn authorize(&self, access: &Access<'_>) -> Decision {
        if access.identity.user().map(|user| &*user.name) == *self.0.denied.lock() {
            return Decision::denied("rule 7");
        }
        Decision::allowed("rule 1")
    }

    fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::SeqCst)
    }
}

#[derive(Clone, Default)]
struct Book(Arc<Mutex<Vec<String>>>);

struct Page(Book);

impl Audit for Book {
    fn begin(&self) -> Result<Box<dyn AuditSlot>, AuditFull> {
        if self.0.lock().len() >= 3 {
            return Err(AuditFull);
        }
        Ok(Box::new(Page(self.clone())))
    }
}

impl AuditSlot for Page {
    fn started(&mut self, subject: &AuditSubject) {
        self.0.0.lock().push(format!("{} started", subject.request_id));
    }

    fn finish(self: Box<Self>, subject: &AuditSubject, outcome: &AuditOutcome) {
        let rule = subject.decision.as_ref().map(|decision| decision.rule().to_string());
        let entry =
            format!("{} {} {} {:?}", subject.request_id, outcome.status, rule.unwrap_or_default(), outcome.error);
        self.0.0.lock().push(entry);
    }
}

fn checkpoint() -> (Checkpoint, Arc<World>, Book) {
    let (world, book) = (Arc::new(World::default()), Book::default());
    let keys = Arc::new(Keys(Arc::clone(&world)));
    let rules = Arc::new(Rules(Arc::clone(&world)));
    (Checkpoint::new(keys, rules, Arc::new(book.clone())), world, book)
}

fn request_of(name: &str, expires: Option<SystemTime>) -> Admitted {
    let mut user = User::new(name, "test");
    user.expires = expires;
    let destination = Destination { cluster: "c1".parse().unwrap(), target: Target::KubeApi };
    let (action, protocol) = (Action::Bytes, Protocol::tcp());
    Admitted { identity: user.into(), as_of: 0, destination, action, protocol, source: None }
}

fn permit(checkpoint: &Checkpoint, name: &str, expires: Option<SystemTime>) -> Permit {
    let recording = checkpoint.record("test", "r").unwrap();
    checkpoint.admit(request_of(name, expires), &recording).unwrap()
}

#[tokio::test(start_paused = true)]
async fn t32_a_rule_that_changed_cuts_those_it_denies_and_nobody_else() {
    let (checkpoint, world, _) = checkpoint();
    let (alice, bob) = (permit(&checkpoint, "alice", None), permit(&checkpoint, "bob", None));
    *world.denied.lock() = Some("alice");
    // Nothing is said until the rules say that they changed.
    assert!(tokio::time::timeout(Duration::from_secs(30), alice.revoked()).await.is_err());
    world.generation.fetch_add(1, Ordering::SeqCst);
    let reason = tokio::time::timeout(Duration::from_secs(5), alice.revoked()).await.unwrap();
    assert_eq!(&*reason, "rule 7");
    assert!(tokio::time::timeout(Duration::from_secs(30), bob.revoked()).await.is_err());
}

#[tokio::test]
async fn t32_who_was_revoked_between_showing_a_credential_and_being_admitted_is_not() {
    let (checkpoint, world, book) = checkpoint();
    let admit = |name, as_of| {
        let recording = checkpoint.record("test", name).unwrap();
        checkpoint.admit(Admitted { as_of, ..request_of(name, None) }, &recording)
    };
    world.generation.store(5, Ordering::SeqCst);
    let before = checkpoint.identify(&Evidence::default()).await.unwrap().as_of;
    assert_eq!((before, checkpoint.as_of()), (5, 5));
    *world.revoked.lock() = Some("alice");
    world.generation.fetch_add(1, Ordering::SeqCst);
    let refused = admit("alice", before).unwrap_err();
    assert_eq!(refused, Decision::denied("the credential was revoked"));
    assert_eq!(*book.0.lock(), ["alice 0 the credential was revoked None"]);
    assert!(admit("bob", before).is_ok(), "whose credential still counts is not asked again");
}

#[tokio::test(start_paused = true)]
async fn t32_a_permit_of_rules_that_changed_meanwhile_is_decided_again() {
    let (checkpoint, world, _) = checkpoint();
    let bob = permit(&checkpoint, "bob", None);
    // Decided under the old rules; before its permit is there, the rules change and somebody looks.
    let old = checkpoint.permits.generations();
    *world.denied.lock() = Some("alice");
    world.generation.fetch_add(1, Ordering::SeqCst);
    checkpoint.permits.look(SystemTime::now());
    let unrecorded = Recording::new(Unaudited.begin().unwrap(), "test", "r");
    let request = (request_of("alice", None), Extent::Whole);
    let alice = checkpoint.permits.issue(request, old, Box::new(Unlimited), &unrecorded);
    assert!(tokio::time::timeout(Duration::from_secs(5), alice.revoked()).await.is_ok());
    drop(bob);
}

#[tokio::test(start_paused = true)]
async fn t32_a_revoked_credential_cuts_what_it_opened() {
    let (checkpoint, world, _) = checkpoint();
    let alice = permit(&checkpoint, "alice", None);
    *world.revoked.lock() = Some("alice");
    world.generation.fetch_add(1, Ordering::SeqCst);
    let reason = tokio::time::timeout(Duration::from_secs(5), alice.revoked()).await.unwrap();
    assert_eq!(&*reason, "the credential was revoked");
}

#[tokio::test(start_paused = true)]
async fn t32_a_credential_that_ends_cuts_what_it_opened() {
    let (checkpoint, _, _) = checkpoint();
    let alice = permit(&checkpoint, "alice", Some(SystemTime::now()));
    let bob = permit(&checkpoint, "bob", Some(SystemTime::now() + Duration::from_secs(3600)));
    let reason = tokio::time::timeout(Duration::from_secs(5), alice.revoked()).await.unwrap();
    assert_eq!(&*reason, "the credential has expired");
    assert!(tokio::time::timeout(Duration::from_secs(30), bob.revoked()).await.is_err());
}

#[tokio::test]
async fn t32_a_credential_counts_until_its_end_and_not_at_it() {
    let (checkpoint, _, _) = checkpoint();
    let end = SystemTime::now() + Duration::from_secs(3600);
    let alice = permit(&checkpoint, "alice", Some(end));
    checkpoint.permits.look(end - Duration::from_nanos(1));
    assert_eq!(alice.why_revoked(), None);
    checkpoint.permits.look(end);
    assert_eq!(alice.why_revoked().as_deref(), Some("the credential has expired"));
}

#[tokio::test(start_paused = true)]
async fn t32_who_holds_on_to_a_permit_that_was_taken_back_is_cut_from_outside() {
    let (checkpoint, world, _) = checkpoint();
    let (alice, bob) = (permit(&checkpoint, "alice", None), permit(&checkpoint, "bob", None));
    let (cut_alice, cut_bob) = (CancellationToken::new(), CancellationToken::new());
    alice.cut_by(cut_alice.clone());
    bob.cut_by(cut_bob.clone());
    *world.denied.lock() = Some("alice");
    world.generation.fetch_add(1, Ordering::SeqCst);
    // Nobody waits for the permit to be taken back.
    let begun = tokio::time::Instant::now();
    tokio::time::timeout(Duration::from_secs(30), cut_alice.cancelled()).await.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(alice.why_revoked().as_deref(), Some("rule 7"));
    assert!(tokio::time::timeout(Duration::from_secs(30), cut_bob.cancelled()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_forgotten_when_it_is_dropped() {
    let (checkpoint, _, _) = checkpoint();
    let permits: Vec<Permit> = (0..100).map(|_| permit_quietly(&checkpoint)).collect();
    assert!(format!("{checkpoint:?}").contains("held: 100"), "{checkpoint:?}");
    drop(permits);
    assert!(format!("{checkpoint:?}").contains("held: 0"), "{checkpoint:?}");
}

/// Has room for two.
struct Two(Arc<AtomicU64>);

impl Limit for Two {
    fn take(&self, _: &Access<'_>) -> Result<Box<dyn Place>, Decision> {
        if self.0.fetch_add(1, Ordering::SeqCst) < 2 {
            return Ok(Box::new(Chair(Arc::clone(&self.0))));
        }
        self.0.fetch_sub(1, Ordering::SeqCst);
        Err(Decision::Limited { rule: "two at once".into(), retry_after: Duration::from_secs(3) })
    }
}

struct Chair(Arc<AtomicU64>);

impl Place for Chair {}

impl Drop for Chair {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_place_is_held_with_the_permit_and_the_entry_says_who_refused() {
    let (checkpoint, _, book) = checkpoint();
    let checkpoint = checkpoint.with_limit(Arc::new(Two(Arc::default())));
    let first = permit_quietly_through(&checkpoint);
    let _second = permit_quietly_through(&checkpoint);
    let recording = checkpoint.record("test", "r3").unwrap();
    let refused = checkpoint.admit(request_of("alice", None), &recording).unwrap_err();
    assert!(matches!(&refused, Decision::Limited { retry_after, .. } if retry_after.as_secs() == 3), "{refused:?}");
    drop((first, recording));
    assert_eq!(book.0.lock().last().map(String::as_str), Some("r3 0 two at once None"));
    permit_quietly_through(&checkpoint);
}

fn permit_quietly_through(checkpoint: &Checkpoint) -> Permit {
    let recording = Recording::new(Unaudited.begin().unwrap(), "test", "r");
    checkpoint.admit(request_of("alice", None), &recording).unwrap()
}

fn permit_quietly(checkpoint: &Checkpoint) -> Permit {
    checkpoint.permits.issue(
        (request_of("alice", None), Extent::Whole),
        checkpoint.permits.generations(),
        Box::new(Unlimited),
        &Recording::new(Unaudited.begin().unwrap(), "test", "r"),
    )
}

#[tokio::test(start_paused = true)]
async fn what_takes_longer_than_a_look_is_in_the_record_while_it_lives() {
    let (checkpoint, _, book) = checkpoint();
    let recording = checkpoint.record("test", "watch").unwrap();
    let permit = checkpoint.admit(request_of("alice", None), &recording).unwrap();
    looks(900).await;
    assert_eq!(*book.0.lock(), [""; 0], "most requests are over by now, and have one entry");
    looks(1200).await;
    looks(1200).await;
    assert_eq!(*book.0.lock(), ["watch started"]);
    drop(recording);
    assert_eq!(book.0.lock().len(), 2, "looking does not keep the entry open: {:?}", book.0.lock());
    looks(3000).await;
    assert_eq!(book.0.lock().len(), 2);
    drop(permit);
}

/// So much later, when everybody who looks now and then has looked.
async fn looks(milliseconds: u64) {
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_millis(milliseconds)).await;
    tokio::task::yield_now().await;
}

#[test]
fn a_record_says_where_its_client_is() {
    let (checkpoint, ..) = checkpoint();
    let shown = |source: Option<[u8; 4]>| {
        let recording = checkpoint.record_from("test", "r", source.map(Into::into)).unwrap();
        format!("{recording:?}")
    };
    assert!(shown(Some([192, 0, 2, 7])).contains("192.0.2.7") && !shown(None).contains("192.0.2.7"));
}

#[tokio::test]
async fn every_request_leaves_one_entry_whoever_drops_it_last() {
    let (checkpoint, world, book) = checkpoint();
    *world.denied.lock() = Some("mallory");
    let recording = checkpoint.record("test", "r1").unwrap();
    let permit = checkpoint.admit(request_of("alice", None), &recording).unwrap();
    let other = recording.clone();
    recording.started();
    recording.answered(200);
    drop(recording);
    other.ended(1, 2, Some("cut".to_owned()));
    drop((other, permit));
    let denied = checkpoint.record("test", "r2").unwrap();
    assert!(matches!(checkpoint.admit(request_of("mallory", None), &denied), Err(Decision::Denied { .. })));
    denied.answered(403);
    drop(denied);
    assert_eq!(*book.0.lock(), ["r1 started", "r1 200 rule 1 Some(\"cut\")", "r2 403 rule 7 None"]);
    assert_eq!(checkpoint.record("test", "r3").err(), Some(AuditFull));
}
