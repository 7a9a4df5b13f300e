//! Which token vouches for which cluster, as one table; and what a slow cluster or a greedy agent gets.

use super::*;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mctunnel_authn::{Review, ReviewedUser, Reviewing};
use mctunnel_core::ClusterName;
use mctunnel_identity::{
    AgentKey, ClusterFiles, Enrolment, HubAuthority,
    enrolment::{RefusalKind, wire},
};
use parking_lot::Mutex;
use serde_json::json;
use std::error::Error;
use tempfile::TempDir;

const OURS: &str = "mctunnel-enrol";
const CANARY: &str = "canary-of-a-signature";
const RUNNER: &str = "system:serviceaccount:fleet:runner";

/// A token with these claims. Who signed it, only the cluster knows.
fn token_with(claims: &serde_json::Value) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{CANARY}", part(r#"{"alg":"RS256"}"#), part(&claims.to_string()))
}

/// A token that says it is of the runner, for this hub.
fn token() -> String {
    token_with(&json!({"sub": RUNNER, "aud": [OURS], "exp": SystemClock.unix_now() + 3600}))
}

/// What the cluster answers.
#[derive(Clone)]
enum Answer {
    Says(Review),
    Fails,
    /// Never.
    Nothing,
}

/// A cluster that takes down what it was asked.
struct Api {
    answer: Mutex<Answer>,
    asked: Mutex<Vec<(String, Vec<String>)>>,
}

impl ReviewToken for Api {
    fn review<'a>(&'a self, token: &'a Secret, audiences: &'a [String]) -> Reviewing<'a> {
        self.asked.lock().push((token.expose().to_owned(), audiences.to_vec()));
        let answer = self.answer.lock().clone();
        Box::pin(async move {
            match answer {
                Answer::Says(review) => Ok(review),
                Answer::Fails => Err("the answer is 500".to_owned()),
                Answer::Nothing => std::future::pending().await,
            }
        })
    }
}

fn user(name: &str, audiences: &[&str]) -> Answer {
    let audiences = audiences.iter().map(|&one| one.to_owned()).collect();
    Answer::Says(Review::Authenticated(ReviewedUser { name: name.to_owned(), audiences, ..ReviewedUser::default() }))
}

fn runner() -> Answer {
    user("system:serviceaccount:fleet:runner", &[OURS])
}

fn cluster(name: &str) -> ClusterName {
    ClusterName::parse(name).unwrap()
}

fn account(text: &str) -> ServiceAccount {
    ServiceAccount::parse(text).unwrap()
}

/// A hub at which fleet/runner vouches for c1, and fleet/gone did for c3 until that was revoked.
struct Office {
    dir: TempDir,
    clusters: ClusterFiles,
    api: Arc<Api>,
    evidence: Arc<ServiceAccountEvidence>,
}

impl Office {
    fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clusters = ClusterFiles::new(dir.path());
        clusters.allow_service_account(&cluster("c1"), &account("fleet/runner")).unwrap();
        clusters.ensure(&cluster("c2")).unwrap();
        clusters.allow_service_account(&cluster("c3"), &account("fleet/gone")).unwrap();
        clusters.revoke(&cluster("c3")).unwrap();
        let api = Arc::new(Api { answer: Mutex::new(Answer::Fails), asked: Mutex::default() });
        let audiences = vec![OURS.to_owned(), "also-us".to_owned()];
        let evidence = ServiceAccountEvidence::new(api.clone(), audiences, Arc::new(clusters.clone()));
        Self { dir, clusters, api, evidence: Arc::new(evidence) }
    }

    async fn vouch(&self, answer: Answer, asks_to_be: Option<&str>) -> Result<Option<Vouched>, EnrolError> {
        *self.api.answer.lock() = answer;
        self.show(token(), None, asks_to_be).await
    }

    /// What the evidence says to a token from that address.
    async fn show(
        &self,
        token: String,
        source: Option<IpAddr>,
        asks_to_be: Option<&str>,
    ) -> Result<Option<Vouched>, EnrolError> {
        let presented = Presented::ServiceAccountToken(Secret::new(token));
        let asked = VouchedFor { cluster: asks_to_be.map(cluster), key: "00".to_owned(), source };
        EnrolEvidence::vouch(&*self.evidence, &presented, &asked).await
    }
}

/// What the asker is told, and what stands in the hub's log.
fn told(error: &EnrolError) -> (String, String) {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    (error.to_string(), causes.map(ToString::to_string).collect())
}

