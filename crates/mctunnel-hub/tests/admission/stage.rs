//! A hub in this process with its own data directory and a real port, what it reported, and honest agents beside the others.

use mctunnel_agent::{
    Agent,
    allow::AllowList,
    enrol::{EnrolFailed, Enroller},
};
use mctunnel_core::{
    Audit, AuditFull, AuditOutcome, AuditSlot, AuditSubject, ClusterName, Destination, Endpoint, Happening, Observe,
    Open, OpenError, OpenRequest, clusters::SharedClusters,
};
use mctunnel_hub::{Config, Hub, HubServices, cluster_adapter::DynClusterAdapter};
use mctunnel_identity::{
    AgentStore, ClusterFiles, ClusterLedger, EnrolledAgent, Enrolment, HUB_SERVER_NAME, HubAuthority, JoinBundle,
    JoinToken, JoinTokenFiles, JoinTokens, NewJoinToken, RecordedCertificate, enrolment::AGENT_CERTIFICATE_LIFETIME,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::Notify,
    task::JoinSet,
    time::timeout,
};

/// The longest anything here may take; nothing waits for it to pass.
pub(crate) const LIMIT: Duration = Duration::from_secs(15);

pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    pub(crate) authority: HubAuthority,
    pub(crate) clusters: ClusterFiles,
    pub(crate) tokens: JoinTokenFiles,
    pub(crate) hub: Hub,
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Recorder>,
    /// What the hub itself wrote into its audit log.
    pub(crate) records: Records,
    echo: u16,
    tasks: JoinSet<()>,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A hub with other knobs.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = HubAuthority::open_or_create(dir.path(), &[]).unwrap();
        Self::start(dir, authority, AGENT_CERTIFICATE_LIFETIME, change).await
    }

    /// A hub whose agents' certificates live for so long.
    pub(crate) async fn with_lifetime(lifetime: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = HubAuthority::open_or_create(dir.path(), &[]).unwrap();
        Self::start(dir, authority, lifetime, |_| {}).await
    }

    /// A hub with that authority in that directory.
    pub(crate) async fn start(
        dir: TempDir,
        authority: HubAuthority,
        lifetime: Duration,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        Self::start_offering(dir, authority, lifetime, change, |_| Vec::new()).await
    }

    /// A hub that offers services to clusters.
    pub(crate) async fn offering(services: impl FnOnce(SharedClusters) -> Arc<HubServices>) -> Self {
        Self::adapting_with(|_| {}, |clusters| vec![services(clusters)]).await
    }

    /// A hub with other knobs, and with somebody who serves the streams that clusters open.
    pub(crate) async fn adapting(change: impl FnOnce(&mut Config), adapter: Arc<dyn DynClusterAdapter>) -> Self {
        Self::adapting_with(change, |_| vec![adapter]).await
    }

    /// The same with several of them.
    pub(crate) async fn adapting_with(
        change: impl FnOnce(&mut Config),
        adapters: impl FnOnce(SharedClusters) -> Vec<Arc<dyn DynClusterAdapter>>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = HubAuthority::open_or_create(dir.path(), &[]).unwrap();
        Self::start_offering(dir, authority, AGENT_CERTIFICATE_LIFETIME, change, adapters).await
    }

    async fn start_offering(
        dir: TempDir,
        authority: HubAuthority,
        lifetime: Duration,
        change: impl FnOnce(&mut Config),
        adapters: impl FnOnce(SharedClusters) -> Vec<Arc<dyn DynClusterAdapter>>,
    ) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let clusters = ClusterFiles::new(dir.path());
        let tokens = JoinTokenFiles::new(dir.path());
        let enrolment = Enrolment::new(&authority, Arc::new(clusters.clone()))
            .with_join_tokens(Arc::new(tokens.clone()))
            .with_lifetime(lifetime);
        let seen = Arc::new(Recorder::default());
        let observer = Arc::clone(&seen);
        let records = Records::default();
        let hub = Hub::builder(&authority, Arc::new(clusters.clone())).config(config).observer(observer);
        let mut hub = hub.enrolment(enrolment).audit(Arc::new(records.clone()));
        for adapter in adapters(Arc::new(clusters.clone())) {
            hub = hub.cluster_adapter(adapter);
        }
        let hub = hub.build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let serving = hub.clone();
        tasks.spawn(async move { serving.serve_tunnels(listener, serving.stopping()).await });
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = echo.local_addr().unwrap().port();
        tasks.spawn(serve_echo(echo));
        Self { dir, authority, clusters, tokens, hub, address, seen, records, echo: port, tasks }
    }

    /// Stops the hub and starts another in the same directory.
    pub(crate) async fn restart(self) -> Self {
        self.hub.stop().await;
        drop(self.tasks);
        let authority = HubAuthority::open_or_create(self.dir.path(), &[]).unwrap();
        Self::start(self.dir, authority, AGENT_CERTIFICATE_LIFETIME, |_| {}).await
    }

    /// Another hub with the same certificates and clusters, at that address; gives what it reports.
    pub(crate) async fn another_hub(&mut self, address: SocketAddr) -> Arc<Recorder> {
        let seen = Arc::new(Recorder::default());
        let hub = Hub::builder(&self.authority, Arc::new(self.clusters.clone())).observer(seen.clone());
        let hub = hub.build().unwrap();
        let listener = TcpListener::bind(address).await.unwrap();
        self.tasks.spawn(async move { hub.serve_tunnels(listener, hub.stopping()).await });
        seen
    }

    /// A join token for so many agents of a cluster.
    pub(crate) fn token(&self, name: &str, uses: u32) -> JoinToken {
        let cluster = cluster(name);
        let (epoch, pin) = (self.clusters.ensure(&cluster).unwrap(), self.authority.pin());
        let ttl = Duration::from_secs(3600);
        let new = NewJoinToken { cluster, epoch, ttl, uses, labels: BTreeMap::new(), pin };
        let (id, secret) = self.tokens.create(new).unwrap();
        JoinToken { id, secret, pin, hub: self.address.to_string() }
    }

    /// Enrols as `mctunnel agent` does; gives the identity, which is kept in `home`.
    pub(crate) async fn enrol(&self, token: &JoinToken, home: &Path) -> Result<EnrolledAgent, EnrolFailed> {
        Enroller::new(token.clone()).unwrap().enrol(&AgentStore::new(home)).await
    }

    /// Starts an agent that has enrolled, and that renews by itself.
    pub(crate) fn run_enrolled(&mut self, home: &Path, observer: Arc<Recorder>) -> Agent {
        let store = AgentStore::new(home);
        let enrolled = store.load().unwrap().expect("it has enrolled");
        let allow = AllowList::parse([format!("tcp://127.0.0.1:{}", self.echo)]).unwrap();
        let bundle = enrolled.bundle.clone();
        // The hub may have moved since, when it was started again.
        let agent = Agent::builder(&bundle).allow(allow).hub(self.address.to_string()).observer(observer);
        let agent = agent.renewing(store, enrolled).build().unwrap();
        let running = agent.clone();
        self.tasks.spawn(async move { running.run().await });
        agent
    }

    /// Waits until a cluster has a tunnel of that generation.
    pub(crate) async fn tunnel_up(&self, name: &str, generation: u64) {
        let is_it = |h: &Happening| matches!(h, Happening::TunnelUp { cluster, generation: g, .. } if cluster.as_str() == name && *g == generation);
        self.seen.wait("the tunnel", is_it).await;
    }

    /// Adds a cluster and gives what its agent needs. A second time, the first certificate no longer counts.
    pub(crate) fn join_bundle(&self, name: &str) -> JoinBundle {
        let cluster = cluster(name);
        let issued = self.authority.issue_agent(&cluster, Duration::from_secs(3600)).unwrap();
        self.clusters.add(&cluster, &issued.serial, true).unwrap();
        JoinBundle {
            version: JoinBundle::VERSION,
            cluster,
            hub: self.address.to_string(),
            hub_server_name: HUB_SERVER_NAME.to_owned(),
            ca_pem: self.authority.ca_pem().to_owned(),
            certificate_pem: issued.certificate_pem,
            key_pem: issued.key_pem,
        }
    }

    /// Starts a real agent of a new cluster and waits until it is registered.
    pub(crate) async fn honest_agent(&mut self, name: &str) -> Agent {
        let allow = AllowList::parse([format!("tcp://127.0.0.1:{}", self.echo)]).unwrap();
        let agent = Agent::builder(&self.join_bundle(name)).allow(allow).build().unwrap();
        let running = agent.clone();
        self.tasks.spawn(async move { running.run().await });
        self.seen
            .wait(
                "the agent's tunnel",
                |h| matches!(h, Happening::TunnelUp { cluster, .. } if cluster.as_str() == name),
            )
            .await;
        agent
    }

    /// Gives a cluster these labels, as a join token would.
    pub(crate) fn label(&self, name: &str, labels: &[(&str, &str)]) {
        let cluster = cluster(name);
        let epoch = self.clusters.epoch(&cluster).unwrap().expect("it was added");
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let authority = self.authority.pin();
        let issued = RecordedCertificate { serial: "00".to_owned(), not_after_unix: i64::MAX, authority };
        self.clusters.enrolled(&cluster, &epoch, &issued, &labels).unwrap();
    }

    /// Runs something beside the hub until the end.
    pub(crate) fn run(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// A request to the echo server inside a cluster.
    pub(crate) fn request(&self, name: &str) -> OpenRequest {
        let target = Endpoint::parse(&format!("127.0.0.1:{}", self.echo)).unwrap().into();
        OpenRequest::new(Destination { cluster: cluster(name), target })
    }

    /// Sends a few bytes through a cluster's tunnel and back.
    pub(crate) async fn exchange(&self, name: &str) -> Result<(), OpenError> {
        let mut stream = timeout(LIMIT, self.hub.open(self.request(name))).await.unwrap()?;
        stream.write_all(b"ping").await.unwrap();
        let mut answer = [0; 4];
        timeout(LIMIT, stream.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(&answer, b"ping");
        Ok(())
    }

    /// The names of the clusters that have a tunnel.
    pub(crate) fn registered(&self) -> Vec<String> {
        self.hub.tunnels().iter().map(|tunnel| tunnel.cluster.to_string()).collect()
    }
}

pub(crate) fn cluster(name: &str) -> ClusterName {
    ClusterName::parse(name).unwrap()
}

async fn serve_echo(listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((mut socket, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            let (mut reader, mut writer) = socket.split();
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
        });
    }
}

