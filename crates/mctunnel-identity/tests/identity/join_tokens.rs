//! A join token lets in as many agents as it was made for, while it lasts, and nothing of it is left lying about.

use crate::{
    forge::cluster,
    office::{HOUR, Office, honest_csr, identity, request},
};
use mctunnel_core::Clusters;
use mctunnel_identity::{
    AgentKey, EnrolError, IdentityError, JoinToken, JoinTokenFiles, JoinTokens, TokenId, TokenSecret,
    enrolment::{RefusalKind, wire},
    join_tokens::TokenUse,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

fn code(error: &EnrolError) -> &'static str {
    error.code().code
}

#[test]
fn a_token_survives_its_text_and_nothing_else_is_one() {
    let office = Office::open();
    let token = office.token("c1", 1);
    let text = token.text();
    assert!(text.expose().starts_with("mctj_") && text.expose().len() < 200, "{}", text.expose().len());
    assert_eq!(JoinToken::parse(text.expose()).unwrap(), token);
    assert_eq!(JoinToken::parse(&format!(" {}\n", text.expose())).unwrap(), token, "as it is pasted");
    let good = text.expose();
    let mut bad = vec![String::new(), "mctj_".to_owned(), "mctj".to_owned(), good.replace("mctj_", "mctk_")];
    for cut in 1..good.len() {
        bad.push(good[..cut].to_owned());
    }
    for at in 5..good.len() {
        let mut changed = good.to_owned().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        bad.push(String::from_utf8(changed).unwrap());
    }
    for text in bad {
        let error = JoinToken::parse(&text).expect_err(&text);
        let said = format!("{error} {error:?}");
        assert!(matches!(error, IdentityError::TokenInvalid(_)), "{said}");
        assert!(text.len() < 12 || !said.contains(&text[5..12]), "{said}");
    }
}

#[test]
fn a_token_is_kept_as_a_hash_by_its_owner_alone_and_never_prints() {
    let office = Office::open();
    let token = office.token("c1", 1);
    let path = office.dir.path().join("join-tokens").join(format!("{}.json", token.id));
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(path.clone()), 0o600);
    assert_eq!(mode(office.dir.path().join("join-tokens")), 0o700);
    assert_eq!(mode(office.dir.path().join("join-tokens.lock")), 0o600);
    let kept = fs::read_to_string(&path).unwrap();
    let secret: String = token.secret.expose().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(token.secret.expose().len(), 32, "256 bits");
    let bytes = format!("{:?}", token.secret.expose());
    let request = request(token.id, &token.secret, honest_csr());
    let printed = format!("{token:?} {:?} {request:?} {:?}", token.secret, office.tokens);
    let inner = bytes.trim_matches(['[', ']']);
    for text in [&kept, &printed] {
        assert!(!text.contains(&secret) && !text.contains(inner) && !text.contains(&token.text().expose()[16..]));
    }
    assert_ne!(office.token("c1", 1).secret, token.secret);
}

#[tokio::test]
async fn the_second_use_of_a_one_use_token_is_refused() {
    let office = Office::open();
    let token = office.token("c1", 1);
    let key = AgentKey::generate().unwrap();
    let first = office.enrol(&token, key.request(None).unwrap()).await.unwrap();
    assert!(office.clusters.admits(&cluster("c1"), &first.serial).await);

    let error = office.enrol(&token, honest_csr()).await.unwrap_err();
    assert_eq!((code(&error), error.kind()), ("MCT-ENROL-TOKEN-USED", RefusalKind::Denied));
    assert_eq!(office.serials("c1"), [first.serial.as_str()]);

    // The first agent did not get the answer, and asks with the same key again.
    let again = office.enrol(&token, key.request(None).unwrap()).await.unwrap();
    assert_eq!(office.used(token.id), 1);
    assert_ne!(again.serial, first.serial);
}