#[tokio::test(start_paused = true)]
async fn t29_who_is_not_a_recorded_account_for_this_hub_vouches_for_nobody() {
    let office = Office::open();
    let runner_for = |audiences: &[&str]| user("system:serviceaccount:fleet:runner", audiences);
    let refused = RefusalKind::Denied;
    let table = [
        ("not authenticated", Answer::Says(Review::NotAuthenticated), refused),
        ("for another audience", runner_for(&["https://kubernetes.default.svc"]), refused),
        ("for no audience", runner_for(&[]), refused),
        ("for one that begins like ours", runner_for(&["mctunnel-enrol-not"]), refused),
        ("a user", user("alice", &[OURS]), refused),
        ("a node", user("system:node:fleet", &[OURS]), refused),
        ("three names", user("system:serviceaccount:fleet:runner:x", &[OURS]), refused),
        ("one name", user("system:serviceaccount:fleet", &[OURS]), refused),
        ("in capitals", user("system:serviceaccount:fleet:Runner", &[OURS]), refused),
        ("of another namespace", user("system:serviceaccount:other:runner", &[OURS]), refused),
        ("recorded for none", user("system:serviceaccount:fleet:nobody", &[OURS]), refused),
        ("revoked since", user("system:serviceaccount:fleet:gone", &[OURS]), refused),
        ("an API that fails", Answer::Fails, RefusalKind::Later),
        ("an API that says nothing", Answer::Nothing, RefusalKind::Later),
    ];
    let mut texts: Vec<(RefusalKind, String)> = Vec::new();
    for (what, answer, kind) in table {
        let error = office.vouch(answer, None).await.expect_err(what);
        assert_eq!(error.kind(), kind, "{what}: {error:?}");
        let (text, why) = told(&error);
        assert!(!why.is_empty(), "{what}: the hub's log says why");
        // Neither the token nor who it was of: an operator finds an account's name in the log, a stranger finds nothing.
        assert!(!format!("{text} {why} {error:?}").contains(CANARY), "t36 {what}: {text} {why}");
        assert!(!text.contains("fleet") && !text.contains("500"), "{what}: {text}");
        texts.push((kind, text));
    }
    texts.dedup();
    assert_eq!(texts.len(), 2, "one text for every refusal, and one for later: {texts:?}");
}

#[tokio::test]
async fn the_account_alone_says_which_cluster_it_is() {
    let office = Office::open();
    let vouched = office.vouch(runner(), None).await.unwrap().unwrap();
    assert_eq!((vouched.cluster.as_str(), vouched.by.as_str()), ("c1", "ServiceAccount fleet/runner"));
    assert_eq!(Some(vouched.epoch), office.clusters.epoch(&cluster("c1")).unwrap());
    assert!(office.vouch(runner(), Some("c1")).await.unwrap().is_some());
    let another = office.vouch(runner(), Some("c2")).await;
    assert!(matches!(another, Err(EnrolError::TokenOfAnotherCluster)), "{another:?}");
    let also = user("system:serviceaccount:fleet:runner", &["else", "also-us"]);
    assert!(office.vouch(also, None).await.unwrap().is_some(), "any of our audiences counts");
    let asked = office.api.asked.lock().clone();
    assert!(
        asked.iter().all(|(token, audiences)| token.ends_with(CANARY) && audiences == &[OURS, "also-us"]),
        "{asked:?}"
    );
    let join_token = Presented::JoinToken {
        id: mctunnel_identity::TokenId::random().unwrap(),
        secret: mctunnel_identity::TokenSecret::random().unwrap(),
    };
    let asked = VouchedFor { cluster: None, key: "00".to_owned(), source: None };
    assert_eq!(EnrolEvidence::vouch(&*office.evidence, &join_token, &asked).await.unwrap(), None, "not its business");
}

