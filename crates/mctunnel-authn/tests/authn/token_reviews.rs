//! T29: tokens that the hub's cluster knows. It is asked once per token at a time, its answer counts for ten seconds, and when it
//! cannot be asked nobody gets in.

use crate::{
    issuer::{SigningKey, claims_of, token, unix_now, with},
    setup::{accepted, bearer, bearer_from, chain, paused_clock, status, status_of},
};
use mctunnel_authn::{
    AuthnError, Chain, Review, ReviewToken, ReviewedUser, Reviewing, TokenReviewSettings, TokenReviews,
};
use mctunnel_core::{Authenticate, Secret, User};
use parking_lot::Mutex;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, advance},
};

const HUB: &str = "mctunnel";

/// A cluster that answers as told.
struct Cluster {
    answer: Mutex<Result<Review, String>>,
    /// Each question: the token and the audiences.
    asked: Mutex<Vec<(String, Vec<String>)>>,
    under_way: Mutex<(usize, usize)>,
    gate: Mutex<Option<Arc<Semaphore>>>,
}

impl Cluster {
    fn new(answer: Result<Review, String>) -> Arc<Self> {
        Arc::new(Self {
            answer: Mutex::new(answer),
            asked: Mutex::default(),
            under_way: Mutex::default(),
            gate: Mutex::default(),
        })
    }

    fn hold(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.gate.lock() = Some(Arc::clone(&gate));
        gate
    }

    fn count(&self) -> usize {
        self.asked.lock().len()
    }
}

impl ReviewToken for Cluster {
    fn review<'a>(&'a self, token: &'a Secret, audiences: &'a [String]) -> Reviewing<'a> {
        Box::pin(async move {
            self.asked.lock().push((token.expose().to_owned(), audiences.to_vec()));
            {
                let mut under_way = self.under_way.lock();
                under_way.0 += 1;
                under_way.1 = under_way.1.max(under_way.0);
            }
            let gate = self.gate.lock().clone();
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            self.under_way.lock().0 -= 1;
            self.answer.lock().clone()
        })
    }
}

fn reviewed(name: &str, groups: &[&str]) -> ReviewedUser {
    ReviewedUser {
        name: name.to_owned(),
        uid: Some("u-1".to_owned()),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        audiences: vec![HUB.to_owned()],
        ..ReviewedUser::default()
    }
}

fn account() -> ReviewedUser {
    reviewed(
        "system:serviceaccount:ci:runner",
        &["system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"],
    )
}

fn with_settings(cluster: &Arc<Cluster>, settings: TokenReviewSettings) -> Chain {
    chain(TokenReviews::new("hub", settings, cluster.clone(), paused_clock()).unwrap())
}

fn asking(cluster: &Arc<Cluster>) -> Chain {
    with_settings(cluster, TokenReviewSettings::new(vec![HUB.to_owned()]))
}

async fn user_of(found: ReviewedUser) -> Result<Arc<User>, u16> {
    let cluster = Cluster::new(Ok(Review::Authenticated(found)));
    let answer = asking(&cluster).authenticate(&bearer("opaque")).await;
    if answer.is_ok() { Ok(accepted(answer)) } else { Err(status(&answer)) }
}

#[tokio::test(start_paused = true)]
async fn t05_service_accounts_of_the_hub_have_names_of_the_hub() {
    let user = user_of(account()).await.unwrap();
    assert_eq!(user.name.as_ref(), "cluster:hub:system:serviceaccount:ci:runner");
    assert_eq!(
        user.groups.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
        ["cluster:hub:system:serviceaccounts", "cluster:hub:system:serviceaccounts:ci"]
    );
    assert_eq!((user.uid.as_deref(), user.provider.as_ref()), (Some("u-1"), "hub"));
    assert!(user.credential.starts_with("sha256:") && user.extra.is_empty());
    let user = user_of(reviewed("alice", &["dev", "system:authenticated"])).await.unwrap();
    assert_eq!((user.name.as_ref(), user.groups.len(), user.groups[0].as_ref()), ("alice", 1, "dev"));
}