#[test]
fn of_many_who_use_a_token_at_once_as_many_get_in_as_it_was_made_for() {
    let office = Office::open();
    let token = office.token("c1", 3);
    let (start, let_in) = (Barrier::new(12), AtomicUsize::new(0));
    // Each as a process of its own would come.
    let tokens: Vec<_> = (0..12).map(|_| JoinTokenFiles::new(office.dir.path())).collect();
    std::thread::scope(|scope| {
        for (at, tokens) in tokens.iter().enumerate() {
            let (start, let_in, token) = (&start, &let_in, &token);
            scope.spawn(move || {
                start.wait();
                let key = at.to_string();
                let used = tokens.take_use(token.id, &token.secret, &TokenUse { cluster: None, key: &key });
                match used {
                    Ok(_) => drop(let_in.fetch_add(1, Ordering::SeqCst)),
                    Err(error) => assert!(matches!(error, EnrolError::TokenUsed), "{error:?}"),
                }
            });
        }
    });
    assert_eq!((let_in.load(Ordering::SeqCst), office.used(token.id)), (3, 3));
}

#[tokio::test]
async fn what_does_not_count_is_told_to_who_has_the_secret_and_to_nobody_else() {
    let office = Office::open();
    let (expired, revoked, used) = (office.token("c1", 1), office.token("c1", 1), office.token("c1", 1));
    office.enrol(&used, honest_csr()).await.unwrap();
    office.tokens.revoke(revoked.id).unwrap();
    let listed = office.serials("c1");
    for (token, reason) in [(&revoked, "MCT-ENROL-TOKEN-REVOKED"), (&used, "MCT-ENROL-TOKEN-USED")] {
        assert_eq!(code(&office.enrol(token, honest_csr()).await.unwrap_err()), reason);
    }
    let another = |token: &JoinToken| JoinToken { secret: TokenSecret::random().unwrap(), ..token.clone() };
    let unknown = JoinToken { id: TokenId::random().unwrap(), ..expired.clone() };
    for token in [&another(&revoked), &another(&used), &another(&expired), &unknown] {
        let error = office.enrol(token, honest_csr()).await.unwrap_err();
        assert_eq!((code(&error), error.to_string().as_str()), ("MCT-ENROL-TOKEN-UNKNOWN", "no such join token"));
    }
    office.clock.forward(HOUR - 1);
    let last_second = office.enrol(&expired, honest_csr()).await;
    assert!(last_second.is_ok(), "{last_second:?}");
    office.clock.forward(1);
    assert_eq!(code(&office.enrol(&expired, honest_csr()).await.unwrap_err()), "MCT-ENROL-TOKEN-EXPIRED");
    assert_eq!(office.serials("c1").len(), listed.len() + 1, "nothing else was issued");
    assert!(matches!(office.tokens.revoke(TokenId::random().unwrap()), Err(IdentityError::TokenNotThere(_))));
}

#[tokio::test]
async fn a_message_that_lacks_its_parts_is_refused() {
    let office = Office::open();
    let token = office.token("c1", 1);
    let whole = request(token.id, &token.secret, honest_csr());
    let proof = |id: &[u8], secret: &[u8]| {
        let proof = wire::JoinTokenProof { id: id.to_vec(), secret: secret.to_vec() };
        wire::EnrolRequest { evidence: Some(wire::Evidence::JoinToken(proof)), ..whole.clone() }
    };
    let (id, secret) = (token.id.as_bytes(), token.secret.expose());
    for request in [
        wire::EnrolRequest { evidence: None, ..whole.clone() },
        proof(&id[..7], secret),
        proof(id, &secret[..31]),
        proof(&[], &[]),
        proof(b"../../..", &[0; 33]),
    ] {
        let error = office.enrolment.enrol(request).await.unwrap_err();
        assert!(matches!(error, EnrolError::Message(_)), "{error:?}");
    }
    let account = wire::ServiceAccountToken { token: "x".to_owned() };
    let evidence = Some(wire::Evidence::ServiceAccountToken(account));
    let error = office.enrolment.enrol(wire::EnrolRequest { evidence, ..whole }).await.unwrap_err();
    assert!(matches!(error, EnrolError::EvidenceNotTaken), "{error:?}");
    assert_eq!(office.used(token.id), 0);
    assert!(wire::decode::<wire::EnrolRequest>(b"\xff\xff").is_err());
}