#[tokio::test]
async fn without_an_audience_nothing_is_asked_and_nothing_taken() {
    let office = Office::open();
    let evidence = ServiceAccountEvidence::new(office.api.clone(), Vec::new(), Arc::new(office.clusters.clone()));
    *office.api.answer.lock() = user("system:serviceaccount:fleet:runner", &["https://kubernetes.default.svc"]);
    let presented = Presented::ServiceAccountToken(Secret::new(token()));
    let asked = VouchedFor { cluster: None, key: "00".to_owned(), source: None };
    let error = EnrolEvidence::vouch(&evidence, &presented, &asked).await.unwrap_err();
    assert_eq!(error.kind(), RefusalKind::Denied);
    assert!(office.api.asked.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn t29_a_slow_cluster_is_not_asked_by_everybody_at_once() {
    let office = Arc::new(Office::open());
    *office.api.answer.lock() = Answer::Nothing;
    let mut waiting = tokio::task::JoinSet::new();
    for n in 0..50 {
        let (office, source) = (Arc::clone(&office), IpAddr::from([192, 0, 2, n]));
        waiting.spawn(async move { office.show(token(), Some(source), None).await.unwrap_err().kind() });
    }
    let begin = tokio::time::Instant::now();
    while let Some(kind) = waiting.join_next().await {
        assert_eq!(kind.unwrap(), RefusalKind::Later);
    }
    assert_eq!(office.api.asked.lock().len(), AT_ONCE);
    assert!(begin.elapsed() <= PATIENCE, "{:?}", begin.elapsed());
    assert!(office.vouch(runner(), None).await.is_ok(), "the turns were given back");
}

#[tokio::test(start_paused = true)]
async fn t29_t40_strangers_who_ask_a_lot_keep_nobody_out() {
    let office = Arc::new(Office::open());
    let mut strangers = tokio::task::JoinSet::new();
    for n in 0..50_u8 {
        let office = Arc::clone(&office);
        strangers.spawn(async move {
            // The worst of garbage looks good: it names an account that is recorded. Each address in the network is tried.
            let source = Some(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(n)]));
            office.show(token(), source, None).await.unwrap_err().kind()
        });
    }
    *office.api.answer.lock() = Answer::Nothing;
    // They are all there, and the cluster has answered none of them.
    while office.api.asked.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    *office.api.answer.lock() = runner();

    let good = office.show(token(), Some(IpAddr::from([192, 0, 2, 1])), None).await;

    assert!(good.is_ok_and(|vouched| vouched.is_some()), "at the first try");
    assert_eq!(office.api.asked.lock().len(), 2, "one of them, and the good one");
    assert!(strangers.join_all().await.into_iter().all(|kind| kind == RefusalKind::Later));
}

#[tokio::test]
async fn t29_what_a_token_says_against_itself_is_enough() {
    let office = Office::open();
    *office.api.answer.lock() = runner();
    let now = SystemClock.unix_now();
    let good = json!({"sub": RUNNER, "aud": [OURS], "exp": now + 3600, "iss": "https://kubernetes.default.svc"});
    let but = |name: &str, value: serde_json::Value| {
        let mut claims = good.clone();
        claims[name] = value;
        token_with(&claims)
    };
    let table = [
        ("random bytes", "x".repeat(900)),
        ("two parts", format!("e30.{CANARY}")),
        ("four parts", format!("{}.e30", token())),
        ("no claims", token_with(&json!({}))),
        ("no object", token_with(&json!("runner"))),
        ("claims in base64 with padding", format!("e30.e30=.{CANARY}")),
        ("for another audience", but("aud", json!(["https://kubernetes.default.svc"]))),
        ("for one that begins like ours", but("aud", json!("mctunnel-enrol-not"))),
        ("for no audience", but("aud", json!([]))),
        ("ended", but("exp", json!(now - 3600))),
        ("ends as a word", but("exp", json!("never"))),
        ("never ends", but("exp", serde_json::Value::Null)),
        ("of a user", but("sub", json!("alice"))),
        ("of an account that is recorded for none", but("sub", json!("system:serviceaccount:fleet:nobody"))),
        ("of an account that was revoked", but("sub", json!("system:serviceaccount:fleet:gone"))),
    ];
    for (what, token) in table {
        let error = office.show(token, None, None).await.expect_err(what);
        assert_eq!(error.kind(), RefusalKind::Denied, "{what}");
        let (text, why) = told(&error);
        assert!(!why.is_empty() && !format!("{text} {why} {error:?}").contains(CANARY), "t36 {what}: {text} {why}");
    }
    assert!(office.api.asked.lock().is_empty(), "the cluster was not asked");
    for (what, token) in [
        ("as Kubernetes makes them", token_with(&good)),
        ("one audience without a list", but("aud", json!("also-us"))),
        ("one of several audiences", but("aud", json!(["else", OURS]))),
        ("by a clock that is off by some minutes", but("exp", json!(now - 60))),
    ] {
        assert!(office.show(token, None, None).await.is_ok_and(|vouched| vouched.is_some()), "{what}");
    }
}

