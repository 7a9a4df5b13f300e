//! Renewing in virtual time: when, how often, and what a hub that is away or says no does to it.

use super::*;
use mctunnel_core::ClusterName;
use mctunnel_identity::{
    ClusterFiles, Enrolment, HubAuthority, JoinToken, JoinTokenFiles, JoinTokens, NewJoinToken, SharedClock,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};
use tempfile::TempDir;
use tokio::time::Instant;

const HOUR: i64 = 3600;

/// Goes with tokio's clock, and can be set.
#[derive(Debug)]
struct VirtualClock {
    began: Instant,
    offset: AtomicI64,
}

impl Clock for VirtualClock {
    fn unix_now(&self) -> i64 {
        let passed = i64::try_from(self.began.elapsed().as_secs()).unwrap();
        1_800_000_000 + passed + self.offset.load(Ordering::SeqCst)
    }
}

struct Office {
    clock: Arc<VirtualClock>,
    clusters: ClusterFiles,
    enrolment: Enrolment,
    _dir: TempDir,
    /// When renewals were asked for, in seconds since the beginning.
    asked: Mutex<Vec<i64>>,
    happened: Mutex<Vec<Happening>>,
    refused: Notify,
}

impl Office {
    async fn open() -> (Self, EnrolledAgent) {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock { began: Instant::now(), offset: AtomicI64::new(0) });
        let shared: SharedClock = clock.clone();
        let authority = HubAuthority::at(dir.path()).clock(shared.clone()).open_or_create().unwrap();
        let clusters = ClusterFiles::new(dir.path()).with_clock(shared.clone());
        let tokens = JoinTokenFiles::new(dir.path()).with_clock(shared.clone());
        let cluster = ClusterName::parse("c1").unwrap();
        let (epoch, pin) = (clusters.ensure(&cluster).unwrap(), authority.pin());
        let ttl = Duration::from_secs(60);
        let new = NewJoinToken { cluster, epoch, ttl, uses: 1, labels: BTreeMap::new(), pin };
        let (id, secret) = tokens.create(new).unwrap();
        let token = JoinToken { id, secret, pin, hub: "hub:8443".to_owned() };
        let enrolment = Enrolment::new(&authority, Arc::new(clusters.clone())).with_join_tokens(Arc::new(tokens));
        let key = AgentKey::generate().unwrap();
        let proof = wire::JoinTokenProof { id: id.as_bytes().to_vec(), secret: token.secret.expose().to_vec() };
        let evidence = Some(wire::Evidence::JoinToken(proof));
        let request = wire::EnrolRequest { csr: key.request(None).unwrap(), lifetime_seconds: 0, evidence };
        let (issued, _) = enrolment.enrol(request).await.unwrap();
        let agent = EnrolledAgent::enrolled(&token, &key, &issued.answer, &shared).unwrap();
        let (asked, happened) = (Mutex::default(), Mutex::default());
        (Self { clock, clusters, enrolment, _dir: dir, asked, happened, refused: Notify::new() }, agent)
    }

    /// As the hub does it, without the network.
    fn renew(&self, agent: &EnrolledAgent) -> Result<EnrolledAgent, String> {
        let key = AgentKey::generate().unwrap();
        let request = wire::RenewRequest { csr: key.request(None).unwrap(), lifetime_seconds: 0 };
        let identity = agent.bundle.certificate().unwrap();
        let now = self.clock.unix_now();
        assert!(identity.not_after_unix > now, "with one that has ended it would be too late");
        let issued = self.enrolment.renew(&identity, &request).map_err(|error| error.to_string())?;
        let shared: SharedClock = self.clock.clone();
        Ok(agent.renewed(&key, &issued.answer, &shared).unwrap())
    }

    fn note(&self) -> usize {
        let mut asked = self.asked.lock();
        asked.push(i64::try_from(self.clock.began.elapsed().as_secs()).unwrap());
        asked.len()
    }

    async fn run(&self, agent: EnrolledAgent, hours: u64, works: impl Fn(usize) -> bool) {
        let renew = |agent: EnrolledAgent| {
            let renewed = if works(self.note()) { self.renew(&agent) } else { Err("the hub is away".to_owned()) };
            async { renewed }
        };
        let observe = |happening: &Happening| self.happened.lock().push(happening.clone());
        let keeping = keep_renewed(&*self.clock, agent, &self.refused, renew, observe);
        let _ = tokio::time::timeout(Duration::from_secs(hours * 3600), keeping).await;
    }

    fn failures(&self) -> usize {
        self.happened.lock().iter().filter(|h| matches!(h, Happening::RenewalFailed { .. })).count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_renewed_at_two_thirds_of_its_life_for_ever() {
    let (office, agent) = Office::open().await;
    office.run(agent, 10 * 24, |_| true).await;
    let asked = office.asked.lock().clone();
    assert!((13..=17).contains(&asked.len()), "{asked:?}");
    let mut last = 0;
    for at in &asked {
        let after = at - last;
        assert!((24 * HOUR * 37 / 60..=24 * HOUR * 43 / 60 + 60).contains(&after), "{after} in {asked:?}");
        last = *at;
    }
    let mut waits: Vec<_> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    waits.sort_unstable();
    waits.dedup();
    assert!(waits.len() > 3, "a thousand agents that enrolled together do not renew together: {waits:?}");
    assert_eq!(office.happened.lock().len(), asked.len());
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_away_for_a_while_is_asked_again_in_time() {
    let (office, agent) = Office::open().await;
    office.run(agent, 30, |attempt| attempt > 40).await;
    assert_eq!(office.failures(), 40);
    let asked = office.asked.lock().clone();
    for pair in asked[..41].windows(2) {
        let pause = pair[1] - pair[0];
        assert!((224..=376).contains(&pause), "a pause of {pause} s");
    }
    assert!(asked[40] < 24 * HOUR, "renewed before the end");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_agent_asks_in_vain_and_not_in_a_loop() {
    let (office, agent) = Office::open().await;
    office.clusters.revoke(&ClusterName::parse("c1").unwrap()).unwrap();
    office.run(agent, 20, |_| true).await;
    let failed = office.failures();
    assert!((20..=100).contains(&failed), "{failed}");
    let happened = office.happened.lock();
    assert!(
        matches!(&happened[0], Happening::RenewalFailed { reason, .. } if reason.contains("revoked")),
        "{happened:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_is_noticed() {
    let (office, agent) = Office::open().await;
    let set = async {
        // tidy: sleep because the clock is paused
        tokio::time::sleep(Duration::from_secs(600)).await;
        office.clock.offset.store(18 * HOUR, Ordering::SeqCst);
    };
    tokio::join!(office.run(agent, 1, |_| true), set);
    let asked = office.asked.lock().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!((600..=661).contains(&asked[0]), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_was_refused_is_not_held_on_to_and_nobody_asks_in_a_loop() {
    let (office, agent) = Office::open().await;
    // Each attempt at a tunnel is refused, and says so.
    let refuse = async {
        for _ in 0..3600 {
            office.refused.notify_one();
            // tidy: sleep because the clock is paused
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::join!(office.run(agent, 1, |attempt| attempt == 20), refuse);
    let asked = office.asked.lock().clone();
    assert!(asked[0] < 2, "not only when it is due: {asked:?}");
    let pauses = asked.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(pauses.clone().all(|pause| pause >= 224) && asked.len() >= 9, "{asked:?}");
}

#[test]
fn short_lives_are_asked_for_again_soon() {
    let pause = |seconds, random| {
        let bundle = mctunnel_identity::JoinBundle {
            version: 1,
            cluster: ClusterName::parse("c1").unwrap(),
            hub: String::new(),
            hub_server_name: String::new(),
            ca_pem: String::new(),
            certificate_pem: String::new(),
            key_pem: mctunnel_core::Secret::new(""),
        };
        let by = mctunnel_identity::EnrolledBy::ServiceAccount;
        let agent = EnrolledAgent { bundle, by, obtained_unix: 0, lifetime: Duration::from_secs(seconds) };
        pause_after_failure(&agent, random).as_millis()
    };
    assert_eq!((pause(5, 0.0), pause(5, 1.0)), (750, 1250));
    assert_eq!((pause(600, 0.5), pause(86_400, 0.5)), (20_000, 300_000));
}