#[tokio::test(start_paused = true)]
async fn t05_other_names_of_the_system_are_refused_unless_they_are_mapped() {
    for found in [
        reviewed("system:admin", &[]),
        reviewed("system:node:n1", &["system:nodes"]),
        reviewed("system:anonymous", &["system:unauthenticated"]),
        reviewed("alice", &["system:masters"]),
        reviewed("alice", &["system:serviceaccounts"]),
        reviewed("system:serviceaccount:ci:runner", &["system:masters"]),
        reviewed("cluster:hub:x\n", &[]),
        reviewed("", &[]),
    ] {
        assert_eq!(user_of(found.clone()).await, Err(401), "{found:?}");
    }
    let mut mapped = TokenReviewSettings::new(vec![HUB.to_owned()]);
    mapped.names.users = [("system:serviceaccount:ci:runner".to_owned(), "runner".to_owned())].into();
    mapped.names.groups = [("system:serviceaccounts:ci".to_owned(), "ci".to_owned())].into();
    let cluster = Cluster::new(Ok(Review::Authenticated(reviewed(
        "system:serviceaccount:ci:runner",
        &["system:serviceaccounts:ci"],
    ))));
    let user = accepted(with_settings(&cluster, mapped).authenticate(&bearer("opaque")).await);
    assert_eq!((user.name.as_ref(), user.groups[0].as_ref()), ("runner", "ci"));
}