#[tokio::test]
async fn t25_a_request_for_another_cluster_gets_nothing() {
    let office = Office::open();
    let authority = HubAuthority::open_or_create(office.dir.path(), &[]).unwrap();
    let enrolment =
        Enrolment::new(&authority, Arc::new(office.clusters.clone())).with_evidence(office.evidence.clone());
    let request = |named: Option<&str>, token: &str| {
        let key = AgentKey::generate().unwrap();
        let csr = key.request(named.map(cluster).as_ref()).unwrap();
        let token = wire::ServiceAccountToken { token: token.to_owned() };
        wire::EnrolRequest { csr, lifetime_seconds: 0, evidence: Some(wire::Evidence::ServiceAccountToken(token)) }
    };
    *office.api.answer.lock() = runner();
    for other in ["c2", "c3", "nowhere"] {
        let error = enrolment.enrol(request(Some(other), &token())).await.unwrap_err();
        assert!(matches!(error, EnrolError::TokenOfAnotherCluster), "{other}: {error:?}");
    }
    let asked = office.api.asked.lock().len();
    for none in ["", "two words", "a\nb", "t\u{f6}ken", &"x".repeat(wire::MOST_TOKEN_BYTES + 1)] {
        let error = enrolment.enrol(request(None, none)).await.unwrap_err();
        assert!(matches!(error, EnrolError::Message(_)), "{error:?}");
    }
    assert_eq!(office.api.asked.lock().len(), asked, "what cannot be a token is not asked about");
    let serials = || office.clusters.list().unwrap().into_iter().map(|record| record.serials.len()).sum::<usize>();
    assert_eq!(serials(), 0, "nothing was issued");
    let longest = format!("{:x<1$}", token(), wire::MOST_TOKEN_BYTES);
    let (issued, vouched) = enrolment.enrol(request(Some("c1"), &longest)).await.unwrap();
    assert_eq!((issued.cluster, vouched.cluster, serials()), (cluster("c1"), cluster("c1"), 1));
    let debug = format!("{:?} {:?}", request(None, &token()), office.evidence);
    assert!(!debug.contains(CANARY), "t36: {debug}");
}

/// Revokes while the answer is under way.
struct RevokedMeanwhile(ClusterFiles);

impl ReviewToken for RevokedMeanwhile {
    fn review<'a>(&'a self, _: &'a Secret, _: &'a [String]) -> Reviewing<'a> {
        self.0.revoke(&cluster("c1")).unwrap();
        let Answer::Says(review) = runner() else { unreachable!("it says so") };
        Box::pin(std::future::ready(Ok(review)))
    }
}

/// Revokes, and lets the account vouch again, between the promise and the certificate.
#[derive(Debug)]
struct RevokedAfterwards(ClusterFiles);

impl FindCluster for RevokedAfterwards {
    fn vouched_for_by(
        &self,
        account: &ServiceAccount,
    ) -> Result<Option<(ClusterName, String)>, mctunnel_identity::IdentityError> {
        let found = self.0.vouched_for_by(account);
        self.0.revoke(&cluster("c1")).unwrap();
        self.0.allow_service_account(&cluster("c1"), account).unwrap();
        found
    }
}

#[tokio::test]
async fn t25_who_is_revoked_meanwhile_gets_nothing() {
    for afterwards in [false, true] {
        let office = Office::open();
        *office.api.answer.lock() = runner();
        let (reviews, find): (Arc<dyn ReviewToken>, Arc<dyn FindCluster>) = if afterwards {
            (office.api.clone(), Arc::new(RevokedAfterwards(office.clusters.clone())))
        } else {
            (Arc::new(RevokedMeanwhile(office.clusters.clone())), Arc::new(office.clusters.clone()))
        };
        let evidence = ServiceAccountEvidence::new(reviews, vec![OURS.to_owned()], find);
        let authority = HubAuthority::open_or_create(office.dir.path(), &[]).unwrap();
        let enrolment = Enrolment::new(&authority, Arc::new(office.clusters.clone())).with_evidence(Arc::new(evidence));
        let csr = AgentKey::generate().unwrap().request(None).unwrap();
        let token = wire::ServiceAccountToken { token: token() };
        let evidence = Some(wire::Evidence::ServiceAccountToken(token));
        let error = enrolment.enrol(wire::EnrolRequest { csr, lifetime_seconds: 0, evidence }).await.unwrap_err();
        assert_eq!(error.kind(), RefusalKind::Denied, "{afterwards}: {error:?}");
        assert!(office.clusters.list().unwrap().iter().all(|record| record.serials.is_empty()), "{afterwards}");
    }
}