#[tokio::test]
async fn a_damaged_token_lets_nobody_in() {
    let office = Office::open();
    let token = office.token("c1", 1);
    let path = office.dir.path().join("join-tokens").join(format!("{}.json", token.id));
    let good = fs::read_to_string(&path).unwrap();
    let other = office.token("c2", 1);
    let of_another =
        fs::read_to_string(office.dir.path().join("join-tokens").join(format!("{}.json", other.id))).unwrap();
    for bad in ["", "{}", &good.replace("\"c1\"", "\"C1\""), &good.replace("uses", "abuses"), &of_another] {
        fs::write(&path, bad).unwrap();
        let error = office.enrol(&token, honest_csr()).await.unwrap_err();
        assert_eq!((code(&error), error.kind()), ("MCT-ENROL-HUB", RefusalKind::Later), "{bad:?}: {error:?}");
        assert!(matches!(office.tokens.list(), Err(IdentityError::TokenRecordInvalid { .. })), "{bad:?}");
    }
    fs::write(&path, good).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(office.enrol(&token, honest_csr()).await.is_err(), "a file that everybody may read");
}

#[tokio::test]
async fn lists_show_what_was_made_until_long_after_its_end() {
    let office = Office::open();
    let first = office.token_with("c1", |new| {
        new.labels = [("env".to_owned(), "prod".to_owned())].into();
        new.uses = 2;
    });
    office.enrol(&first, honest_csr()).await.unwrap();
    let listed = office.tokens.list().unwrap();
    let [token] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((token.id, token.uses, token.used, token.revoked), (first.id, 2, 1, false));
    assert_eq!(token.expires_unix - token.created_unix, HOUR);
    assert_eq!(token.labels["env"], "prod");
    assert_eq!(office.clusters.list().unwrap()[0].labels["env"], "prod", "the cluster got the token's labels");
    office.clock.forward(7 * 24 * HOUR);
    let second = office.token("c1", 1);
    assert_eq!(office.tokens.list().unwrap().len(), 2);
    office.clock.forward(2 * HOUR);
    let third = office.token("c1", 1);
    let left: Vec<_> = office.tokens.list().unwrap().iter().map(|token| token.id).collect();
    assert_eq!(left, [second.id, third.id]);
}

#[tokio::test]
async fn a_revoked_cluster_stays_out_until_a_new_token() {
    let office = Office::open();
    let (_, agent) = office.agent("c1").await;
    let open_token = office.token("c1", 5);
    let (_, beside) = office.agent("c2").await;

    office.clusters.revoke(&cluster("c1")).unwrap();

    assert!(!office.clusters.admits(&agent.cluster, &agent.serial).await);
    let error = office.renew(&agent, honest_csr()).unwrap_err();
    assert_eq!(code(&error), "MCT-ENROL-CLUSTER-REVOKED");
    let error = office.enrol(&open_token, honest_csr()).await.unwrap_err();
    assert_eq!(code(&error), "MCT-ENROL-CLUSTER-REVOKED", "a token from before does not count");
    assert_eq!(office.serials("c1"), [""; 0]);
    assert!(office.clusters.is_known(&cluster("c1")).await, "it is not unknown, but out");
    assert!(office.clusters.list().unwrap()[0].revoked_unix.is_some());
    assert_eq!(office.clusters.epoch(&cluster("c1")).unwrap(), None, "evidence without an epoch does not count");
    assert!(office.clusters.admits(&beside.cluster, &beside.serial).await, "others are not touched");

    let (_, back) = office.agent("c1").await;
    assert!(office.clusters.admits(&back.cluster, &back.serial).await);
    assert!(!office.clusters.admits(&agent.cluster, &agent.serial).await, "the old certificate stays out");
    assert_eq!(office.clusters.list().unwrap()[0].revoked_unix, None);

    // Removed and added again: what was promised to the first does not count for the second.
    let promised = office.token("c1", 5);
    office.clusters.remove(&cluster("c1")).unwrap();
    assert_eq!(code(&office.enrol(&promised, honest_csr()).await.unwrap_err()), "MCT-ENROL-CLUSTER-REVOKED");
    office.clusters.ensure(&cluster("c1")).unwrap();
    assert_eq!(code(&office.enrol(&promised, honest_csr()).await.unwrap_err()), "MCT-ENROL-CLUSTER-REVOKED");
}