#[tokio::test(start_paused = true)]
async fn t29_a_token_for_another_audience_is_refused() {
    for audiences in [&[][..], &["https://kubernetes.default.svc"], &["mctunnel-x"]] {
        let audiences = audiences.iter().map(|&one| one.to_owned()).collect();
        assert_eq!(user_of(ReviewedUser { audiences, ..account() }).await, Err(401));
    }
    let cluster = Cluster::new(Ok(Review::NotAuthenticated));
    assert_eq!(status_of(&asking(&cluster), "opaque").await, 401);
    assert_eq!(cluster.asked.lock()[0], ("opaque".to_owned(), vec![HUB.to_owned()]), "audiences are always sent");
    for audiences in [vec![], vec![String::new()]] {
        let none = TokenReviews::new("hub", TokenReviewSettings::new(audiences), cluster.clone(), paused_clock());
        assert!(matches!(none, Err(AuthnError::Provider { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn t29_errors_and_silence_are_unavailable_and_are_not_remembered() {
    let cluster = Cluster::new(Err("the answer is 500".to_owned()));
    let chain = asking(&cluster);
    assert_eq!(status_of(&chain, "opaque").await, 503);
    *cluster.answer.lock() = Ok(Review::Authenticated(account()));
    assert_eq!(status_of(&chain, "opaque").await, 200, "asked again");
    let _gate = cluster.hold();
    let began = Instant::now();
    assert_eq!(status_of(&chain, "another").await, 503);
    assert_eq!(began.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn t29_a_revoked_token_is_refused_within_ten_seconds() {
    let cluster = Cluster::new(Ok(Review::Authenticated(account())));
    let chain = asking(&cluster);
    for _ in 0..100 {
        assert_eq!(status_of(&chain, "opaque").await, 200);
    }
    assert_eq!(cluster.count(), 1);
    *cluster.answer.lock() = Ok(Review::NotAuthenticated);
    advance(Duration::from_millis(9_999)).await;
    assert_eq!(status_of(&chain, "opaque").await, 200);
    advance(Duration::from_millis(1)).await;
    assert_eq!(status_of(&chain, "opaque").await, 401);
    assert_eq!(cluster.count(), 2);
    // And the other way round.
    *cluster.answer.lock() = Ok(Review::Authenticated(account()));
    assert_eq!(status_of(&chain, "opaque").await, 401, "also remembered");
    advance(Duration::from_secs(10)).await;
    assert_eq!(status_of(&chain, "opaque").await, 200);
}

#[tokio::test(start_paused = true)]
async fn t29_a_slow_answer_is_as_old_as_its_question() {
    let cluster = Cluster::new(Ok(Review::Authenticated(account())));
    let gate = cluster.hold();
    let chain = asking(&cluster);
    let asked = chain.clone();
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { status_of(&asked, "opaque").await });
    tokio::task::yield_now().await;
    advance(Duration::from_secs(9)).await;
    gate.add_permits(100);
    assert_eq!(waiting.join_all().await, [200]);
    advance(Duration::from_secs(1)).await;
    *cluster.answer.lock() = Ok(Review::NotAuthenticated);
    assert_eq!(status_of(&chain, "opaque").await, 401);
}

#[tokio::test(start_paused = true)]
async fn t29_an_answer_never_outlives_the_token() {
    let cluster = Cluster::new(Ok(Review::Authenticated(account())));
    let chain = asking(&cluster);
    let claims = with(claims_of("https://kubernetes.default.svc"), "exp", json!(unix_now() + 4));
    let short = token(&SigningKey::p256(), "ES256", "x", &claims);
    let user = accepted(chain.authenticate(&bearer(&short)).await);
    assert!(user.expires.is_some(), "what it opens ends with it");
    *cluster.answer.lock() = Ok(Review::NotAuthenticated);
    advance(Duration::from_secs(5)).await;
    assert_eq!(status_of(&chain, &short).await, 401);
    assert_eq!(cluster.count(), 2);
}

#[tokio::test]
async fn t29_five_hundred_requests_of_one_token_are_one_question() {
    let cluster = Cluster::new(Ok(Review::Authenticated(account())));
    let gate = cluster.hold();
    let chain = asking(&cluster);
    let mut waiting = JoinSet::new();
    for _ in 0..500 {
        let chain = chain.clone();
        waiting.spawn(async move { status_of(&chain, "opaque").await });
    }
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(1_000);
    assert_eq!(waiting.join_all().await, [200; 500]);
    assert_eq!((cluster.count(), cluster.under_way.lock().1), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t29_five_hundred_requests_on_several_threads_are_one_question_too() {
    for _ in 0..20 {
        let cluster = Cluster::new(Ok(Review::Authenticated(account())));
        let chain = asking(&cluster);
        let mut waiting = JoinSet::new();
        for _ in 0..500 {
            let chain = chain.clone();
            waiting.spawn(async move { status_of(&chain, "opaque").await });
        }
        assert_eq!(waiting.join_all().await, [200; 500]);
        assert_eq!(cluster.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn t29_who_gives_up_does_not_take_the_answer_from_others() {
    let cluster = Cluster::new(Ok(Review::Authenticated(account())));
    let gate = cluster.hold();
    let chain = asking(&cluster);
    let mut first = JoinSet::new();
    let mut second = JoinSet::new();
    for waiting in [&mut first, &mut second] {
        let chain = chain.clone();
        waiting.spawn(async move { status_of(&chain, "opaque").await });
        tokio::task::yield_now().await;
    }
    first.shutdown().await;
    gate.add_permits(100);
    assert_eq!(second.join_all().await, [200]);
    assert_eq!(cluster.count(), 1);
    // When nobody waits any more, the question is dropped, and the next one is a new one.
    *cluster.gate.lock() = None;
    let gate = cluster.hold();
    let impatient = tokio::time::timeout(Duration::from_secs(1), chain.authenticate(&bearer("other"))).await;
    assert!(impatient.is_err());
    gate.add_permits(100);
    assert_eq!(status_of(&chain, "other").await, 200);
    assert_eq!(cluster.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn questions_are_limited_at_once_and_failures_by_address() {
    let cluster = Cluster::new(Ok(Review::NotAuthenticated));
    let gate = cluster.hold();
    let chain = asking(&cluster);
    let mut waiting = JoinSet::new();
    for n in 0..500 {
        let chain = chain.clone();
        let evidence = bearer_from(&format!("guess-{n}"), &format!("192.0.2.{}", n % 250));
        waiting.spawn(async move { status(&chain.authenticate(&evidence).await) });
    }
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.under_way.lock().1, 64);
    gate.add_permits(10_000);
    assert_eq!(waiting.join_all().await, [401; 500]);
    let mut answers = Vec::new();
    for n in 0..100 {
        answers.push(status(&chain.authenticate(&bearer_from(&format!("more-{n}"), "198.51.100.1")).await));
    }
    assert_eq!(answers.iter().filter(|&&answer| answer == 401).count(), 30);
    assert_eq!(answers.iter().filter(|&&answer| answer == 429).count(), 70);
}

#[tokio::test(start_paused = true)]
async fn t40_who_shows_one_token_after_another_has_its_share_and_no_more() {
    let cluster = Cluster::new(Ok(Review::Authenticated(account())));
    let gate = cluster.hold();
    let chain = asking(&cluster);
    let ask = |token: String, address: &'static str| {
        let chain = chain.clone();
        async move { status(&chain.authenticate(&bearer_from(&token, address)).await) }
    };
    let mut flood = JoinSet::new();
    for n in 0..1_000 {
        flood.spawn(ask(format!("made-up-{n}"), "192.0.2.1"));
    }
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.under_way.lock().0, 16, "a quarter of the turns");
    let mut others = JoinSet::new();
    for n in 0..40 {
        others.spawn(ask(format!("token-{n}"), if n % 2 == 0 { "198.51.100.1" } else { "203.0.113.1" }));
    }
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.under_way.lock().0, 48, "and each of the others has the same");
    gate.add_permits(10_000);
    assert_eq!(others.join_all().await, [200; 40]);
    let flooded = flood.join_all().await;
    assert_eq!(
        flooded.iter().filter(|&&answer| answer == 503).count(),
        1_000 - 256,
        "what is beyond its share is refused"
    );
}

#[tokio::test(start_paused = true)]
async fn t36_neither_api_keys_nor_certificates_are_sent_to_the_cluster() {
    let cluster = Cluster::new(Err("canary".to_owned()));
    let chain = asking(&cluster);
    assert_eq!(status_of(&chain, "mctk_aaaaaaaa_bbbb_cccc").await, 401);
    assert_eq!(cluster.count(), 0);
    assert_eq!(status_of(&chain, "opaque").await, 503);
}

/// Lets so many seconds pass, and everybody do what is due.
async fn pass(seconds: u32) {
    for _ in 0..seconds * 10 {
        advance(Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn t29_t32_a_token_that_is_revoked_while_something_is_open_does_not_hold() {
    let cluster = Cluster::new(Ok(Review::Authenticated(account())));
    let chain = asking(&cluster);
    let identity = chain.authenticate(&bearer("opaque")).await.unwrap();
    let before = chain.generation();
    assert!(chain.still_holds(&identity));
    // The cluster is asked again, and says the same.
    pass(30).await;
    assert!(cluster.count() > 1 && chain.still_holds(&identity) && chain.generation() == before);
    // It cannot be asked: that says nothing about the token.
    *cluster.answer.lock() = Err("the answer is 500".to_owned());
    pass(30).await;
    assert!(chain.still_holds(&identity) && chain.generation() == before);
    *cluster.answer.lock() = Ok(Review::NotAuthenticated);
    pass(8).await;
    assert!(chain.generation() != before && !chain.still_holds(&identity));
}

#[tokio::test(start_paused = true)]
async fn t29_t32_a_token_that_became_another_users_does_not_hold_for_the_first() {
    let cluster = Cluster::new(Ok(Review::Authenticated(account())));
    let chain = asking(&cluster);
    let identity = chain.authenticate(&bearer("opaque")).await.unwrap();
    *cluster.answer.lock() = Ok(Review::Authenticated(reviewed("system:serviceaccount:ci:other", &[])));
    pass(9).await;
    assert!(!chain.still_holds(&identity));
}

#[tokio::test(start_paused = true)]
async fn t29_the_cluster_is_asked_again_only_about_what_is_open() {
    let cluster = Cluster::new(Ok(Review::Authenticated(account())));
    let chain = asking(&cluster);
    drop(chain.authenticate(&bearer("opaque")).await.unwrap());
    pass(60).await;
    assert_eq!(cluster.count(), 1);
    // Streams of one token are one question, however many they are.
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(chain.authenticate(&bearer("a")).await.unwrap());
    }
    let before = cluster.count();
    pass(7).await;
    assert!((1..=2).contains(&(cluster.count() - before)), "{}", cluster.count() - before);
    drop(open);
}
