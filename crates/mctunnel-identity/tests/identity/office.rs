//! A hub's side of enrolment in a directory of its own, with a clock that stands until it is set.

use crate::forge::cluster;
use mctunnel_identity::{
    AgentIdentity, AgentKey, CaPin, Clock, ClusterFiles, EnrolError, Enrolment, HubAuthority, JoinToken,
    JoinTokenFiles, JoinTokens, NewJoinToken, SharedClock, TokenId, TokenSecret,
    enrolment::{Issued, wire},
};
use rustls_pki_types::CertificateDer;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

pub(crate) const HOUR: i64 = 60 * 60;

/// A clock that stands until it is set. It begins now, so that certificates of other makers are valid too.
#[derive(Debug)]
pub(crate) struct StandingClock(AtomicI64);

impl StandingClock {
    pub(crate) fn now() -> Arc<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        Arc::new(Self(AtomicI64::new(i64::try_from(now).unwrap())))
    }

    pub(crate) fn forward(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for StandingClock {
    fn unix_now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct Office {
    pub(crate) dir: TempDir,
    pub(crate) clock: Arc<StandingClock>,
    pub(crate) authority: HubAuthority,
    pub(crate) clusters: ClusterFiles,
    pub(crate) tokens: JoinTokenFiles,
    pub(crate) enrolment: Enrolment,
}

impl Office {
    pub(crate) fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = StandingClock::now();
        let shared: SharedClock = clock.clone();
        let authority = HubAuthority::at(dir.path()).clock(shared.clone()).open_or_create().unwrap();
        let clusters = ClusterFiles::new(dir.path()).with_clock(shared.clone());
        let tokens = JoinTokenFiles::new(dir.path()).with_clock(shared);
        let enrolment =
            Enrolment::new(&authority, Arc::new(clusters.clone())).with_join_tokens(Arc::new(tokens.clone()));
        Self { dir, clock, authority, clusters, tokens, enrolment }
    }

    pub(crate) fn shared_clock(&self) -> SharedClock {
        self.clock.clone()
    }

    /// A token for so many agents of a cluster, good for an hour.
    pub(crate) fn token(&self, name: &str, uses: u32) -> JoinToken {
        self.token_with(name, |new| new.uses = uses)
    }

    pub(crate) fn token_with(&self, name: &str, change: impl FnOnce(&mut NewJoinToken)) -> JoinToken {
        let epoch = self.clusters.ensure(&cluster(name)).unwrap();
        let pin = self.authority.pin();
        let ttl = Duration::from_secs(3600);
        let mut new = NewJoinToken { cluster: cluster(name), epoch, ttl, uses: 1, labels: BTreeMap::new(), pin };
        change(&mut new);
        let (id, secret) = self.tokens.create(new).unwrap();
        JoinToken { id, secret, pin, hub: "hub.example.com:8443".to_owned() }
    }

    pub(crate) async fn enrol(&self, token: &JoinToken, csr: Vec<u8>) -> Result<Issued, EnrolError> {
        self.enrolment.enrol(request(token.id, &token.secret, csr)).await.map(|(issued, _)| issued)
    }

    /// An agent of a cluster that has just enrolled, by a token of its own.
    pub(crate) async fn agent(&self, name: &str) -> (Issued, AgentIdentity) {
        let token = self.token(name, 1);
        let issued = self.enrol(&token, AgentKey::generate().unwrap().request(None).unwrap()).await.unwrap();
        let identity = identity(&issued);
        (issued, identity)
    }

    pub(crate) fn renew(&self, agent: &AgentIdentity, csr: Vec<u8>) -> Result<Issued, EnrolError> {
        self.enrolment.renew(agent, &wire::RenewRequest { csr, lifetime_seconds: 0 })
    }

    /// The serials that count for a cluster.
    pub(crate) fn serials(&self, name: &str) -> Vec<String> {
        let records = self.clusters.list().unwrap();
        records.into_iter().find(|record| record.cluster == cluster(name)).map(|record| record.serials).unwrap()
    }

    /// How many agents have used a token.
    pub(crate) fn used(&self, id: TokenId) -> u32 {
        self.tokens.list().unwrap().iter().find(|token| token.id == id).unwrap().used
    }

    pub(crate) fn pins(&self) -> Vec<CaPin> {
        self.authority.authorities().iter().map(|ca| CaPin::of(ca).unwrap()).collect()
    }
}

pub(crate) fn request(id: TokenId, secret: &TokenSecret, csr: Vec<u8>) -> wire::EnrolRequest {
    let proof = wire::JoinTokenProof { id: id.as_bytes().to_vec(), secret: secret.expose().to_vec() };
    wire::EnrolRequest { csr, lifetime_seconds: 0, evidence: Some(wire::Evidence::JoinToken(proof)) }
}

/// Who the bearer of a certificate is.
pub(crate) fn identity(issued: &Issued) -> AgentIdentity {
    let shown = CertificateDer::from(issued.answer.certificate.clone());
    AgentIdentity::from_certificates(&[shown]).unwrap()
}

/// A request that an honest agent makes, with a key of its own.
pub(crate) fn honest_csr() -> Vec<u8> {
    AgentKey::generate().unwrap().request(None).unwrap()
}