/// Everything the hub reported.
#[derive(Default)]
pub(crate) struct Recorder {
    happenings: Mutex<Vec<Happening>>,
    changed: Notify,
}

impl Observe for Recorder {
    fn observe(&self, happening: &Happening) {
        self.happenings.lock().push(happening.clone());
        self.changed.notify_waiters();
    }
}

impl Recorder {
    /// Waits until something of the kind was reported, before or after now.
    pub(crate) async fn wait(&self, what: &str, is_it: impl Fn(&Happening) -> bool) -> Happening {
        let found = timeout(LIMIT, async {
            loop {
                let changed = self.changed.notified();
                if let Some(happening) = self.happenings.lock().iter().find(|h| is_it(h)) {
                    return happening.clone();
                }
                changed.await;
            }
        });
        found.await.unwrap_or_else(|_| panic!("{what} was not reported, but {:?}", self.happenings.lock()))
    }

    /// Waits until so many of the kind were reported.
    pub(crate) async fn wait_for(&self, count: usize, is_it: impl Fn(&Happening) -> bool) {
        let reached = timeout(LIMIT, async {
            loop {
                let changed = self.changed.notified();
                if self.count(&is_it) >= count {
                    return;
                }
                changed.await;
            }
        });
        reached.await.unwrap_or_else(|_| panic!("{count} were not reported, but {:?}", self.happenings.lock()));
    }