/// Vouches late: the cluster is revoked between its word and the signature.
#[derive(Debug)]
struct TooLate(JoinTokenFiles, mctunnel_identity::ClusterFiles);

impl JoinTokens for TooLate {
    fn create(&self, new: mctunnel_identity::NewJoinToken) -> Result<(TokenId, TokenSecret), IdentityError> {
        self.0.create(new)
    }

    fn list(&self) -> Result<Vec<mctunnel_identity::JoinTokenRecord>, IdentityError> {
        self.0.list()
    }

    fn revoke(&self, id: TokenId) -> Result<(), IdentityError> {
        self.0.revoke(id)
    }

    fn take_use(
        &self,
        id: TokenId,
        secret: &TokenSecret,
        by: &TokenUse<'_>,
    ) -> Result<mctunnel_identity::join_tokens::TokenGrant, EnrolError> {
        let granted = self.0.take_use(id, secret, by)?;
        self.1.revoke(&granted.cluster)?;
        Ok(granted)
    }
}

#[tokio::test]
async fn a_cluster_that_is_revoked_while_it_enrols_gets_nothing() {
    let office = Office::open();
    let token = office.token("c1", 1);
    let late = TooLate(office.tokens.clone(), office.clusters.clone());
    let clusters = Arc::new(office.clusters.clone());
    let enrolment = mctunnel_identity::Enrolment::new(&office.authority, clusters).with_join_tokens(Arc::new(late));
    let error = enrolment.enrol(request(token.id, &token.secret, honest_csr())).await.unwrap_err();
    assert_eq!(code(&error), "MCT-ENROL-CLUSTER-REVOKED");
    assert_eq!(office.serials("c1"), [""; 0]);
}

#[tokio::test]
async fn what_was_renewed_is_followed_and_what_has_ended_is_forgotten() {
    let office = Office::open();
    let (_, first) = office.agent("c1").await;
    let c1 = cluster("c1");
    assert_eq!(office.clusters.successor(&c1, &first.serial).await, None);
    office.clock.forward(16 * HOUR);
    let second = office.renew(&first, honest_csr()).unwrap();
    let followed = office.clusters.successor(&c1, &first.serial).await.unwrap();
    assert_eq!((followed.serial.as_str(), followed.not_after_unix), (second.serial.as_str(), second.not_after_unix));
    office.clock.forward(10 * HOUR);
    let third = office.renew(&identity(&second), honest_csr()).unwrap();
    assert_eq!(office.serials("c1"), [second.serial.as_str(), third.serial.as_str()], "the first has ended");

    // One who renews without end has no more than a handful, and keeps the one it renews.
    let agent = identity(&third);
    for _ in 0..40 {
        office.renew(&agent, honest_csr()).unwrap();
    }
    let serials = office.serials("c1");
    assert!(serials.len() <= 16 && serials.contains(&agent.serial), "{serials:?}");
}

#[test]
fn a_token_that_outlives_everything_is_still_one() {
    let office = Office::open();
    let token = office.token_with("c1", |new| new.ttl = Duration::MAX);
    assert_eq!(office.tokens.list().unwrap()[0].expires_unix, i64::MAX);
    office.tokens.revoke(token.id).unwrap();
    assert!(office.tokens.list().unwrap()[0].revoked);
}