    /// Waits until a peer was turned away; gives why. Each refusal is given once.
    pub(crate) async fn refusal(&self) -> (&'static str, String) {
        let refused = self.wait("a refusal", |h| matches!(h, Happening::PeerRefused { .. })).await;
        self.happenings.lock().retain(|h| *h != refused);
        let Happening::PeerRefused { code, reason, .. } = refused else { unreachable!("it was waited for") };
        (code, reason)
    }

    pub(crate) fn count(&self, is_it: impl Fn(&Happening) -> bool) -> usize {
        self.happenings.lock().iter().filter(|h| is_it(h)).count()
    }
}

// === Records ===

/// An audit log in memory, one line each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records(Arc<Mutex<Vec<Record>>>, Arc<AtomicBool>);

/// A line, the bytes up and down that it has, and the cluster it is about.
type Record = (String, (u64, u64), Option<ClusterName>);

impl Records {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().iter().map(|(line, ..)| line.clone()).collect()
    }

    /// The bytes up and down of each.
    pub(crate) fn moved(&self) -> Vec<(u64, u64)> {
        self.0.lock().iter().map(|(_, moved, _)| *moved).collect()
    }

    /// The cluster that each is about.
    pub(crate) fn about(&self) -> Vec<Option<String>> {
        self.0.lock().iter().map(|(.., cluster)| Some(cluster.as_ref()?.to_string())).collect()
    }

    /// Takes nothing from now on, or again.
    pub(crate) fn set_full(&self, full: bool) {
        self.1.store(full, Ordering::Relaxed);
    }
}

impl Audit for Records {
    fn begin(&self) -> Result<Box<dyn AuditSlot>, AuditFull> {
        if self.1.load(Ordering::Relaxed) { Err(AuditFull) } else { Ok(Box::new(Slot(self.clone()))) }
    }
}

struct Slot(Records);

impl AuditSlot for Slot {
    fn started(&mut self, _: &AuditSubject) {}

    fn finish(self: Box<Self>, subject: &AuditSubject, outcome: &AuditOutcome) {
        let who = subject.identity.as_ref().map_or_else(|| "somebody".to_owned(), ToString::to_string);
        let decision = subject.decision.as_ref().expect("it was decided");
        let verb = if decision.is_allowed() { "allowed" } else { "denied" };
        let end = outcome.error.clone().unwrap_or_else(|| "ended cleanly".to_owned());
        let line = format!("{who} {verb} {}: {end}", decision.rule());
        self.0.0.lock().push((line, (outcome.bytes_up, outcome.bytes_down), subject.cluster.clone()));
    }
}
